//! The status line: what a command waits for, on the last row of a terminal. It is replaced, and erased before anything else is
//! printed.

use std::io::{IsTerminal, Write};

use super::columns::cut;
use super::{dim, has_styles, width_of};
use baton_markup::visible::Untrusted;

/// Returns to the first column and erases the row.
const ERASE: &str = "\r\x1b[K";
/// Columns of a terminal that does not tell its size.
const DEFAULT_WIDTH: usize = 80;

/// The status line of standard error. Files, pipes and terminals without control sequences have none.
#[derive(Debug)]
pub struct StatusLine {
    is_possible: bool,
    is_shown: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self::new()
    }
}

impl StatusLine {
    /// Creates an empty line.
    #[must_use]
    pub fn new() -> Self {
        Self { is_possible: std::io::stderr().is_terminal() && has_styles(), is_shown: false }
    }

    /// Shows a text in place of the one before. The cursor has to be in the first column, or behind that text.
    pub fn show(&mut self, text: &str) {
        if self.is_possible {
            let width = width_of(std::io::stderr()).unwrap_or(DEFAULT_WIDTH);
            let text = cut(&Untrusted(text).to_string(), width.saturating_sub(1).max(1));
            self.is_shown = true;
            write(&format!("{ERASE}{}", dim(Untrusted(&text), true)));
        }
    }

    /// Erases the line.
    pub fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write(ERASE);
        }
    }

    /// Erases the row of the cursor, also text of keys that the terminal has shown there.
    pub fn clear(&mut self) {
        if self.is_possible {
            self.is_shown = false;
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    // A closed output is no reason to fail.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
