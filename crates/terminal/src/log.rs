//! The log on standard error: one line for each entry, without control characters. Entries hold names, paths and errors
//! that come from models, clients and files.

use std::io::{self, Write};

use baton_markup::visible::{self, Layout, Untrusted};

/// What the lines of a log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLines {
    /// Text for people.
    Text,
    /// JSON objects.
    Json,
}

/// Writes log entries. The subscriber makes one write for each entry.
pub struct LogWriter<W> {
    out: W,
    lines: LogLines,
}

impl<W> LogWriter<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W, lines: LogLines) -> Self {
        Self { out, lines }
    }
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.out.write_all(escaped(entry, self.lines).as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Formats an entry as one line. In JSON, escapes keep its meaning.
fn escaped(entry: &[u8], lines: LogLines) -> String {
    let text = String::from_utf8_lossy(entry);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match lines {
        LogLines::Text => format!("{}\n", Untrusted(text)),
        LogLines::Json => visible::json(text, Layout::OneLine) + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_one_line_without_control_characters() {
        assert_eq!(
            escaped(b"WARN title=\x1b[2Ka\nINFO forged\xff\n", LogLines::Text),
            "WARN title=\\x1b[2Ka\\nINFO forged\u{fffd}\n"
        );
        assert_eq!(
            escaped("{\"title\":\"\u{9b}2K\u{202e}\"}\n".as_bytes(), LogLines::Json),
            "{\"title\":\"\\u009b2K\\u202e\"}\n"
        );
    }
}
