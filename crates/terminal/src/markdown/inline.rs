//! Spans inside a line: emphasis and code. A span is shown when its end arrives; until then its text is held back.

use super::{BOLD, CODE, ITALIC, RESET};

/// Limit of bytes between the beginning and the end of a span. Text is held back no longer, and a text full of beginnings
/// without an end takes linear time.
const MAX_SPAN: usize = 2000;

/// The rest of a line that is being shown.
#[derive(Debug)]
pub(super) struct Inline {
    /// Style of the line's text.
    base: &'static str,
    /// The last character that was shown.
    last: char,
}

/// The meaning of a special character.
enum InlineMatch {
    /// A span or an escape, rendered, and its length in the source.
    Span(String, usize),
    /// Plain characters, and how many bytes.
    Plain(usize),
    /// More text is needed.
    Unknown,
}

impl Inline {
    pub(super) fn begin(base: &'static str, out: &mut String) -> Self {
        out.push_str(base);
        Self { base, last: ' ' }
    }

    /// Shows what is known, and keeps the rest in `pending`.
    pub(super) fn advance(&mut self, pending: &mut String, out: &mut String) {
        let used = self.render(pending, out, false);
        pending.drain(..used);
    }

    /// Shows the rest of the line.
    pub(super) fn finish(&mut self, pending: &mut String, out: &mut String) {
        self.render(pending, out, true);
        pending.clear();
        if !self.base.is_empty() {
            out.push_str(RESET);
        }
    }

    /// Renders as much as is known, and returns its length in the source.
    fn render(&mut self, text: &str, out: &mut String, is_end: bool) -> usize {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let found = match c {
                '`' => code(rest, self.base, is_end),
                '*' | '_' => emphasis(rest, c, self.last, self.base, is_end),
                '\\' => escape(rest, is_end),
                _ => InlineMatch::Plain(c.len_utf8()),
            };
            match found {
                InlineMatch::Unknown => break,
                InlineMatch::Span(shown, length) => {
                    out.push_str(&shown);
                    self.last = text[..at + length].chars().next_back().unwrap_or(' ');
                    at += length;
                }
                InlineMatch::Plain(length) => {
                    out.push_str(&rest[..length]);
                    self.last = rest[..length].chars().next_back().unwrap_or(' ');
                    at += length;
                }
            }
        }
        at
    }
}

/// Renders a whole line.
pub(super) fn whole(text: &str, base: &'static str) -> String {
    let mut out = String::new();
    let mut inline = Inline::begin(base, &mut out);
    inline.finish(&mut text.to_owned(), &mut out);
    out
}

/// A backslash before punctuation is not shown.
fn escape(rest: &str, is_end: bool) -> InlineMatch {
    match rest[1..].chars().next() {
        None if !is_end => InlineMatch::Unknown,
        Some(c) if c.is_ascii_punctuation() => InlineMatch::Span(c.to_string(), 2),
        _ => InlineMatch::Plain(1),
    }
}

fn run_length(text: &str, c: char) -> usize {
    text.len() - text.trim_start_matches(c).len()
}

/// A span of code: from a run of backticks to the next run of the same length.
fn code(rest: &str, base: &str, is_end: bool) -> InlineMatch {
    let length = run_length(rest, '`');
    let mut at = length;
    while let Some(next) = rest[at..].find('`') {
        if at + next > MAX_SPAN {
            return InlineMatch::Plain(length);
        }
        let closing = run_length(&rest[at + next..], '`');
        let end = at + next + closing;
        if end == rest.len() && !is_end {
            return InlineMatch::Unknown;
        }
        if closing == length {
            let text = &rest[length..at + next];
            let inner = text.strip_prefix(' ').and_then(|text| text.strip_suffix(' ')).unwrap_or(text);
            return InlineMatch::Span(format!("{CODE}{inner}{RESET}{base}"), end);
        }
        at = end;
    }
    if is_end || rest.len() > MAX_SPAN { InlineMatch::Plain(length) } else { InlineMatch::Unknown }
}

/// Emphasis: from a run of one to three marks to the next run of the same length that can close it.
fn emphasis(rest: &str, mark: char, last: char, base: &str, is_end: bool) -> InlineMatch {
    let length = run_length(rest, mark);
    let Some(next) = rest[length..].chars().next() else {
        return if is_end { InlineMatch::Plain(length) } else { InlineMatch::Unknown };
    };
    let opens = !next.is_whitespace() && (mark == '*' || !last.is_alphanumeric());
    let Some(style) = style(length).filter(|_| opens) else { return InlineMatch::Plain(length) };
    let mut at = length;
    while let Some(found) = rest[at..].find(mark) {
        let (begin, run) = (at + found, run_length(&rest[at + found..], mark));
        if begin > MAX_SPAN {
            return InlineMatch::Plain(length);
        }
        let end = begin + run;
        if end == rest.len() && !is_end {
            return InlineMatch::Unknown;
        }
        let follows_text = !rest[..begin].ends_with(char::is_whitespace);
        let before_word = rest[end..].chars().next().is_some_and(char::is_alphanumeric);
        if run == length && follows_text && (mark == '*' || !before_word) {
            let mut inner = String::new();
            let mut inline = Inline { base: "", last: ' ' };
            inline.render(&rest[length..begin], &mut inner, true);
            let inner = inner.replace(RESET, &format!("{RESET}{base}{style}"));
            return InlineMatch::Span(format!("{style}{inner}{RESET}{base}"), end);
        }
        at = end;
    }
    if is_end || rest.len() > MAX_SPAN { InlineMatch::Plain(length) } else { InlineMatch::Unknown }
}

fn style(length: usize) -> Option<&'static str> {
    match length {
        1 => Some(ITALIC),
        2 => Some(BOLD),
        3 => Some("\x1b[1;3m"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_styled() {
        assert_eq!(
            whole("a **b** *c* _d_", ""),
            format!("a {BOLD}b{RESET} {ITALIC}c{RESET} {ITALIC}d{RESET}")
        );
        assert_eq!(whole("`` a`b ``", ""), format!("{CODE}a`b{RESET}"));
        assert_eq!(whole("**a `b` c**", ""), format!("{BOLD}a {CODE}b{RESET}{BOLD} c{RESET}"));
        assert_eq!(whole("x **y**", BOLD), format!("{BOLD}x {BOLD}y{RESET}{BOLD}{RESET}"));
    }

    #[test]
    fn marks_that_are_not_emphasis_stay() {
        for text in ["2 * 3 * 4", "snake_case_name", "**kwargs", "a ` b", "[x](http://y_z_w)", "5 ** 2", "*"]
        {
            assert_eq!(whole(text, ""), text);
        }
        assert_eq!(whole(r"\*not\* C:\dir", ""), r"*not* C:\dir");
    }

    #[test]
    fn end_of_a_span_is_not_searched_without_limit() {
        for mark in ["*", "**", "_", "`"] {
            let text = format!("{mark}a{}{mark}", "x".repeat(MAX_SPAN));
            assert_eq!(whole(&text, ""), text);
        }
    }
}
