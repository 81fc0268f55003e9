//! The bounded result of a search.

use baton_protocol::tool::ToolResult;

use crate::tools::text::clip;

/// Below the limit above which outputs are stored in a file: a search that finds more is too broad.
const MOST_BYTES: usize = 48 * 1024;
/// Longer lines are in generated files.
const LONGEST_LINE: usize = 1000;

/// Collects lines until it is full.
pub(super) struct Report {
    text: String,
    room: usize,
    full: Option<&'static str>,
}

impl Report {
    /// Creates a report of at most `limit` lines.
    pub(super) fn new(limit: Option<usize>) -> Self {
        Self { text: String::new(), room: limit.unwrap_or(usize::MAX), full: None }
    }

    /// Adds a line, and returns whether there is room for more.
    pub(super) fn add(&mut self, line: &str) -> bool {
        let line = line.trim_end_matches(['\n', '\r']);
        let shown = clip(line, LONGEST_LINE);
        let rest = line.len() - shown.len();
        let note = if rest > 0 { format!(" [{rest} more bytes]") } else { String::new() };
        if self.room == 0 {
            self.full = Some("as many as asked for");
        } else if self.text.len() + shown.len() + note.len() >= MOST_BYTES {
            self.full = Some("as many as fit");
        } else {
            self.text += &format!("{shown}{note}\n");
            self.room -= 1;
        }
        self.full.is_none()
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    pub(super) fn finish(self, nothing: &str) -> ToolResult {
        let Some(why) = self.full else {
            let text = self.text.trim_end_matches('\n');
            return ToolResult::success(if text.is_empty() { nothing } else { text });
        };
        ToolResult::success(format!("{}[There are more results; these are {why}.]", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_report_says_so() {
        let report_of = |limit, lines: &[&str]| {
            let mut report = Report::new(limit);
            let _ = lines.iter().all(|line| report.add(line));
            report.finish("Nothing.").text_result_for_llm
        };
        assert_eq!(report_of(None, &[]), "Nothing.");
        assert_eq!(report_of(Some(2), &["a\n", "b\r\n"]), "a\nb");
        assert_eq!(
            report_of(Some(1), &["a", "b"]),
            "a\n[There are more results; these are as many as asked for.]"
        );
        assert!(report_of(None, &["ü".repeat(700).as_str()]).ends_with(" [400 more bytes]"));
        let many = vec!["x".repeat(900); 100];
        let many = report_of(None, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(many.len() < MOST_BYTES + 100 && many.ends_with("as many as fit.]"));
    }
}
