//! A question as a person at a terminal sees it: what is asked, and exactly what it is about.
//!
//! Everything untrusted stands behind a bar that it cannot get in front of: each line has one, and so has each row that
//! a long line takes. The headline says how many lines there are and how many characters are shown as escapes, so that
//! an escape cannot be mistaken for text that only looks like one.

use super::visible::{self, Form, Untrusted};

/// Begins each line of an exhibit.
const BAR: &str = "  │ ";
/// Begins each further row of a line that is wider than the terminal.
const BAR_AGAIN: &str = "  ┊ ";
/// In a narrower terminal rows are this wide all the same.
const NARROWEST: usize = 16;
/// The longest text that is shown within the headline, in characters.
const LONGEST_INLINE: usize = 60;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    asks: Asks,
    exhibits: Vec<Exhibit>,
    /// Numbered choices, and which of them is recommended.
    choices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Asks {
    /// A question in our own words.
    Plain(&'static str),
    /// Whether something may be done to an object: "running", "this command", `ls`.
    Allow { doing: &'static str, what: &'static str, object: String },
}

/// Untrusted text that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exhibit {
    label: &'static str,
    text: String,
    form: Form,
}

impl Question {
    /// A question in our own words.
    pub(crate) fn plain(words: &'static str) -> Self {
        Self { asks: Asks::Plain(words), exhibits: Vec::new(), choices: Vec::new() }
    }

    /// Asks whether something is allowed, as in "allow running `ls`?", or "allow running this command?" where the object
    /// does not fit into a line.
    pub(crate) fn allow(doing: &'static str, what: &'static str, object: &str) -> Self {
        let asks = Asks::Allow { doing, what, object: object.to_owned() };
        Self { asks, exhibits: Vec::new(), choices: Vec::new() }
    }

    /// Adds a text of which every character counts. An empty one says nothing and is left out.
    pub(crate) fn exact(self, label: &'static str, text: &str) -> Self {
        self.exhibit(label, text, Form::Exact)
    }

    /// Adds a diff.
    pub(crate) fn diff(self, label: &'static str, text: &str) -> Self {
        self.exhibit(label, text, Form::Diff)
    }

    /// Adds text to read.
    pub(crate) fn prose(self, label: &'static str, text: &str) -> Self {
        self.exhibit(label, text, Form::Prose)
    }

    /// Adds choices, to be picked by their numbers.
    pub(crate) fn choices(mut self, choices: impl IntoIterator<Item = String>) -> Self {
        self.choices.extend(choices);
        self
    }

    fn exhibit(mut self, label: &'static str, text: &str, form: Form) -> Self {
        if !text.is_empty() {
            self.exhibits.push(Exhibit { label, text: text.to_owned(), form });
        }
        self
    }

    /// The question in lines, the first of which is the headline. `width` is the terminal's.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.asks {
            Asks::Plain(words) => lines.push((*words).to_owned()),
            Asks::Allow { doing, object, .. } if fits_inline(object) => {
                lines.push(format!("allow {doing} `{object}`?"));
            }
            Asks::Allow { doing, what, object } => {
                let (body, about) = body(object, Form::Exact, width);
                lines.push(format!("allow {doing} this {what}? ({about})"));
                lines.extend(body);
            }
        }
        for exhibit in &self.exhibits {
            let (body, about) = body(&exhibit.text, exhibit.form, width);
            lines.push(format!("  {} ({about}):", exhibit.label));
            lines.extend(body);
        }
        let choices = self.choices.iter().enumerate();
        lines.extend(choices.map(|(n, choice)| format!("  {}. {}", n + 1, Untrusted(choice))));
        lines
    }
}

/// Whether a text can stand between backticks without any doubt where it ends and what it is.
fn fits_inline(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= LONGEST_INLINE
        && !text.contains(['`', '\n'])
        && visible::line(text, Form::Exact).1 == 0
}

/// The rows of a text, each behind a bar, and how large it is in words.
fn body(text: &str, form: Form, width: Option<usize>) -> (Vec<String>, String) {
    // A line break at the very end ends the last line of prose and diffs; in a command it is one more thing to see.
    let text = if form == Form::Exact { text } else { text.strip_suffix('\n').unwrap_or(text) };
    let (mut rows, mut escaped, mut count) = (Vec::new(), 0, 0);
    for line in text.split('\n') {
        let (shown, hidden) = visible::line(line, form);
        (escaped, count) = (escaped + hidden, count + 1);
        let mut bar = BAR;
        for row in wrap(&shown, width) {
            rows.push(format!("{bar}{row}"));
            bar = BAR_AGAIN;
        }
    }
    let mut about = if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
    match escaped {
        0 => {}
        1 => about += ", 1 character shown as an escape",
        n => about += &format!(", {n} characters shown as escapes"),
    }
    (rows, about)
}

/// A line in rows that fit. How wide a character is, terminals disagree about; whatever is not ASCII is taken to be wide,
/// so that a row never reaches the edge and continues without its bar.
fn wrap(line: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![line.to_owned()] };
    let room = width.saturating_sub(BAR.chars().count() + 1).max(NARROWEST);
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    for c in line.chars() {
        let wide = match c {
            '\t' => 8,
            c if c.is_ascii() => 1,
            _ => 2,
        };
        if used + wide > room {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        row.push(c);
        used += wide;
    }
    rows.push(row);
    rows
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
    fn every_line_of_a_command_is_counted_and_barred() {
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
    fn hidden_characters_are_shown_and_counted() {
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
    fn long_lines_are_shown_whole_and_never_leave_the_bar() {
        let text = format!("echo {}; rm -rf ~ # 你好", " ".repeat(200));
        let lines = command(&text).lines(Some(40));
        let rows = &lines[1..];
        assert!(
            rows[0].starts_with(BAR) && rows[1..].iter().all(|row| row.starts_with(BAR_AGAIN)),
            "{rows:?}"
        );
        assert!(rows.iter().all(|row| row.chars().count() < 40), "{rows:?}");
        let joined: String = rows.iter().map(|row| row.chars().skip(4).collect::<String>()).collect();
        assert_eq!(joined, text);
        assert!(!command("x").lines(Some(0)).is_empty(), "a terminal without a size is no reason to fail");
    }

    #[test]
    fn choices_stay_on_their_lines() {
        let question = Question::plain("the model asks")
            .prose("question", "which?\r\nnow\n")
            .choices(["red".to_owned(), "blue\n  3. all".to_owned()]);
        assert_eq!(
            question.lines(None),
            [
                "the model asks",
                "  question (2 lines, 1 character shown as an escape):",
                "  │ which?\\r",
                "  │ now",
                "  1. red",
                "  2. blue\\n  3. all"
            ]
        );
    }
}
