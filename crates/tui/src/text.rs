//! Text on a grid of cells: widths, wrapping, cutting. Everything that comes from outside is escaped here before it is drawn.

use baton_markup::visible::{self, Form};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns of a tab stop.
const TAB: usize = 4;
/// Longest grapheme that is drawn, in bytes. Longer ones are piles of marks that would cover the rows around them.
const MAX_GRAPHEME: usize = 48;

/// Returns the columns of a text.
#[must_use]
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(grapheme_width).sum()
}

fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.len() > MAX_GRAPHEME { 1 } else { grapheme.width() }
}

fn drawable(grapheme: &str) -> &str {
    if grapheme.len() > MAX_GRAPHEME { "\u{fffd}" } else { grapheme }
}

/// Escapes a text for one line: line breaks become escapes too.
#[must_use]
pub fn one_line(text: &str) -> String {
    visible::Untrusted(text).to_string()
}

/// Escapes a text in which every character matters, such as a command or a path, line by line. Returns the number of escaped
/// characters too.
#[must_use]
pub fn exact_lines(text: &str) -> (Vec<String>, usize) {
    let mut escaped = 0;
    let lines = text.split('\n').map(|line| {
        let (shown, count) = visible::line(line, Form::Exact);
        escaped += count;
        shown
    });
    (lines.collect(), escaped)
}

/// Escapes a line of a diff or of code, and expands its tabs. Returns the number of escaped characters too.
#[must_use]
pub fn code_line(text: &str) -> (String, usize) {
    let (shown, escaped) = visible::line(text, Form::Diff);
    (expanded(&shown), escaped)
}

/// Escapes a line of text in which trailing spaces do not matter, and expands its tabs.
#[must_use]
pub fn plain_line(text: &str) -> String {
    expanded(&visible::line(text, Form::Prose).0)
}

/// Escapes prose line by line, and expands its tabs.
#[must_use]
pub fn prose(text: &str) -> Vec<String> {
    visible::prose_lines(text).map(|line| expanded(&line)).collect()
}

fn expanded(text: &str) -> String {
    if !text.contains('\t') {
        return text.to_owned();
    }
    let (mut out, mut column) = (String::with_capacity(text.len() + 16), 0);
    for grapheme in text.graphemes(true) {
        if grapheme == "\t" {
            let spaces = TAB - column % TAB;
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            out.push_str(grapheme);
            column += grapheme_width(grapheme);
        }
    }
    out
}

/// Cuts a text to a width. A cut text ends in `…`.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit && text.is_ascii() || width(text) <= limit {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        used += grapheme_width(grapheme);
        if used >= limit {
            break;
        }
        kept.push_str(drawable(grapheme));
    }
    if limit > 0 {
        kept.push('…');
    }
    kept
}

/// Cuts the beginning of a text, so that the rest fits a width. A cut text begins with `…`.
#[must_use]
pub fn cut_start(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let (mut kept, mut used) = (Vec::new(), 0);
    for grapheme in text.graphemes(true).rev() {
        used += grapheme_width(grapheme);
        if used >= limit {
            break;
        }
        kept.push(drawable(grapheme));
    }
    kept.push("…");
    kept.into_iter().rev().collect()
}

/// Breaks spans into rows between words. The first row begins with `first`, the others with `further`. A word that fits no row is
/// broken within.
#[must_use]
pub fn wrap(spans: &[Span<'_>], width: usize, first: &Span<'_>, further: &Span<'_>) -> Vec<Line<'static>> {
    let mut rows = Wrapper::new(width, first, further);
    for span in spans {
        rows.push(&span.content, span.style);
    }
    rows.finish()
}

/// Breaks a text without words into rows of a width: code, commands.
#[must_use]
pub fn chunks(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(1);
    let (mut rows, mut used) = (vec![String::new()], 0);
    for grapheme in text.graphemes(true) {
        let columns = grapheme_width(grapheme);
        if used + columns > limit && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push_str(drawable(grapheme));
        }
    }
    rows
}

/// Breaks styled pieces without words into rows.
#[must_use]
pub fn chunk_spans(pieces: &[(String, Style)], limit: usize) -> Vec<Vec<Span<'static>>> {
    let limit = limit.max(1);
    let (mut rows, mut used) = (vec![Vec::<Span<'static>>::new()], 0);
    for (text, style) in pieces {
        let mut part = String::new();
        for grapheme in text.graphemes(true) {
            let columns = grapheme_width(grapheme);
            if used + columns > limit && used > 0 {
                if let Some(row) = rows.last_mut() {
                    row.push(Span::styled(std::mem::take(&mut part), *style));
                }
                rows.push(Vec::new());
                used = 0;
            }
            used += columns;
            part.push_str(drawable(grapheme));
        }
        if let Some(row) = rows.last_mut()
            && !part.is_empty()
        {
            row.push(Span::styled(part, *style));
        }
    }
    rows
}

struct Wrapper {
    width: usize,
    further: (String, Style),
    rows: Vec<Line<'static>>,
    row: Vec<Span<'static>>,
    used: usize,
    indent: usize,
    /// Spaces and the word behind them that are not placed.
    gap: Vec<(String, Style)>,
    gap_width: usize,
    word: Vec<(String, Style)>,
    word_width: usize,
    after_break: bool,
}

impl Wrapper {
    fn new(width: usize, first: &Span<'_>, further: &Span<'_>) -> Self {
        let indent = self::width(&further.content);
        let further = if indent * 2 > width { String::new() } else { further.content.to_string() };
        let mut new = Self {
            width: width.max(2),
            indent: self::width(&further),
            further: (further, first.style),
            rows: Vec::new(),
            row: vec![Span::styled(first.content.to_string(), first.style)],
            used: self::width(&first.content),
            gap: Vec::new(),
            gap_width: 0,
            word: Vec::new(),
            word_width: 0,
            after_break: false,
        };
        if new.used >= new.width {
            (new.row, new.used) = (Vec::new(), 0);
        }
        new
    }

    fn push(&mut self, text: &str, style: Style) {
        for grapheme in text.graphemes(true) {
            match grapheme {
                "\n" => {
                    self.place();
                    self.end_row();
                    self.after_break = false;
                }
                " " => {
                    self.place();
                    append(&mut self.gap, " ", style);
                    self.gap_width += 1;
                }
                _ => {
                    let columns = grapheme_width(grapheme);
                    // Text without spaces is broken between its wide characters.
                    if columns == 2 && !self.word.is_empty() {
                        self.place();
                    }
                    if self.word_width + columns > self.width.saturating_sub(self.indent) {
                        self.place();
                    }
                    append(&mut self.word, drawable(grapheme), style);
                    self.word_width += columns;
                }
            }
        }
    }

    /// Places the word, on a new row if it does not fit.
    fn place(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if self.used + self.gap_width + self.word_width > self.width && self.used > self.indent {
            self.end_row();
            self.after_break = true;
        }
        let gap = std::mem::take(&mut self.gap);
        if !self.after_break {
            self.used += self.gap_width;
            self.row.extend(gap.into_iter().map(|(text, style)| Span::styled(text, style)));
        }
        self.after_break = false;
        self.gap_width = 0;
        self.used += std::mem::take(&mut self.word_width);
        self.row.extend(
            std::mem::take(&mut self.word).into_iter().map(|(text, style)| Span::styled(text, style)),
        );
    }

    fn end_row(&mut self) {
        let (text, style) = self.further.clone();
        let next = if text.is_empty() { Vec::new() } else { vec![Span::styled(text, style)] };
        self.rows.push(Line::from(std::mem::replace(&mut self.row, next)));
        self.used = self.indent;
        self.gap.clear();
        self.gap_width = 0;
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.place();
        self.end_row();
        self.rows
    }
}

fn append(pieces: &mut Vec<(String, Style)>, text: &str, style: Style) {
    match pieces.last_mut() {
        Some((last, of)) if *of == style => last.push_str(text),
        _ => pieces.push((text.to_owned(), style)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let none = Span::raw("");
        wrap(&[Span::raw(text)], width, &none, &none).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_end_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a\nb", 8), ["a", "b"]);
        assert_eq!(wrapped("", 8), [""]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("日本語の文", 4), ["日本", "語の", "文"]);
    }

    #[test]
    fn further_rows_are_indented() {
        let rows = wrap(&[Span::raw("one two three")], 9, &Span::raw("- "), &Span::raw("  "));
        let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["- one two", "  three"]);
    }

    #[test]
    fn no_row_is_wider_than_its_limit() {
        let text =
            "wide 日本語 e\u{301}\u{301} 👨\u{200d}👩\u{200d}👧 word-that-fits-no-row-at-all and\nmore";
        for limit in 2..40 {
            for row in wrapped(text, limit) {
                assert!(width(&row) <= limit, "{row:?} at {limit}");
            }
            for row in chunks(&text.replace('\n', ""), limit) {
                assert!(width(&row) <= limit, "{row:?} at {limit}");
            }
        }
    }

    #[test]
    fn piles_of_marks_are_one_replacement() {
        let pile = format!("e{}", "\u{301}".repeat(1000));
        assert_eq!(wrapped(&pile, 10), ["\u{fffd}"]);
        assert_eq!(cut(&pile, 5), pile, "it fits; the wrapping replaces it");
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut_start("abcdef", 4), "…def");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(expanded("\ta\tb"), "    a   b");
    }
}
