//! Lines of a server's output: bounded in length and in rate.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};

/// The longest message. The longest useful ones carry an image or a page.
pub(crate) const LONGEST: usize = 16 * 1024 * 1024;
const CHUNK: usize = 8 * 1024;

/// Messages of a server in each [`WINDOW`]. Reading pauses above that, which slows the server down and nobody else.
const PACE: usize = 1000;
const WINDOW: Duration = Duration::from_millis(200);

/// A line of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutputLine {
    /// A line without its end.
    Text(Vec<u8>),
    /// A line that was too long; its contents are lost.
    TooLong,
}

/// Reads lines. [`OutputLines::next`] is cancel-safe.
pub(crate) struct OutputLines<R> {
    source: R,
    buffer: Vec<u8>,
    searched: usize,
    longest: usize,
    /// The rest of an overlong line is being skipped.
    skipping: bool,
    window: Option<Instant>,
    in_window: usize,
}

impl<R: AsyncRead + Unpin> OutputLines<R> {
    pub(crate) fn new(source: R, longest: usize) -> Self {
        Self { source, buffer: Vec::new(), searched: 0, longest, skipping: false, window: None, in_window: 0 }
    }

    /// Returns the next line that is not blank; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<OutputLine> {
        loop {
            self.keep_pace().await;
            if let Some(line) = self.take() {
                self.in_window += 1;
                if matches!(&line, OutputLine::Text(bytes) if bytes.iter().all(u8::is_ascii_whitespace)) {
                    continue;
                }
                return Some(line);
            }
            if self.buffer.is_empty() {
                self.buffer.shrink_to(CHUNK);
            }
            self.buffer.reserve(CHUNK);
            if !matches!(self.source.read_buf(&mut self.buffer).await, Ok(1..)) {
                return None;
            }
        }
    }

    async fn keep_pace(&mut self) {
        let end = *self.window.get_or_insert_with(|| Instant::now() + WINDOW);
        if self.in_window >= PACE {
            sleep_until(end).await;
        }
        if Instant::now() >= end {
            self.window = None;
            self.in_window = 0;
        }
    }

    fn take(&mut self) -> Option<OutputLine> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            if self.buffer.len() > self.longest {
                self.buffer.clear();
                let first = !std::mem::replace(&mut self.skipping, true);
                self.searched = 0;
                return first.then_some(OutputLine::TooLong);
            }
            self.searched = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.searched = 0;
        if std::mem::take(&mut self.skipping) {
            return Some(OutputLine::Text(Vec::new()));
        }
        Some(if line.len() > self.longest { OutputLine::TooLong } else { OutputLine::Text(line) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], longest: usize) -> Vec<OutputLine> {
        let mut lines = OutputLines::new(std::io::Cursor::new(text.to_vec()), longest);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    fn text(text: &str) -> OutputLine {
        OutputLine::Text(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn blank_and_unfinished_lines_are_skipped() {
        assert_eq!(all(b"a\n\n  \r\nb\r\nc", 10).await, [text("a"), text("b\r")]);
    }

    #[tokio::test]
    async fn overlong_line_is_reported_once() {
        let long = format!("a\n{}\nb\n", "x".repeat(100_000));
        assert_eq!(all(long.as_bytes(), 1000).await, [text("a"), OutputLine::TooLong, text("b")]);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_is_read_slowly() {
        let start = Instant::now();
        assert_eq!(all("x\n".repeat(10 * PACE).as_bytes(), 10).await.len(), 10 * PACE);
        assert!(start.elapsed() >= 8 * WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_blank_lines_is_read_slowly() {
        let start = Instant::now();
        assert_eq!(all("\n".repeat(10 * PACE).as_bytes(), 10).await, []);
        assert!(start.elapsed() >= 8 * WINDOW);
    }
}
