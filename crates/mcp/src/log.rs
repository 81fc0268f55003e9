//! The log of a server: what it printed on stderr, its log messages, and what happened to its connection. Bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::text::clean;

/// Lines that are kept.
const LINES: usize = 500;
/// Bytes of a line.
const LINE: usize = 2000;
/// Bytes of the tail that error messages quote.
const TAIL: usize = 500;

/// The newest lines of a server's log. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServerLog(Arc<Mutex<VecDeque<String>>>);

impl ServerLog {
    /// Adds a line.
    pub(crate) fn add(&self, line: &str) {
        let line = clean(line.trim_end(), LINE).replace('\n', " ");
        let mut lines = lock(&self.0);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns the lines, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        lock(&self.0).iter().cloned().collect()
    }

    /// Returns the end of the log, if there is any.
    pub(crate) fn tail(&self) -> Option<String> {
        let lines = lock(&self.0);
        let mut tail: Vec<&str> = Vec::new();
        let mut length = 0;
        for line in lines.iter().rev().filter(|line| !line.is_empty()) {
            length += line.len() + 1;
            if length > TAIL && !tail.is_empty() {
                break;
            }
            tail.push(line);
        }
        tail.reverse();
        (!tail.is_empty()).then(|| clean(&tail.join("\n"), TAIL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_lines_are_kept() {
        let log = ServerLog::default();
        for n in 0..2 * LINES {
            log.add(&format!("line {n}\r\n"));
        }
        log.add(&"x".repeat(10 * LINE));
        let lines = log.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[LINES - 2], format!("line {}", 2 * LINES - 1));
        assert!(lines[LINES - 1].len() < LINE + 10);
        assert!(log.tail().unwrap().len() < TAIL + 10);
    }

    #[test]
    fn tail_of_an_empty_log_is_absent() {
        let log = ServerLog::default();
        assert_eq!(log.tail(), None);
        log.add("");
        log.add("why");
        assert_eq!(log.tail().as_deref(), Some("why"));
    }
}
