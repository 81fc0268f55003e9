//! The end of what a program writes to stderr: some failures are told nowhere else.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

const KEPT: usize = 4096;

/// Shared by the task that reads and whoever wants to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads `source` to its end, so that the program never waits for a reader, and keeps the end of it.
    pub(crate) async fn follow(self, mut source: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; KEPT];
        while let Ok(length @ 1..) = source.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&chunk[..length]);
            // One byte more than is shown tells that there was more.
            let surplus = kept.len().saturating_sub(KEPT + 1);
            kept.drain(..surplus);
        }
    }

    /// What is known now, without colours; none if there is nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let whole_lines = match text.split_once('\n') {
            Some((_, rest)) if kept.len() > KEPT => rest,
            _ => &text,
        };
        let text = without_escapes(whole_lines);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Drops terminal sequences such as `ESC [ 9 1 m`, and other control characters.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => {
                if characters.next() == Some('[') {
                    let _ = characters.find(|c| ('@'..='~').contains(c));
                }
            }
            '\n' | '\t' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(bytes: &[u8]) -> Option<String> {
        let tail = Tail::default();
        tail.clone().follow(bytes).await;
        tail.text()
    }

    #[tokio::test]
    async fn the_end_is_kept_in_whole_lines() {
        let text: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let tail = tail_of(text.as_bytes()).await.unwrap();
        assert!(tail.len() <= KEPT && tail.ends_with("line 9999"), "{tail}");
        assert!(tail.lines().all(|line| line.starts_with("line ")), "{tail}");
        assert_eq!(tail_of(b"").await, None);
        assert_eq!(tail_of(b" \n\n").await, None);
    }

    #[tokio::test]
    async fn colours_and_garbage_are_left_out() {
        let text = b"\x1b[91m\x1b[1mError: \x1b[0mSession not found\r\n\xff\x07\n";
        assert_eq!(tail_of(text).await.as_deref(), Some("Error: Session not found\n\u{fffd}"));
        assert_eq!(tail_of(b"cut \x1b[9").await.as_deref(), Some("cut"));
    }
}
