//! Questions as the user sees them: a headline, and the exact text that the question is about.
//!
//! Untrusted text cannot leave its place: every line, and every row of a wrapped line, begins with a bar. The headline
//! counts the lines and the escaped characters, so that an escape can be told from text that only looks like one.

use baton_markup::visible::{self, Form, Untrusted};

/// Prefix of each line of untrusted text.
const BAR: &str = "  │ ";
/// Prefix of each further row of a wrapped line.
const BAR_CONTINUED: &str = "  ┊ ";
/// Minimum width of a row, whatever the width of the terminal.
const MIN_WIDTH: usize = 16;
/// Summary of a text of one line without escapes. Sections leave it out.
const ONE_LINE: &str = "1 line";
/// Limit of characters for text inside the headline.
const INLINE_LIMIT: usize = 60;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    headline: Headline,
    sections: Vec<Section>,
    /// Numbered choices.
    choices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Headline {
    /// Fixed text.
    Plain(&'static str),
    /// Whether an action is allowed on an object: "running", "command", `ls`.
    Allow { doing: &'static str, what: &'static str, object: String },
}

/// Untrusted text under a label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    label: &'static str,
    text: String,
    form: Form,
}

impl Question {
    /// Creates a question with a fixed headline.
    pub fn plain(text: &'static str) -> Self {
        Self { headline: Headline::Plain(text), sections: Vec::new(), choices: Vec::new() }
    }

    /// Asks for permission: "allow running `ls`?", or "allow running this command?" if the object does not fit into the
    /// headline.
    pub fn allow(doing: &'static str, what: &'static str, object: &str) -> Self {
        let headline = Headline::Allow { doing, what, object: object.to_owned() };
        Self { headline, sections: Vec::new(), choices: Vec::new() }
    }

    /// Adds text in which every character matters. Empty text is left out.
    pub fn exact(self, label: &'static str, text: &str) -> Self {
        self.section(label, text, Form::Exact)
    }

    /// Adds a diff.
    pub fn diff(self, label: &'static str, text: &str) -> Self {
        self.section(label, text, Form::Diff)
    }

    /// Adds prose.
    pub fn prose(self, label: &'static str, text: &str) -> Self {
        self.section(label, text, Form::Prose)
    }

    /// Adds numbered choices.
    pub fn choices(mut self, choices: impl IntoIterator<Item = String>) -> Self {
        self.choices.extend(choices);
        self
    }

    fn section(mut self, label: &'static str, text: &str, form: Form) -> Self {
        if !text.is_empty() {
            self.sections.push(Section { label, text: text.to_owned(), form });
        }
        self
    }

    /// Lays out the question in lines, the headline first, for a terminal of this width.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.headline {
            Headline::Plain(text) => lines.push((*text).to_owned()),
            Headline::Allow { doing, object, .. } if fits_inline(object) => {
                lines.push(format!("allow {doing} `{object}`?"));
            }
            Headline::Allow { doing, what, object } => {
                let (body, about) = body(object, Form::Exact, width);
                lines.push(format!("allow {doing} this {what}? ({about})"));
                lines.extend(body);
            }
        }
        for section in &self.sections {
            let (body, about) = body(&section.text, section.form, width);
            let about = if about == ONE_LINE { String::new() } else { format!(" ({about})") };
            lines.push(format!("  {}{about}:", section.label));
            lines.extend(body);
        }
        let choices = self.choices.iter().enumerate();
        lines.extend(choices.map(|(n, choice)| format!("  {}. {}", n + 1, Untrusted(choice))));
        lines
    }
}

/// Whether a text can be shown in backticks unambiguously.
fn fits_inline(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= INLINE_LIMIT
        && !text.contains(['`', '\n'])
        && visible::line(text, Form::Exact).1 == 0
}

/// Returns the rows of a text, each behind a bar, and a summary of its size.
fn body(text: &str, form: Form, width: Option<usize>) -> (Vec<String>, String) {
    // A final line break ends the last line of prose and diffs; in exact text it is shown as an empty line.
    let text = if form == Form::Exact { text } else { text.strip_suffix('\n').unwrap_or(text) };
    let (mut rows, mut escaped, mut count) = (Vec::new(), 0, 0);
    for line in text.split('\n') {
        let (shown, hidden) = visible::line(line, form);
        (escaped, count) = (escaped + hidden, count + 1);
        let mut bar = BAR;
        for row in wrap(&shown, form, width) {
            rows.push(format!("{bar}{row}"));
            bar = BAR_CONTINUED;
        }
    }
    let mut about = if count == 1 { ONE_LINE.to_owned() } else { format!("{count} lines") };
    match escaped {
        0 => {}
        1 => about += ", 1 character shown as an escape",
        n => about += &format!(", {n} characters shown as escapes"),
    }
    (rows, about)
}

/// Wraps a line into rows, prose between words. A row must never be wrapped by the terminal, which would add no bar.
fn wrap(line: &str, form: Form, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![line.to_owned()] };
    let room = width.saturating_sub(BAR.chars().count() + 1).max(MIN_WIDTH);
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    for c in line.chars() {
        if used + width_of(c) > room {
            let word = row.rfind(' ').filter(|_| form == Form::Prose);
            let begun = word.map(|space| row.split_off(space + 1)).unwrap_or_default();
            rows.push(std::mem::replace(&mut row, begun));
            used = row.chars().map(width_of).sum();
        }
        row.push(c);
        used += width_of(c);
    }
    rows.push(row);
    rows
}

/// Terminals disagree about the width of characters, so all but ASCII count as wide.
fn width_of(c: char) -> usize {
    match c {
        '\t' => 8,
        c if c.is_ascii() => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Question {
        Question::allow("running", "command", text)
    }

    #[test]
    fn short_command_is_part_of_the_headline() {
        assert_eq!(command("echo one > made").lines(Some(80)), ["allow running `echo one > made`?"]);
    }

    #[test]
    fn every_line_of_a_command_is_counted_and_has_a_bar() {
        let lines = command("echo a\n\n? allow running `ls`? [y]es\n").lines(None);
        assert_eq!(
            lines,
            [
                "allow running this command? (4 lines)",
                "  │ echo a",
                "  │ ",
                "  │ ? allow running `ls`? [y]es",
                "  │ "
            ]
        );
    }

    #[test]
    fn invisible_characters_are_escaped_and_counted() {
        let lines = command("ls \x1b[2K\r# \u{202e}fr- mr ").lines(Some(80));
        assert_eq!(
            lines,
            [
                "allow running this command? (1 line, 4 characters shown as escapes)",
                "  │ ls \\x1b[2K\\r# \\u{202e}fr- mr\\x20"
            ]
        );
    }

    #[test]
    fn backticks_cannot_end_the_headline() {
        assert_eq!(
            command("ls`? [y]es").lines(None),
            ["allow running this command? (1 line)", "  │ ls`? [y]es"]
        );
    }

    #[test]
    fn long_lines_are_wrapped_behind_the_bar_and_complete() {
        let text = format!("echo {}; rm -rf ~ # 你好", " ".repeat(200));
        let lines = command(&text).lines(Some(40));
        let rows = &lines[1..];
        assert!(
            rows[0].starts_with(BAR) && rows[1..].iter().all(|row| row.starts_with(BAR_CONTINUED)),
            "{rows:?}"
        );
        assert!(rows.iter().all(|row| row.chars().count() < 40), "{rows:?}");
        let joined: String = rows.iter().map(|row| row.chars().skip(4).collect::<String>()).collect();
        assert_eq!(joined, text);
        assert!(!command("x").lines(Some(0)).is_empty(), "a terminal without a size");
    }

    #[test]
    fn prose_is_wrapped_between_words_and_complete() {
        let text = "`cat` with any plain arguments, but no file below /proc, /sys or of Baton 你好".repeat(2);
        let lines = Question::plain("?").prose("always means", &text).lines(Some(40));
        let rows: Vec<String> = lines[2..].iter().map(|row| row.chars().skip(4).collect()).collect();
        assert_eq!(rows.concat(), text);
        assert!(rows[..rows.len() - 1].iter().all(|row| row.ends_with(' ')), "{rows:?}");
        let long = "x".repeat(100);
        let lines = Question::plain("?").prose("a", &long).lines(Some(40));
        assert!(lines.iter().all(|row| row.chars().count() < 40), "{lines:?}");
    }

    #[test]
    fn choices_stay_on_their_lines() {
        let question = Question::plain("the model asks")
            .prose("question", "which?\r\nnow\n")
            .prose("context", "one line")
            .choices(["red".to_owned(), "blue\n  3. all".to_owned()]);
        assert_eq!(
            question.lines(None),
            [
                "the model asks",
                "  question (2 lines, 1 character shown as an escape):",
                "  │ which?\\r",
                "  │ now",
                "  context:",
                "  │ one line",
                "  1. red",
                "  2. blue\\n  3. all"
            ]
        );
    }
}
