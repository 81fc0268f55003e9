//! Escapes untrusted text: control characters and invisible characters become escapes such as `\x1b` or `\u{202e}`.
//!
//! Escaping works on single characters. A control sequence that is split over several parts needs no state: its first
//! character, ESC, is escaped, and the rest is plain text. Only CR LF is a pair; [`Prose`] handles it.

use std::fmt::{self, Display, Formatter, Write};

/// How strictly a text is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text to read. Keeps joiners and variation selectors, which some scripts and emoji need.
    Prose,
    /// A diff. Keeps tabs, which are its layout; escapes trailing whitespace.
    Diff,
    /// A command, path, URL, name or argument, in which every character matters. Also escapes tabs, trailing whitespace and
    /// every space other than U+0020.
    Exact,
}

/// Untrusted text, displayed on one line: line breaks are escaped too.
#[derive(Debug, Clone, Copy)]
pub struct Untrusted<'a>(pub &'a str);

impl Display for Untrusted<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .try_for_each(|c| if is_shown(c, Form::Prose) { out.write_char(c) } else { escape(c, out) })
    }
}

/// Escapes one line of a text (without its line break), and counts the escaped characters.
pub fn line(text: &str, form: Form) -> (String, usize) {
    let ends = match form {
        Form::Prose => text.len(),
        Form::Diff | Form::Exact => text.trim_end_matches([' ', '\t']).len(),
    };
    let (mut shown, mut escaped) = (String::with_capacity(text.len()), 0);
    for (at, c) in text.char_indices() {
        if at < ends && (is_shown(c, form) || (c == '\t' && form != Form::Exact)) {
            shown.push(c);
        } else {
            escaped += 1;
            // Writing to a string cannot fail.
            let _ = escape(c, &mut shown);
        }
    }
    (shown, escaped)
}

/// Escapes control characters in a JSON document without changing its meaning. They can occur only in strings, which have
/// escapes for them; outside of strings there can be line breaks, which `layout` keeps or joins.
pub fn json(text: &str, layout: Layout) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' if layout == Layout::Lines => safe.push(c),
            // Between tokens, where all whitespace is the same.
            '\n' | '\r' | '\t' => safe.push(' '),
            c if is_shown(c, Form::Prose) => safe.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(safe, "\\u{unit:04x}");
                }
            }
        }
    }
    safe
}

/// Whether a JSON document keeps its line breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Line breaks become spaces.
    OneLine,
    /// Line breaks stay.
    Lines,
}

/// Escapes prose that arrives in parts. Keeps line breaks and tabs.
#[derive(Debug, Default)]
pub struct Prose {
    /// The last character was a CR: part of a line break if an LF follows, else escaped.
    carriage_return: bool,
}

impl Prose {
    /// Escapes the next part.
    pub fn next(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            let follows_cr = std::mem::take(&mut self.carriage_return);
            match c {
                '\n' => shown.push('\n'),
                _ => {
                    if follows_cr {
                        shown.push_str("\\r");
                    }
                    self.escape_char(c, &mut shown);
                }
            }
        }
        shown
    }

    fn escape_char(&mut self, c: char, shown: &mut String) {
        if c == '\r' {
            self.carriage_return = true;
        } else if c == '\t' || is_shown(c, Form::Prose) {
            shown.push(c);
        } else {
            let _ = escape(c, shown);
        }
    }

    /// Returns what is left at the end of the text.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.carriage_return) { "\\r" } else { "" }
    }
}

/// Escapes prose line by line. CR LF is a line break; any other CR is escaped.
pub fn prose_lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|text| line(text.strip_suffix('\r').unwrap_or(text), Form::Prose).0)
}

fn escape(c: char, out: &mut impl Write) -> fmt::Result {
    match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    }
}

/// Whether a reader does not see a character, or sees it in another place.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    !is_shown(c, Form::Diff)
}

/// Whether a character is visible and stays in its place.
fn is_shown(c: char, form: Form) -> bool {
    !c.is_control()
        && !is_reordering(c)
        && !is_invisible(c)
        && (form == Form::Prose || !is_writing_aid(c))
        && (form != Form::Exact || !is_unusual_space(c))
}

/// Whether a character changes the direction of text: a mark, embedding, override or isolate.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Whether a character is invisible: without a glyph, a line or paragraph separator, a tag, or ignored by Unicode by
/// default.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character is a joiner or variation selector: invisible, but needed for Persian, Hindi and emoji.
fn is_writing_aid(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

fn is_unusual_space(c: char) -> bool {
    c.is_whitespace() && c != ' '
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the control, reordering and invisible characters, as the standards list them.
    fn dangerous() -> impl Iterator<Item = char> {
        let ranges = [
            0x00..=0x1f,
            0x7f..=0x9f,
            0x61c..=0x61c,
            0x200b..=0x200b,
            0x200e..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x2069,
            0xfeff..=0xfeff,
            0xe0000..=0xe007f,
        ];
        ranges.into_iter().flatten().filter_map(char::from_u32)
    }

    #[test]
    fn dangerous_characters_are_escaped_in_every_form() {
        for c in dangerous() {
            let text = format!("a{c}b");
            assert!(!Untrusted(&text).to_string().contains(c), "{c:?}");
            for form in [Form::Prose, Form::Diff, Form::Exact] {
                let kept = c == '\t' && form != Form::Exact;
                assert_eq!(line(&text, form).0.contains(c), kept, "{c:?} {form:?}");
            }
            let streamed = Prose::default().next(&text);
            assert_eq!(streamed.contains(c), matches!(c, '\n' | '\t'), "{c:?}");
        }
        assert_eq!(
            Untrusted("\x1b]0;x\x07\u{9b}2J\u{202e}\n").to_string(),
            "\\x1b]0;x\\x07\\u{9b}2J\\u{202e}\\n"
        );
    }

    #[test]
    fn ordinary_text_is_not_escaped() {
        for text in ["plain", "Grüße, 你好, שלום, مرحبا", "می‌خواهم", "👩‍💻 ❤️", "a\\x1b", "│ ▸ €"]
        {
            assert_eq!(Untrusted(text).to_string(), text);
            assert_eq!(line(text, Form::Prose), (text.to_owned(), 0));
            assert_eq!(Prose::default().next(text), text);
        }
    }

    #[test]
    fn exact_text_escapes_unusual_and_trailing_spaces() {
        assert_eq!(line("rm\u{a0}-r\tx \t", Form::Exact), ("rm\\u{a0}-r\\tx\\x20\\t".into(), 4));
        assert_eq!(line("+\tx  ", Form::Diff), ("+\tx\\x20\\x20".into(), 2));
        assert_eq!(line("a\u{200d}b", Form::Exact).0, "a\\u{200d}b");
        assert_eq!(line("a\r", Form::Exact).0, "a\\r");
    }

    #[test]
    fn streamed_prose_is_escaped_alike_wherever_it_is_cut() {
        let text = "one\r\ntwo\x1b[2J\rthree\u{202e}\t\r\r\nfour\r";
        let whole = |prose: &mut Prose, parts: [&str; 2]| {
            parts.iter().map(|part| prose.next(part)).collect::<String>() + prose.finish()
        };
        let expected = "one\ntwo\\x1b[2J\\rthree\\u{202e}\t\\r\nfour\\r";
        for (cut, _) in text.char_indices() {
            let (first, second) = text.split_at(cut);
            assert_eq!(whole(&mut Prose::default(), [first, second]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn json_keeps_its_meaning_without_control_characters() {
        let all: Vec<char> = (0..=0x10_ffff_u32).filter_map(char::from_u32).collect();
        for some in all.chunks(4096) {
            let some: String = some.iter().collect();
            let document = serde_json::json!({ "text": some }).to_string();
            let read: serde_json::Value = baton_json::from_str(&json(&document, Layout::OneLine)).unwrap();
            assert_eq!(read["text"], some);
        }
        for c in dangerous() {
            // Also in invalid JSON: stored events may be damaged.
            assert!(!json(&format!("\"{c}\""), Layout::OneLine).contains(c), "{c:?}");
        }
        assert_eq!(json("{\n}", Layout::Lines), "{\n}");
        assert_eq!(json("{\n}", Layout::OneLine), "{ }");
    }
}
