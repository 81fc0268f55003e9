//! Reads lines of JSON from a program that may print anything.
//!
//! Reading continues with the next line after partial lines, lines that are not JSON, invalid UTF-8 and overlong lines.
//! Unusable lines are described in a form that can be shown to the user.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longer lines are discarded. The longest useful ones carry an image or the output of a command.
const LONGEST: usize = 16 * 1024 * 1024;
const CHUNK: usize = 16 * 1024;
/// How many characters of a line that is not JSON are shown.
const PREVIEW: usize = 200;

/// A line of output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutputLine {
    /// Valid JSON.
    Json(Value),
    /// Anything else, with its beginning.
    Garbage(String),
    /// An overlong line, with its length in bytes.
    TooLong(usize),
    /// A line of stderr, without terminal sequences.
    Diagnostic(String),
}

/// Reads lines. [`OutputLines::next`] is cancel-safe.
pub(crate) struct OutputLines<R> {
    source: R,
    buffer: Vec<u8>,
    /// How far the buffer was searched for the end of a line.
    searched: usize,
    /// How many bytes of an overlong line were discarded.
    dropped: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> OutputLines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), searched: 0, dropped: 0, ended: false }
    }

    /// Returns the next line that is not blank. None at the end.
    pub(crate) async fn next(&mut self) -> Option<OutputLine> {
        loop {
            while let Some(bytes) = self.take_line() {
                if let Some(line) = self.understand(&bytes) {
                    return Some(line);
                }
            }
            if self.ended {
                let rest = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return self.understand(&rest);
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        // The memory of a long line is released.
        if self.buffer.is_empty() {
            self.buffer.shrink_to(CHUNK);
        }
        self.buffer.reserve(CHUNK);
        if !matches!(self.source.read_buf(&mut self.buffer).await, Ok(1..)) {
            self.ended = true;
        }
    }

    /// Takes a complete line from the buffer, if there is one. Discards the buffer if the line is overlong.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.buffer.len();
            if self.dropped + self.buffer.len() > LONGEST {
                self.dropped += self.buffer.len();
                self.buffer.clear();
                self.searched = 0;
            }
            return None;
        };
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    fn understand(&mut self, bytes: &[u8]) -> Option<OutputLine> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            return Some(OutputLine::TooLong(dropped + bytes.len()));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        // A command may have printed invalid UTF-8; the rest of the line is still usable.
        let text = String::from_utf8_lossy(bytes);
        Some(match baton_json::from_str(&text) {
            Ok(value) => OutputLine::Json(value),
            Err(_) => OutputLine::Garbage(text.trim().chars().take(PREVIEW).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use serde_json::json;
    use tokio::io::ReadBuf;

    use super::*;

    /// Gives its bytes in pieces of a given size.
    struct Pieces(Vec<u8>, usize);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let size = self.1.min(self.0.len()).min(buffer.remaining());
            buffer.put_slice(&self.0.drain(..size).collect::<Vec<_>>());
            Poll::Ready(Ok(()))
        }
    }

    fn read(bytes: &[u8], piece: usize) -> Vec<OutputLine> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = OutputLines::new(Pieces(bytes.to_vec(), piece));
            let mut all = Vec::new();
            while let Some(line) = lines.next().await {
                all.push(line);
            }
            all
        })
    }

    fn check(text: &[u8], expected: &[OutputLine]) {
        for piece in [1, 3, 1000] {
            assert_eq!(read(text, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn lines_are_assembled_from_any_pieces() {
        check(
            b"{\"a\":1}\n\n  \r\n[2]\r\n",
            &[OutputLine::Json(json!({"a": 1})), OutputLine::Json(json!([2]))],
        );
        check(b"", &[]);
    }

    #[test]
    fn last_line_needs_no_line_break() {
        check(b"1\n{\"a\":2}", &[OutputLine::Json(json!(1)), OutputLine::Json(json!({"a": 2}))]);
        check(b"1\n{\"a\":", &[OutputLine::Json(json!(1)), OutputLine::Garbage("{\"a\":".into())]);
    }

    #[test]
    fn reading_continues_after_garbage() {
        check(
            b"Update available!\n1\n",
            &[OutputLine::Garbage("Update available!".into()), OutputLine::Json(json!(1))],
        );
        check(
            b"{\"a\":\"\xff\"}\n\xfe\n1\n",
            &[
                OutputLine::Json(json!({"a": "\u{fffd}"})),
                OutputLine::Garbage("\u{fffd}".into()),
                OutputLine::Json(json!(1)),
            ],
        );
        let deep = "[".repeat(100_000);
        let lines = read(format!("{deep}\n1\n").as_bytes(), 1000);
        assert_eq!(lines, [OutputLine::Garbage("[".repeat(PREVIEW)), OutputLine::Json(json!(1))]);
    }

    #[test]
    fn overlong_line_is_discarded_and_its_memory_released() {
        let mut text = vec![b'x'; 100 * 1024 * 1024];
        let length = text.len();
        text.extend_from_slice(b"\n1\n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = OutputLines::new(std::io::Cursor::new(text));
            assert_eq!(lines.next().await, Some(OutputLine::TooLong(length)));
            assert!(lines.buffer.capacity() <= 2 * LONGEST, "{}", lines.buffer.capacity());
            assert_eq!(lines.next().await, Some(OutputLine::Json(json!(1))));
            assert_eq!(lines.next().await, None);
            lines.read().await;
            assert!(lines.buffer.capacity() <= 2 * CHUNK, "{}", lines.buffer.capacity());
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_the_end(bytes: Vec<u8>, piece in 1usize..64) {
            let mut text = bytes;
            text.extend_from_slice(b"\n\"end\"\n");
            let lines = read(&text, piece);
            prop_assert_eq!(lines.last(), Some(&OutputLine::Json(json!("end"))));
            prop_assert_eq!(lines, read(&text, usize::MAX));
        }
    }
}
