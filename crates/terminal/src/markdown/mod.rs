//! Markdown on a terminal, rendered while it arrives: headings, emphasis, lists, quotes, code and tables.
//!
//! The text is escaped before it comes here, so the only escape sequences in the result are the styles added below. Text is
//! shown as soon as its meaning is known: prose word by word at the latest, a span such as `**bold**` with its end, a line
//! of code with its line break, a table with its last row. Prose is broken between words, and keeps its indentation; code is
//! not broken. Links stay as written, so that the address is visible.

mod inline;
mod table;
mod wrap;

use self::inline::Inline;
use self::wrap::Wrap;
use crate::columns::width;

pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const DIM: &str = "\x1b[2m";
pub(super) const ITALIC: &str = "\x1b[3m";
/// Bold and underlined.
const TITLE: &str = "\x1b[1;4m";
pub(super) const CODE: &str = "\x1b[36m";
pub(super) const RESET: &str = "\x1b[0m";

/// Limit of rows that are held back until a table is complete.
const MAX_ROWS: usize = 200;

/// A renderer of one text.
#[derive(Debug)]
pub(crate) struct Markdown {
    /// The rows of the current line, on a terminal of a certain width.
    wrap: Wrap,
    /// The part of the current line that is not shown yet.
    pending: String,
    line: Line,
    /// The open code block: its fence character and length.
    fence: Option<(char, usize)>,
    /// The rows of the table that is arriving.
    rows: Vec<String>,
}

/// What the current line is.
#[derive(Debug)]
enum Line {
    /// Not known yet.
    Undecided,
    Text(Inline),
}

/// The beginning of a line, once it is known.
enum Start {
    /// More characters are needed.
    Unknown,
    /// The whole line is needed.
    NeedsLine,
    /// The line begins with the rendered prefix `shown`, in place of its first `skip` bytes, and its further rows with
    /// `further`; `base` is the style of its text.
    Prefix { shown: String, further: String, skip: usize, base: &'static str },
}

impl Markdown {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            wrap: Wrap::new(width),
            pending: String::new(),
            line: Line::Undecided,
            fence: None,
            rows: Vec::new(),
        }
    }

    /// Changes the width of the terminal, for the rows to come.
    pub(crate) fn resize(&mut self, width: usize) {
        self.wrap.resize(width);
    }

    /// Renders the next part.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut parts = text.split('\n');
        self.pending.push_str(parts.next().unwrap_or_default());
        for part in parts {
            if self.end_line(&mut out) {
                out.push('\n');
            }
            self.pending.push_str(part);
        }
        self.advance(&mut out);
        out
    }

    /// Renders what is held back at the end of the text.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_line(&mut out);
        self.show_table(&mut out);
        self.fence = None;
        out
    }

    /// Shows what is known of a line that has not ended.
    fn advance(&mut self, out: &mut String) {
        if self.fence.is_some() || self.pending.is_empty() {
            return;
        }
        if matches!(self.line, Line::Undecided) {
            match start(&self.pending) {
                Start::Unknown | Start::NeedsLine => return,
                Start::Prefix { shown, further, skip, base } => {
                    self.show_table(out);
                    self.wrap.begin(&shown, &further, out);
                    self.pending.drain(..skip);
                    let mut rendered = String::new();
                    self.line = Line::Text(Inline::begin(base, &mut rendered));
                    self.wrap.push(&rendered, out);
                }
            }
        }
        if let Line::Text(inline) = &mut self.line {
            let mut rendered = String::new();
            inline.advance(&mut self.pending, &mut rendered);
            self.wrap.push(&rendered, out);
        }
    }

    /// Shows the rest of the current line, without its line break. Returns whether it has one: a row that is held back and a
    /// fence have none.
    fn end_line(&mut self, out: &mut String) -> bool {
        match std::mem::replace(&mut self.line, Line::Undecided) {
            Line::Text(mut inline) => {
                let mut rendered = String::new();
                inline.finish(&mut self.pending, &mut rendered);
                self.wrap.push(&rendered, out);
                self.wrap.end(out);
                true
            }
            Line::Undecided => {
                let line = std::mem::take(&mut self.pending);
                self.whole_line(line, out)
            }
        }
    }

    fn whole_line(&mut self, line: String, out: &mut String) -> bool {
        let trimmed = line.trim_start();
        if let Some((fence, length)) = self.fence {
            if fence_of(trimmed)
                .is_some_and(|(other, n, info)| other == fence && n >= length && info.is_empty())
            {
                self.fence = None;
                return false;
            }
            out.push_str(&styled(CODE, &format!("    {line}")));
            return true;
        }
        if trimmed.starts_with('|') && self.rows.len() < MAX_ROWS {
            self.rows.push(line);
            return false;
        }
        self.show_table(out);
        if let Some((fence, length, info)) = fence_of(trimmed) {
            self.fence = Some((fence, length));
            if info.is_empty() {
                return false;
            }
            out.push_str(&styled(DIM, &format!("    {info}")));
        } else if is_rule(trimmed) {
            out.push_str(&styled(DIM, &"─".repeat(self.wrap.width().min(40))));
        } else {
            match start(&format!("{line}\u{0}")) {
                Start::Prefix { shown, further, skip, base } => {
                    self.wrap.begin(&shown, &further, out);
                    self.wrap.push(&inline::whole(line.get(skip..).unwrap_or_default(), base), out);
                }
                Start::Unknown | Start::NeedsLine => self.wrap.push(&inline::whole(&line, ""), out),
            }
            self.wrap.end(out);
        }
        true
    }

    fn show_table(&mut self, out: &mut String) {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            out.push_str(&table::render(&rows, self.wrap.width()));
        }
    }
}

/// Styles a text that contains no styles.
pub(super) fn styled(style: &str, text: &str) -> String {
    format!("{style}{text}{RESET}")
}

/// Reads the beginning of a line.
fn start(line: &str) -> Start {
    let trimmed = line.trim_start_matches([' ', '\t']);
    let indent = &line[..line.len() - trimmed.len()];
    let text = || Start::Prefix {
        shown: indent.to_owned(),
        further: indent.to_owned(),
        skip: indent.len(),
        base: "",
    };
    let item = |marker: &str, length: usize| Start::Prefix {
        shown: format!("{indent}{marker} "),
        further: format!("{indent}{}", " ".repeat(width(marker) + 1)),
        skip: indent.len() + length,
        base: "",
    };
    let Some(first) = trimmed.chars().next() else { return Start::Unknown };
    let rest = &trimmed[first.len_utf8()..];
    match first {
        '#' => {
            let level = trimmed.len() - trimmed.trim_start_matches('#').len();
            match trimmed[level..].chars().next() {
                None => Start::Unknown,
                Some(' ') if level <= 6 => Start::Prefix {
                    shown: indent.to_owned(),
                    further: indent.to_owned(),
                    skip: indent.len() + level + 1,
                    base: if level == 1 { TITLE } else { BOLD },
                },
                Some(_) => text(),
            }
        }
        '`' | '~' => match trimmed.chars().take(3).all(|c| c == first) {
            true if trimmed.len() < 3 => Start::Unknown,
            true => Start::NeedsLine,
            false => text(),
        },
        '|' => Start::NeedsLine,
        '-' | '*' | '+' if trimmed.chars().all(|c| c == first || c == ' ') => Start::NeedsLine,
        '-' | '*' | '+' if rest.starts_with(' ') => item("•", 2),
        '>' if rest.is_empty() => Start::Unknown,
        '>' => Start::Prefix {
            shown: format!("{indent}{DIM}│{RESET} "),
            further: format!("{indent}{DIM}│{RESET} "),
            skip: indent.len() + 1 + usize::from(rest.starts_with(' ')),
            base: ITALIC,
        },
        '0'..='9' => {
            let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let mut after = trimmed[digits..].chars();
            match (after.next(), after.next()) {
                (None, _) | (Some('.' | ')'), None) if digits <= 9 => Start::Unknown,
                (Some(mark @ ('.' | ')')), Some(' ')) => {
                    item(&format!("{}{mark}", &trimmed[..digits]), digits + 2)
                }
                _ => text(),
            }
        }
        _ => text(),
    }
}

/// The fence of a code block at the beginning of a line, with its length and the text after it.
fn fence_of(line: &str) -> Option<(char, usize, &str)> {
    let fence = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(fence).len();
    let info = line[length..].trim();
    (length >= 3 && !info.contains('`')).then_some((fence, length, info))
}

/// Whether a line is a rule, such as `---`.
fn is_rule(line: &str) -> bool {
    let marks: Vec<char> = line.chars().filter(|c| *c != ' ').collect();
    marks.len() >= 3 && matches!(marks[0], '-' | '*' | '_') && marks.iter().all(|c| *c == marks[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let mut markdown = Markdown::new(80);
        markdown.push(text) + &markdown.finish()
    }

    #[test]
    fn blocks_are_rendered() {
        assert_eq!(rendered("## Title"), format!("{BOLD}Title{RESET}"));
        assert_eq!(rendered("#hashtag"), "#hashtag");
        assert_eq!(rendered("- one\n  - two\n1. three\n"), "• one\n  • two\n1. three\n");
        assert_eq!(rendered("> said"), format!("{DIM}│{RESET} {ITALIC}said{RESET}"));
        assert_eq!(rendered("a\n\n---\n\nb"), format!("a\n\n{DIM}{}{RESET}\n\nb", "─".repeat(40)));
        assert_eq!(rendered("10.5 kg and 3 - 2"), "10.5 kg and 3 - 2");
    }

    #[test]
    fn code_is_verbatim_and_its_fences_are_not_shown() {
        let text = "see:\n```rust\nlet **x** = `y`;\n# no heading\n```\nend";
        let shown = rendered(text);
        let expected = format!(
            "see:\n{DIM}    rust{RESET}\n{CODE}    let **x** = `y`;{RESET}\n{CODE}    # no heading{RESET}\nend"
        );
        assert_eq!(shown, expected);
        assert_eq!(rendered("```\nopen"), format!("{CODE}    open{RESET}"), "a block that does not end");
    }

    #[test]
    fn result_is_the_same_wherever_the_text_is_cut() {
        let text = "# H\n\nsome **bold** and *it* `co de` 2 * 3 snake_case_name **open\n\n- a *b*\n12) x\n\n| a | b |\n|---|---|\n\
                    | 1 | **2** |\n\n```sh\nls | wc\n```\n> q\n\n---\n***\nlast";
        for width in [80, 17, 5] {
            let mut markdown = Markdown::new(width);
            let whole = markdown.push(text) + &markdown.finish();
            for (cut, _) in text.char_indices() {
                let mut markdown = Markdown::new(width);
                let parts = markdown.push(&text[..cut]) + &markdown.push(&text[cut..]) + &markdown.finish();
                assert_eq!(parts, whole, "cut at {cut}, width {width}");
            }
            let mut markdown = Markdown::new(width);
            let mut single: String = text.chars().map(|c| markdown.push(&c.to_string())).collect();
            single.push_str(&markdown.finish());
            assert_eq!(single, whole, "one character at a time, width {width}");
        }
    }

    #[test]
    fn prose_is_shown_before_its_line_ends() {
        let mut markdown = Markdown::new(80);
        assert_eq!(markdown.push("A plain sen"), "A plain sen");
        assert_eq!(markdown.push("tence with **bo"), "tence with");
        assert_eq!(markdown.push("ld** text"), format!(" {BOLD}bold{RESET} text"));
        let _ = markdown.push(" up to the end of the r");
        assert_eq!(markdown.push("ow,"), "", "a word that may not fit is held back");
        assert_eq!(markdown.finish(), " row,");
    }

    #[test]
    fn prose_keeps_its_indentation_on_further_rows() {
        let rendered = |text: &str| {
            let mut markdown = Markdown::new(12);
            markdown.push(text) + &markdown.finish()
        };
        assert_eq!(rendered("Words of a paragraph.\nNext."), "Words of a\nparagraph.\nNext.");
        assert_eq!(
            rendered("- an item of two\n10. ten is long"),
            "• an item of\n  two\n10. ten is\n    long"
        );
        let bar = format!("{DIM}│{RESET} ");
        assert_eq!(
            rendered("> quoted words"),
            format!("{bar}{ITALIC}quoted{RESET}\n{bar}{ITALIC}words{RESET}")
        );
        let code = rendered("```\nlet code = stays(whole);\n```");
        assert_eq!(code, format!("{CODE}    let code = stays(whole);{RESET}\n"));
    }
}
