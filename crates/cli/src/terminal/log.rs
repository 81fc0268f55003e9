//! Where the log goes: standard error, one line for each entry, without a character that a terminal obeys. What is
//! logged holds names, paths and errors of others.

use std::io::{self, Write};

use super::visible::Untrusted;

/// Writes entries of the log. Each write is one entry, as the subscriber makes them.
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(safe(entry).as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn safe(entry: &[u8]) -> String {
    let text = String::from_utf8_lossy(entry);
    format!("{}\n", Untrusted(text.strip_suffix('\n').unwrap_or(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_without_controls() {
        assert_eq!(
            safe(b"WARN title=\x1b[2Ka\nINFO forged\xff\n"),
            "WARN title=\\x1b[2Ka\\nINFO forged\u{fffd}\n"
        );
    }
}
