//! Shell lines: which commands they run, which grants cover them, and which rules name them.
//!
//! A [`Line`] is [`Commands`] or [`Opaque`]. The first has been parsed to the last character by an allow-list grammar
//! (`grammar`); the second is everything else, and no grant or allow rule covers it. Programs are listed in `catalogue`,
//! and the arguments with which they are harmless in `arguments`.
//!
//! Identifiers in grants and rules have three forms:
//! - `echo`, `git status`: a program that is harmless with plain arguments. Covers it with any plain arguments.
//! - `make:*`, `cargo test:*`: any command that begins with these words. The user has been shown what that means.
//! - anything else: exactly this line.
//!
//! The parser must never find fewer commands in a line than a shell would run; a differential test checks this
//! (`agent/tests/shell_against_bash`).

mod arguments;
mod catalogue;
mod grammar;
mod naming;
mod pieces;
mod word;

use baton_protocol::permission::ShellCommand;

use self::catalogue::Kind;
pub use self::pieces::{Piece, SimpleCommand};
use self::word::Command;
use super::Match;

/// Suffix of identifiers of wide grants.
const WIDE: &str = ":*";

/// A parsed shell line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// All commands of the line are known.
    Commands(Commands<'a>),
    /// The line may run anything.
    Opaque(Opaque<'a>),
}

/// A line whose commands are all known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands<'a> {
    /// The line, trimmed.
    text: &'a str,
    /// At least one.
    commands: Vec<Command<'a>>,
}

/// A line that could not be parsed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque<'a> {
    text: &'a str,
    why: Why,
}

/// Why a line is opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no command in it.
    Empty,
    /// It is longer than the limit.
    TooLong,
    /// A character that is displayed as another, or that shells disagree about.
    Character,
    /// A quote that is not closed, or an operator without a command.
    Incomplete,
    /// An operator such as `&`, `|&` or `;;`.
    Operator,
    /// A redirection from or to a file.
    Redirection,
    /// A substitution of a command, process or arithmetic, or a variable in another form than `$NAME` and `${NAME}`.
    Substitution,
    /// Braces: `{a,b}`, or a group.
    Braces,
    /// A comment.
    Comment,
    /// A backslash at the end of a line, within a word.
    Continuation,
    /// A variable that is set for the rest of the line, or to a value that may be evaluated.
    Assignment,
    /// A keyword such as `if`, `for`, `[[` or `time`.
    Keyword,
    /// A program whose name is known only at run time.
    Program,
}

impl Why {
    /// Returns the reason as text, to follow "the line is not understood: ".
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
            Self::Continuation => "a word continues on the next line",
            Self::Assignment => "it sets a variable for other commands",
            Self::Keyword => "it uses a keyword of the shell",
            Self::Program => "the name of a program is known only at run time",
        }
    }
}

/// A grant that can be offered for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOffer {
    /// Identifiers of the grant.
    pub identifiers: Vec<String>,
    /// What the grant covers, as text for the user.
    pub meaning: String,
}

impl<'a> Line<'a> {
    /// Parses a line. Never fails: a line outside the grammar is [`Opaque`].
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let trimmed = trim(text);
        // An option of the shell, not a command: the line is passed to `bash -c`.
        let parsed = if text.starts_with(['-', '+']) { Err(Why::Program) } else { grammar::parse(text) };
        match parsed {
            Ok(commands) => Self::Commands(Commands { text: trimmed, commands }),
            Err(why) => Self::Opaque(Opaque { text: trimmed, why }),
        }
    }

    /// Whether the line is known to write no file and to run no program besides those that it names.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Commands(line) => line.commands.iter().all(Command::is_read_only),
            Self::Opaque(_) => false,
        }
    }

    /// Whether the argument of a deny rule (`rm`, `git push`, `git:*`) names a command of the line.
    #[must_use]
    pub fn is_named_by(&self, argument: &str) -> Match {
        match self {
            Self::Commands(line) => naming::of_commands(line.text, &line.commands, argument),
            Self::Opaque(line) => naming::of_opaque(line.text, argument),
        }
    }

    /// Whether the identifiers of all grants and allow rules together cover the line.
    #[must_use]
    pub fn is_covered_by(&self, identifiers: &[&str]) -> bool {
        self.is_covered_by_any(&identifiers.iter().copied())
    }

    /// The same, without a list: a decision allocates little.
    pub(super) fn is_covered_by_any<'i>(
        &self,
        identifiers: &(impl Iterator<Item = &'i str> + Clone),
    ) -> bool {
        match self {
            Self::Commands(line) => line.is_covered_by(identifiers),
            Self::Opaque(_) => false,
        }
    }

    /// Returns the grants that can be offered: the default first, then a wider one if there is one.
    #[must_use]
    pub fn offers(&self) -> Vec<LineOffer> {
        match self {
            Self::Commands(line) if !line.is_distrusted() => {
                line.default_offer().into_iter().chain(line.wide_offer()).collect()
            }
            Self::Commands(_) | Self::Opaque(_) => Vec::new(),
        }
    }

    /// Whether a grant can be offered: whether [`offers`](Self::offers) returns any.
    #[must_use]
    pub fn is_grantable(&self) -> bool {
        match self {
            Self::Commands(line) => {
                !line.is_distrusted()
                    && (line.is_plain() || line.has_exact_offer() || line.wide_offer().is_some())
            }
            Self::Opaque(_) => false,
        }
    }

    /// Returns the commands in the form for clients: the identifiers of the default offer. A line that only a grant for
    /// the exact line covers, or no grant, is one command.
    #[must_use]
    pub fn commands(&self) -> Vec<ShellCommand> {
        match self {
            Self::Commands(line) if line.is_plain() => line.identified(),
            Self::Commands(Commands { text, .. }) | Self::Opaque(Opaque { text, .. }) => {
                vec![ShellCommand { identifier: (*text).to_owned(), read_only: self.is_read_only() }]
            }
        }
    }

    /// Whether a git command of the line is harmless only as long as the configuration of its repository is. Code that
    /// builds a request for such a line must check that configuration first.
    #[must_use]
    pub fn reads_repository(&self) -> bool {
        match self {
            Self::Commands(line) => line.commands.iter().any(Command::reads_repository),
            Self::Opaque(_) => false,
        }
    }

    /// Returns the line as it is in a repository whose configuration can run programs: only wide grants and rules cover
    /// its git commands, and none is offered.
    #[must_use]
    pub fn in_distrusted_repository(mut self) -> Self {
        if let Self::Commands(line) = &mut self {
            let git = line.commands.iter_mut().filter(|command| command.reads_repository());
            git.for_each(Command::distrust);
        }
        self
    }

    /// Returns why the line is opaque, if it is.
    #[must_use]
    pub fn why_opaque(&self) -> Option<Why> {
        match self {
            Self::Commands(_) => None,
            Self::Opaque(line) => Some(line.why),
        }
    }
}

impl Commands<'_> {
    /// Returns the programs of the line, as written.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().map(Command::program)
    }

    /// Returns the commands with their words as a shell expands them.
    pub fn in_pieces(&self) -> impl Iterator<Item = SimpleCommand<'_>> {
        self.commands.iter().map(SimpleCommand::of)
    }

    /// Returns the words of the line without their quotes.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().flat_map(|command| &command.words).map(|word| &*word.text)
    }

    fn is_distrusted(&self) -> bool {
        self.commands.iter().any(|command| command.distrusted)
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

    fn is_covered_by<'i>(&self, identifiers: &(impl Iterator<Item = &'i str> + Clone)) -> bool {
        // Otherwise the text of a line could be read as a wide grant.
        let exact = |identifier: &str| !identifier.ends_with(WIDE) && trim(identifier) == self.text;
        // The text of `git status` is its identifier as well, which was granted for a repository that runs nothing.
        (!self.is_distrusted() && identifiers.clone().any(exact))
            || self.commands.iter().all(|command| is_command_covered(command, identifiers))
    }

    fn default_offer(&self) -> Option<LineOffer> {
        if self.is_plain() {
            let identifiers: Vec<String> = self.identified().into_iter().map(|c| c.identifier).collect();
            let quoted: Vec<String> = identifiers.iter().map(|name| format!("`{name}`")).collect();
            return Some(LineOffer {
                identifiers,
                meaning: format!("{} with any plain arguments", quoted.join(", ")),
            });
        }
        self.has_exact_offer().then(|| LineOffer {
            identifiers: vec![self.text.to_owned()],
            meaning: "exactly this line".to_owned(),
        })
    }

    /// Whether the text of the line cannot be mistaken for a wide grant.
    fn has_exact_offer(&self) -> bool {
        !self.text.ends_with(WIDE)
    }

    fn wide_offer(&self) -> Option<LineOffer> {
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
        Some(LineOffer { identifiers, meaning: meanings.join("; and ") })
    }
}

fn is_command_covered<'i>(
    command: &Command<'_>,
    identifiers: &(impl Iterator<Item = &'i str> + Clone),
) -> bool {
    if command.plain && command.is_identified_by_any(identifiers.clone()) {
        return true;
    }
    let begins = |identifier: &str| {
        let Some(name) = identifier.strip_suffix(WIDE) else { return false };
        let mut words = command.words.iter();
        name.split(' ').all(|part| words.next().is_some_and(|word| !part.is_empty() && word.is_written(part)))
    };
    !command.needs_exact_line() && identifiers.clone().any(begins)
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

/// Removes the blanks around a line, except one behind a backslash: `rm \ ` removes a file, `rm` none.
fn trim(text: &str) -> &str {
    const BLANKS: [char; 3] = [' ', '\t', '\n'];
    let text = text.trim_start_matches(BLANKS);
    let trimmed = text.trim_end_matches(BLANKS).len();
    let is_escaped = text[..trimmed].ends_with('\\') && trimmed < text.len();
    &text[..trimmed + usize::from(is_escaped)]
}

#[cfg(test)]
mod tests;
