//! A program's stderr: its lines as they arrive, and its end. Some failures are reported nowhere else.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// How many bytes are shown.
const MAX_BYTES: usize = 4096;
/// How many lines can wait to be read. Further ones are only in the tail.
const MAX_LINES: usize = 64;

/// The end of a stream, shared with the task that reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Returns the tail of a stream that is about to be followed, and its lines.
    pub(crate) fn with_lines() -> (Self, DiagnosticLines, mpsc::Receiver<String>) {
        let (lines, received) = mpsc::channel(MAX_LINES);
        (Self::default(), DiagnosticLines { lines, begun: Vec::new() }, received)
    }

    /// Reads `source` to its end, so that the program never blocks on a full pipe.
    pub(crate) async fn follow(self, mut source: impl AsyncRead + Unpin, mut lines: DiagnosticLines) {
        let mut chunk = vec![0; MAX_BYTES];
        while let Ok(length @ 1..) = source.read(&mut chunk).await {
            lines.push(&chunk[..length]);
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

/// Splits a stream into lines. Nobody has to read them: those that do not fit are dropped.
#[derive(Debug)]
pub(crate) struct DiagnosticLines {
    lines: mpsc::Sender<String>,
    /// The line that has not ended; at most [`MAX_BYTES`] of it.
    begun: Vec<u8>,
}

impl DiagnosticLines {
    fn push(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let room = MAX_BYTES.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&part[..part.len().min(room)]);
            if parts.peek().is_some() {
                let line = without_escapes(&String::from_utf8_lossy(&std::mem::take(&mut self.begun)));
                let _ = self.lines.try_send(line);
            }
        }
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
        let (tail, lines, _received) = Tail::with_lines();
        tail.clone().follow(bytes, lines).await;
        tail.text()
    }

    #[tokio::test]
    async fn lines_arrive_whole_and_limited() {
        let long = "x".repeat(3 * MAX_BYTES);
        let text = format!("\x1b[31mone\x1b[0m\n{long}\n\nunfinished");
        let (tail, lines, mut received) = Tail::with_lines();
        tail.follow(text.as_bytes(), lines).await;
        let mut next = || received.try_recv().ok();
        assert_eq!(next().as_deref(), Some("one"));
        assert_eq!(next().map(|line| line.len()), Some(MAX_BYTES));
        assert_eq!((next().as_deref(), next()), (Some(""), None));
        let (tail, lines, mut received) = Tail::with_lines();
        tail.follow("line\n".repeat(1000).as_bytes(), lines).await;
        assert_eq!(std::iter::from_fn(|| received.try_recv().ok()).count(), MAX_LINES);
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
