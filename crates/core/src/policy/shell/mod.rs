//! Shell lines: what they run, what a grant for them covers, and which rules speak about them.
//!
//! A [`Line`] is [`Commands`] or [`Opaque`]. The first is what an allow-list grammar (`grammar`) has taken apart
//! to the last character; the second is everything else, and no grant and no allow rule ever covers it. What is
//! known of programs is in `catalogue`, and with which words they are harmless in `arguments`.
//!
//! Identifiers, which grants and rules are made of, come in three forms:
//! - `echo`, `git status`: a program that is harmless with plain words. Covers it with any plain words.
//! - `make:*`, `cargo test:*`: any command that begins with these words. A person has been told what that means.
//! - anything else: exactly this line.
//!
//! This is no shell. It must never claim that a line runs less than it does, and the differential test in
//! `agent/tests/shell_against_bash` holds it to that.

mod arguments;
mod catalogue;
mod grammar;
mod naming;
mod word;

use baton_protocol::permission::ShellCommand;

use self::catalogue::Kind;
use self::word::Command;
use super::Match;

/// What the identifiers of wide grants end with.
const WIDE: &str = ":*";

/// A shell line, understood or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// All that the line runs is known.
    Commands(Commands),
    /// The line may run anything.
    Opaque(Opaque),
}

/// The commands of a line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The line without blanks around it.
    text: String,
    /// At least one.
    commands: Vec<Command>,
}

/// A line that was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    text: String,
    why: Why,
}

/// Why a line was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no command in it.
    Empty,
    /// It is longer than any line that is looked at.
    TooLong,
    /// A character that is not shown as what it is, or that shells disagree about.
    Character,
    /// A quote that is not closed, or an operator without a command.
    Incomplete,
    /// `&`, `|&`, `;;` and others.
    Operator,
    /// Into or from a file.
    Redirection,
    /// Of commands, processes, arithmetic, or of a variable in one of the many other forms.
    Substitution,
    /// `{a,b}` and groups.
    Braces,
    /// `# ...`.
    Comment,
    /// A backslash at the end of a line, within a word.
    Continuation,
    /// A variable is set for the rest of the line, or to something that may be evaluated.
    Assignment,
    /// `if`, `for`, `[[`, `time` and others.
    Keyword,
    /// The name of the program is known only when the line runs.
    Program,
}

impl Why {
    /// The reason in words, to follow "the line is not understood: ".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "it has no command",
            Self::TooLong => "it is too long",
            Self::Character => "it has characters that are not what they look like",
            Self::Incomplete => "a quote or a command is incomplete",
            Self::Operator => "it uses an operator other than &&, ||, ; and |",
            Self::Redirection => "it redirects from or into a file",
            Self::Substitution => "it substitutes something other than a plain variable",
            Self::Braces => "it uses braces",
            Self::Comment => "it has a comment",
            Self::Continuation => "a word goes on in the next line",
            Self::Assignment => "it sets a variable for other commands",
            Self::Keyword => "it uses a keyword of the shell",
            Self::Program => "what it runs is known only when it runs",
        }
    }
}

/// A grant that a person can be offered for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What the grant is made of.
    pub identifiers: Vec<String>,
    /// What it covers, in words.
    pub meaning: String,
}

impl Line {
    /// Takes a line apart. Never fails: what is not understood is [`Opaque`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let trimmed = trim(text);
        // An option of the shell, not a command: the line is passed to `bash -c`.
        let parsed = if text.starts_with(['-', '+']) { Err(Why::Program) } else { grammar::parse(text) };
        match parsed {
            Ok(commands) => Self::Commands(Commands { text: trimmed.to_owned(), commands }),
            Err(why) => Self::Opaque(Opaque { text: trimmed.to_owned(), why }),
        }
    }

    /// Whether the line is known to write no file and to run no program that it does not show.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Commands(line) => line.commands.iter().all(Command::is_read_only),
            Self::Opaque(_) => false,
        }
    }

    /// Whether a command of the line is, or may be, what the argument of a deny rule names: `rm`, `git push`,
    /// `git:*`.
    #[must_use]
    pub fn is_named_by(&self, argument: &str) -> Match {
        match self {
            Self::Commands(line) => naming::of_commands(&line.text, &line.commands, argument),
            Self::Opaque(line) => naming::of_opaque(&line.text, argument),
        }
    }

    /// Whether the identifiers of grants and allow rules, all of them together, cover the line.
    #[must_use]
    pub fn is_covered_by(&self, identifiers: &[&str]) -> bool {
        match self {
            Self::Commands(line) => line.is_covered_by(identifiers),
            Self::Opaque(_) => false,
        }
    }

    /// The grants that a person can be offered: first the default, then a wider one if there is any.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        match self {
            Self::Commands(line) => line.default_offer().into_iter().chain(line.wide_offer()).collect(),
            Self::Opaque(_) => Vec::new(),
        }
    }

    /// The commands as the wire shows them, which are the identifiers of the default offer. A line that only a
    /// grant for all of it covers, or none, is one command.
    #[must_use]
    pub fn commands(&self) -> Vec<ShellCommand> {
        match self {
            Self::Commands(line) if line.is_plain() => line.identified(),
            Self::Commands(Commands { text, .. }) | Self::Opaque(Opaque { text, .. }) => {
                vec![ShellCommand { identifier: text.clone(), read_only: self.is_read_only() }]
            }
        }
    }

    /// Why the line is not understood, if it is not.
    #[must_use]
    pub fn why_opaque(&self) -> Option<Why> {
        match self {
            Self::Commands(_) => None,
            Self::Opaque(line) => Some(line.why),
        }
    }
}

impl Commands {
    /// The programs that the line runs, as they are written.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().map(Command::program)
    }

    /// The words of the line without their quotes, program by program.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().flat_map(|command| &command.words).map(|word| word.text.as_str())
    }

    fn is_plain(&self) -> bool {
        self.commands.iter().all(|command| command.plain)
    }

    fn identified(&self) -> Vec<ShellCommand> {
        let mut identified: Vec<ShellCommand> = Vec::new();
        for command in &self.commands {
            let identifier = command.identifier();
            if identified.iter().all(|known| known.identifier != identifier) {
                identified.push(ShellCommand { identifier, read_only: command.is_read_only() });
            }
        }
        identified
    }

    fn is_covered_by(&self, identifiers: &[&str]) -> bool {
        // Such a text would be read as a wide grant.
        let exact = |identifier: &&str| !identifier.ends_with(WIDE) && trim(identifier) == self.text;
        identifiers.iter().any(exact)
            || self.commands.iter().all(|command| is_command_covered(command, identifiers))
    }

    fn default_offer(&self) -> Option<Offer> {
        if self.is_plain() {
            let identifiers: Vec<String> = self.identified().into_iter().map(|c| c.identifier).collect();
            let quoted: Vec<String> = identifiers.iter().map(|name| format!("`{name}`")).collect();
            return Some(Offer {
                identifiers,
                meaning: format!("{} with any plain arguments", quoted.join(", ")),
            });
        }
        (!self.text.ends_with(WIDE))
            .then(|| Offer { identifiers: vec![self.text.clone()], meaning: "exactly this line".to_owned() })
    }

    fn wide_offer(&self) -> Option<Offer> {
        if self.is_plain() || self.commands.iter().any(Command::needs_exact_line) {
            return None;
        }
        let (mut identifiers, mut meanings) = (Vec::new(), Vec::new());
        for command in &self.commands {
            let name = command.identifier();
            let (identifier, meaning) = match command.plain {
                true => (name.clone(), format!("`{name}` with any plain arguments")),
                false if !command.words.first()?.bare => return None,
                false => (format!("{name}{WIDE}"), wide_meaning(command.kind, &name)),
            };
            if !identifiers.contains(&identifier) {
                identifiers.push(identifier);
                meanings.push(meaning);
            }
        }
        Some(Offer { identifiers, meaning: meanings.join("; and ") })
    }
}

fn is_command_covered(command: &Command, identifiers: &[&str]) -> bool {
    if command.plain && command.is_identified_by_any(identifiers) {
        return true;
    }
    let begins = |identifier: &&str| {
        let Some(name) = identifier.strip_suffix(WIDE) else { return false };
        let mut words = command.words.iter();
        name.split(' ').all(|part| words.next().is_some_and(|word| !part.is_empty() && word.is_written(part)))
    };
    !command.needs_exact_line() && identifiers.iter().any(begins)
}

fn wide_meaning(kind: Kind, name: &str) -> String {
    let can = match kind {
        Kind::Reader | Kind::Sharp => "its options can write files or run other programs".to_owned(),
        Kind::Maker | Kind::Changer => format!("{name} can change or delete any file"),
        Kind::Runner | Kind::ShellState => format!("{name} can run other programs"),
        Kind::Wrapper => format!("{name} runs whatever program it is given"),
        Kind::Unknown => {
            format!("{name} is not known to Baton and may run other programs and change any file")
        }
    };
    format!("any `{name}` command; {can}")
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n'])
}

#[cfg(test)]
mod tests;
