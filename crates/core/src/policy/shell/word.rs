//! Words and simple commands, as the grammar produces them.

use super::catalogue::{self, Kind};

/// What the shell still does to a word before a program gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expansion {
    /// Nothing: the text is what the program gets.
    None,
    /// A variable within double quotes. It stays one word, whatever its value.
    Quoted,
    /// A variable outside quotes, a pattern of file names or another user's `~`. It can become any number of words.
    Open,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word without its quotes; variables as they are written.
    pub(super) text: String,
    /// Written without any quote or backslash.
    pub(super) bare: bool,
    pub(super) expansion: Expansion,
}

impl Word {
    /// Whether the text is exactly what the program gets.
    pub(super) fn is_literal(&self) -> bool {
        self.expansion == Expansion::None
    }

    /// Whether the word reads `text`, without quotes that would hide it from a person.
    pub(super) fn is_written(&self, text: &str) -> bool {
        self.bare && self.is_literal() && self.text == text
    }
}

/// One simple command: a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The program, which is always literal, and its arguments.
    pub(super) words: Vec<Word>,
    /// Variables are set for the program: `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` make another one of it.
    pub(super) assigns: bool,
    pub(super) kind: Kind,
    /// Covered by a grant for its identifier.
    pub(super) plain: bool,
}

impl Command {
    /// Classifies a command. `moved` says that the line may have changed the directory before it.
    pub(super) fn new(words: Vec<Word>, assigns: bool, moved: bool) -> Self {
        let verdict = catalogue::classify(&words, moved);
        let open = words.iter().any(|word| word.expansion == Expansion::Open);
        let kind = if assigns { Kind::Runner } else { verdict.kind };
        let plain = verdict.plain && !assigns && !open;
        Self { words, assigns, kind, plain }
    }

    /// The program as it was written; a parsed command always has one.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    /// The identifier of a grant for the command, without what makes it wide.
    pub(super) fn identifier(&self) -> String {
        let words: Vec<&str> = catalogue::name(&self.words).iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// Whether one of these is the identifier of a grant for the command.
    pub(super) fn is_identified_by_any(&self, identifiers: &[&str]) -> bool {
        let name = catalogue::name(&self.words);
        let is_own = |identifier: &&str| identifier.split(' ').eq(name.iter().map(|word| word.text.as_str()));
        identifiers.iter().any(is_own)
    }

    /// Whether the command writes no file and runs no other program.
    pub(super) fn is_read_only(&self) -> bool {
        self.kind == Kind::Reader
    }

    /// Whether only a grant for the whole line can cover it.
    pub(super) fn needs_exact_line(&self) -> bool {
        self.assigns
            || self.kind == Kind::ShellState
            || self.words.iter().any(|word| word.expansion == Expansion::Open)
    }
}
