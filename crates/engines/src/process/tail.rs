//! The end of a program's stderr: some failures are reported nowhere else.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How many bytes are shown.
const MAX_BYTES: usize = 4096;

/// The end of a stream, shared with the task that reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads `source` to its end, so that the program never blocks on a full pipe.
    pub(crate) async fn follow(self, mut source: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; MAX_BYTES];
        while let Ok(length @ 1..) = source.read(&mut chunk).await {
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend_from_slice(&chunk[..length]);
            // One byte more than is shown, to detect that the beginning was cut off.
            let surplus = tail.len().saturating_sub(MAX_BYTES + 1);
            tail.drain(..surplus);
        }
    }

    /// Returns the text so far, in whole lines and without terminal sequences. None if it is blank.
    pub(crate) fn text(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let whole_lines = match text.split_once('\n') {
            Some((_, rest)) if tail.len() > MAX_BYTES => rest,
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
    async fn only_whole_lines_of_the_end_are_returned() {
        let text: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let tail = tail_of(text.as_bytes()).await.unwrap();
        assert!(tail.len() <= MAX_BYTES && tail.ends_with("line 9999"), "{tail}");
        assert!(tail.lines().all(|line| line.starts_with("line ")), "{tail}");
        assert_eq!(tail_of(b"").await, None);
        assert_eq!(tail_of(b" \n\n").await, None);
    }

    #[tokio::test]
    async fn terminal_sequences_and_control_characters_are_removed() {
        let text = b"\x1b[91m\x1b[1mError: \x1b[0mSession not found\r\n\xff\x07\n";
        assert_eq!(tail_of(text).await.as_deref(), Some("Error: Session not found\n\u{fffd}"));
        assert_eq!(tail_of(b"cut \x1b[9").await.as_deref(), Some("cut"));
    }
}
