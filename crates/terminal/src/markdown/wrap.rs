//! Rows of a line: rendered text that arrives in parts is broken between words.
//!
//! A word in the first half of a row is shown while it arrives. In the second half, it is held back until it ends, because
//! only then is it known whether it fits. A word that fits no row stays where it is, so that a long link can be copied
//! whole. Text without spaces, such as Chinese, is broken between its wide characters. Styles take no columns; a row that
//! begins inside a span continues its styles behind the indentation.

use super::RESET;
use crate::columns::{char_width, styled_width};

/// The rows of the current line.
#[derive(Debug)]
pub(super) struct Wrap {
    /// Columns of the terminal.
    width: usize,
    /// Whether the text arrives in parts, and words are shown before they end.
    is_streamed: bool,
    /// Columns of the current row that are in use.
    used: usize,
    /// What further rows begin with.
    further: String,
    /// Spaces before the word, not shown yet.
    gap: String,
    /// The word that has not ended, with its styles.
    word: String,
    word_width: usize,
    /// The last character before the next one, if no space is between them; styles do not count.
    last: Option<char>,
    /// Whether the word ends inside an escape sequence.
    in_style: bool,
    /// Whether the beginning of the word is shown already, so that no row can begin before the rest.
    is_rest: bool,
    /// The styles in force after what is shown.
    styles: String,
}

impl Wrap {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            is_streamed: true,
            used: 0,
            further: String::new(),
            gap: String::new(),
            word: String::new(),
            word_width: 0,
            last: None,
            in_style: false,
            is_rest: false,
            styles: String::new(),
        }
    }

    /// Changes the width of the terminal, for rows that are not full yet.
    pub(super) fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Returns the columns of the terminal.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Begins a line with a prefix that is shown as it is. Further rows begin with `further`, unless it leaves them little
    /// space.
    pub(super) fn begin(&mut self, prefix: &str, further: &str, out: &mut String) {
        out.push_str(prefix);
        self.used = styled_width(prefix);
        let is_narrow = styled_width(further) * 2 > self.width;
        self.further = if is_narrow { String::new() } else { further.to_owned() };
    }

    /// Shows the words of the next part that have ended.
    pub(super) fn push(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            match c {
                c if self.in_style || c == '\x1b' => {
                    self.word.push(c);
                    self.in_style = c != 'm';
                }
                ' ' | '\t' => {
                    self.show_word(out);
                    self.gap.push(c);
                    self.last = None;
                    self.is_rest = false;
                }
                c => self.push_char(c, out),
            }
        }
    }

    /// Shows the rest of the line.
    pub(super) fn end(&mut self, out: &mut String) {
        self.show_word(out);
        if self.used + self.gap.len() <= self.width {
            out.push_str(&self.gap);
        }
        *self = Self::new(self.width);
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if self.last.is_some_and(|last| can_break(last, c)) {
            self.show_word(out);
            self.is_rest = false;
        }
        self.word.push(c);
        self.word_width += char_width(c);
        self.last = Some(c);
        let begins_early = self.is_streamed && self.used + self.gap.len() <= self.width / 2;
        if self.is_rest || begins_early || self.word_width > self.room() {
            self.is_rest = true;
            self.show_word(out);
        }
    }

    /// Columns that a row has for a word.
    fn room(&self) -> usize {
        self.width.saturating_sub(styled_width(&self.further))
    }

    /// Shows the word, on a new row if it does not fit the current one.
    fn show_word(&mut self, out: &mut String) {
        let indent = styled_width(&self.further);
        let gap = self.gap.len();
        let fits = self.used + gap + self.word_width <= self.width;
        if self.word_width == 0 || self.is_rest || fits || self.used <= indent {
            if self.word_width > 0 {
                out.push_str(&std::mem::take(&mut self.gap));
                self.used += gap;
            }
        } else {
            let reset = if self.styles.is_empty() { "" } else { RESET };
            *out += &format!("{reset}\n{}{}", self.further, self.styles);
            self.gap.clear();
            self.used = indent;
        }
        out.push_str(&self.word);
        self.used += self.word_width;
        // The terminal breaks a word that fits no row.
        if self.used > self.width {
            self.used %= self.width.max(1);
        }
        self.styles = styles_after(std::mem::take(&mut self.styles), &self.word);
        self.word.clear();
        self.word_width = 0;
    }
}

/// Breaks a rendered line that is complete for a terminal of this width.
pub(super) fn whole(line: &str, width: usize, further: &str) -> String {
    let (mut wrap, mut out) = (Wrap { is_streamed: false, ..Wrap::new(width) }, String::new());
    wrap.begin("", further, &mut out);
    wrap.push(line, &mut out);
    wrap.end(&mut out);
    out
}

/// Whether a row can end between two characters that have no space between them.
fn can_break(before: char, after: char) -> bool {
    let is_wide = |c| char_width(c) == 2;
    let joins = |c| matches!(c, '\u{200d}' | '\u{1f3fb}'..='\u{1f3ff}') || char_width(c) == 0;
    let closes = matches!(
        after,
        '、' | '。'
            | '，'
            | '．'
            | '：'
            | '；'
            | '？'
            | '！'
            | '）'
            | '」'
            | '』'
            | '】'
            | '》'
            | 'ー'
            | '.'
            | ','
            | ':'
            | ';'
            | '?'
            | '!'
            | ')'
            | ']'
    );
    let opens = matches!(before, '（' | '「' | '『' | '【' | '《' | '(' | '[');
    (is_wide(before) || is_wide(after)) && !joins(before) && !joins(after) && !closes && !opens
}

/// Returns the styles in force after a text, given those before it.
fn styles_after(mut styles: String, text: &str) -> String {
    for sequence in text.split('\x1b').skip(1) {
        let code = sequence.split_once('m').map_or(sequence, |(code, _)| code);
        match code {
            "[0" => styles.clear(),
            code => styles += &format!("\x1b{code}m"),
        }
    }
    styles
}

#[cfg(test)]
mod tests {
    use super::super::{BOLD, DIM};
    use super::*;

    #[test]
    fn rows_end_between_words() {
        assert_eq!(whole("one two three", 8, ""), "one two\nthree");
        assert_eq!(whole("one two", 7, ""), "one two");
        assert_eq!(whole("- one two", 6, "  "), "- one\n  two");
        assert_eq!(whole("a  b ", 80, ""), "a  b ", "spaces that fit stay");
        assert_eq!(whole("four four ", 9, ""), "four four", "a space is no row");
    }

    #[test]
    fn word_that_fits_no_row_stays_whole() {
        let text = "see http://a.test/long now and then";
        assert_eq!(
            whole(text, 10, "  "),
            "see http://a.test/long now and\n  then",
            "the terminal breaks the link"
        );
        let (mut wrap, mut out) = (Wrap::new(5), String::new());
        wrap.push("abcdefgh", &mut out);
        assert_eq!(out, "abcdefgh", "shown before it ends");
    }

    #[test]
    fn text_without_spaces_is_broken_between_wide_characters() {
        assert_eq!(whole("日本語の文。", 8, ""), "日本語の\n文。");
        assert_eq!(whole("日本語文。", 8, ""), "日本語\n文。", "a full stop begins no row");
        assert_eq!(whole("👍👍👨\u{200d}👩\u{200d}👧", 7, ""), "👍👍\n👨\u{200d}👩\u{200d}👧");
    }

    #[test]
    fn styles_take_no_columns_and_continue_on_the_next_row() {
        let text = format!("a {BOLD}bb cc{RESET} d");
        assert_eq!(whole(&text, 4, "│ "), format!("a {BOLD}bb{RESET}\n│ {BOLD}cc{RESET}\n│ d"));
        let bar = format!("{DIM}│{RESET} ");
        assert_eq!(whole("aaa bbb", 5, &bar), format!("aaa\n{bar}bbb"));
    }

    #[test]
    fn indentation_leaves_space_for_words_on_narrow_terminals() {
        assert_eq!(whole("aaa bbb", 5, "    "), "aaa\nbbb");
    }
}
