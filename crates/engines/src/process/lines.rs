//! Lines of JSON from a program that may print anything.
//!
//! Whatever arrives, reading goes on with the next line: half lines, garbage, bytes that are no text, a line that does not
//! end. What cannot be used is described, so that somebody can be told.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A line longer than this is not kept. The longest useful ones carry an image or the output of a command.
const LONGEST: usize = 16 * 1024 * 1024;
const CHUNK: usize = 16 * 1024;
/// How much of a line that is no JSON is shown.
const PREVIEW: usize = 200;

/// What a line was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    /// What it should be.
    Json(Value),
    /// Something else, of which this is the beginning.
    Garbage(String),
    /// More than anybody wants to keep: so many bytes.
    TooLong(usize),
}

/// Reads lines. Waiting for the next one may be given up and begun again.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// How far the buffer was searched for the end of a line.
    searched: usize,
    /// How much of a line that is too long was thrown away.
    dropped: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), searched: 0, dropped: 0, ended: false }
    }

    /// The next line that is not blank; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Line> {
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
        // A quiet program should not cost what its longest line did.
        if self.buffer.is_empty() {
            self.buffer.shrink_to(CHUNK);
        }
        self.buffer.reserve(CHUNK);
        if !matches!(self.source.read_buf(&mut self.buffer).await, Ok(1..)) {
            self.ended = true;
        }
    }

    /// A whole line, if there is one. Otherwise what is there was searched and is kept, unless it is too much.
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

    fn understand(&mut self, bytes: &[u8]) -> Option<Line> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            return Some(Line::TooLong(dropped + bytes.len()));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        // A command may have printed bytes that are no text; the rest of the line is as good as ever.
        let text = String::from_utf8_lossy(bytes);
        Some(match serde_json::from_str(&text) {
            Ok(value) => Line::Json(value),
            Err(_) => Line::Garbage(text.trim().chars().take(PREVIEW).collect()),
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

    fn read(bytes: &[u8], piece: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(Pieces(bytes.to_vec(), piece));
            let mut all = Vec::new();
            while let Some(line) = lines.next().await {
                all.push(line);
            }
            all
        })
    }

    fn check(text: &[u8], expected: &[Line]) {
        for piece in [1, 3, 1000] {
            assert_eq!(read(text, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_line_is_a_line_however_it_arrives() {
        check(b"{\"a\":1}\n\n  \r\n[2]\r\n", &[Line::Json(json!({"a": 1})), Line::Json(json!([2]))]);
        check(b"", &[]);
    }

    #[test]
    fn an_unfinished_line_counts_if_it_is_whole() {
        check(b"1\n{\"a\":2}", &[Line::Json(json!(1)), Line::Json(json!({"a": 2}))]);
        check(b"1\n{\"a\":", &[Line::Json(json!(1)), Line::Garbage("{\"a\":".into())]);
    }

    #[test]
    fn garbage_does_not_stop_the_stream() {
        check(b"Update available!\n1\n", &[Line::Garbage("Update available!".into()), Line::Json(json!(1))]);
        check(
            b"{\"a\":\"\xff\"}\n\xfe\n1\n",
            &[Line::Json(json!({"a": "\u{fffd}"})), Line::Garbage("\u{fffd}".into()), Line::Json(json!(1))],
        );
        let deep = "[".repeat(100_000);
        let lines = read(format!("{deep}\n1\n").as_bytes(), 1000);
        assert_eq!(lines, [Line::Garbage("[".repeat(PREVIEW)), Line::Json(json!(1))]);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut text = vec![b'x'; 100 * 1024 * 1024];
        let length = text.len();
        text.extend_from_slice(b"\n1\n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(std::io::Cursor::new(text));
            assert_eq!(lines.next().await, Some(Line::TooLong(length)));
            assert!(lines.buffer.capacity() <= 2 * LONGEST, "{}", lines.buffer.capacity());
            assert_eq!(lines.next().await, Some(Line::Json(json!(1))));
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
            prop_assert_eq!(lines.last(), Some(&Line::Json(json!("end"))));
            prop_assert_eq!(lines, read(&text, usize::MAX));
        }
    }
}
