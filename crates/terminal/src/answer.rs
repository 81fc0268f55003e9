//! Prints answers of a model to standard output: rendered on a terminal, as they are into files and pipes.

use std::io::IsTerminal;

use super::markdown::Markdown;
use super::{has_styles, print, width_of};
use baton_markup::visible::Prose;

/// Columns of a terminal that does not tell its size.
const DEFAULT_WIDTH: usize = 80;

/// Prints a streamed answer.
#[derive(Debug)]
pub struct AnswerPrinter {
    escape: Prose,
    /// None where the text is printed as it is.
    markdown: Option<Markdown>,
    /// Whether the last printed character is not a line break.
    line_is_open: bool,
}

impl Default for AnswerPrinter {
    fn default() -> Self {
        Self::new()
    }
}

impl AnswerPrinter {
    /// Creates a printer for one answer.
    #[must_use]
    pub fn new() -> Self {
        let out = std::io::stdout();
        let renders = out.is_terminal() && has_styles();
        let markdown = renders.then(|| Markdown::new(width_of(out).unwrap_or(DEFAULT_WIDTH)));
        Self { escape: Prose::default(), markdown, line_is_open: false }
    }

    /// Prints the next part.
    pub fn print(&mut self, text: &str) {
        let shown = self.escape.next(text);
        match &mut self.markdown {
            Some(markdown) => {
                markdown.resize(width_of(std::io::stdout()).unwrap_or(DEFAULT_WIDTH));
                let shown = markdown.push(&shown);
                self.show(&shown);
            }
            None => self.show(&shown),
        }
    }

    /// Prints what is held back, and ends the current line if it is open.
    pub fn end_line(&mut self) {
        let mut rest = self.escape.finish().to_owned();
        if let Some(markdown) = &mut self.markdown {
            rest = markdown.push(&rest) + &markdown.finish();
        }
        self.show(&rest);
        if self.line_is_open {
            self.show("\n");
        }
    }

    /// Whether the last printed line has not ended.
    #[must_use]
    pub fn line_is_open(&self) -> bool {
        self.line_is_open
    }

    fn show(&mut self, text: &str) {
        if !text.is_empty() {
            self.line_is_open = !text.ends_with('\n');
            print(text);
        }
    }
}
