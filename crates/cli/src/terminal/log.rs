//! The log on standard error: one line for each entry, without control characters. Entries hold names, paths and errors
//! that come from models, clients and files.

use std::io::{self, Write};

use crate::logging::LogFormat;
use baton_markup::visible::{self, Layout, Untrusted};

/// Writes log entries. The subscriber makes one write for each entry.
pub(crate) struct LogWriter<W> {
    out: W,
    format: LogFormat,
}

impl<W> LogWriter<W> {
    pub(crate) fn new(out: W, format: LogFormat) -> Self {
        Self { out, format }
    }
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.out.write_all(escaped(entry, self.format).as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Formats an entry as one line. In JSON, escapes keep its meaning.
fn escaped(entry: &[u8], format: LogFormat) -> String {
    let text = String::from_utf8_lossy(entry);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match format {
        LogFormat::Text => format!("{}\n", Untrusted(text)),
        LogFormat::Json => visible::json(text, Layout::OneLine) + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_one_line_without_control_characters() {
        assert_eq!(
            escaped(b"WARN title=\x1b[2Ka\nINFO forged\xff\n", LogFormat::Text),
            "WARN title=\\x1b[2Ka\\nINFO forged\u{fffd}\n"
        );
        assert_eq!(
            escaped("{\"title\":\"\u{9b}2K\u{202e}\"}\n".as_bytes(), LogFormat::Json),
            "{\"title\":\"\\u009b2K\\u202e\"}\n"
        );
    }
}
