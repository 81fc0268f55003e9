//! Words and simple commands.

use std::borrow::Cow;

use super::catalogue::{self, Kind};

/// How a shell expands a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expansion {
    /// Not at all: the text is the argument.
    None,
    /// A variable within double quotes. The result is one argument, whatever its value.
    Quoted,
    /// A variable outside quotes, a glob, or another user's `~`. The result is any number of arguments.
    Open,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The word without its quotes; variables as they are written.
    pub(super) text: Cow<'a, str>,
    /// Whether it is written without quotes and backslashes.
    pub(super) bare: bool,
    pub(super) expansion: Expansion,
    /// The word as it is written, with its quotes.
    pub(super) written: &'a str,
}

impl Word<'_> {
    /// Whether the text is exactly the argument.
    pub(super) fn is_literal(&self) -> bool {
        self.expansion == Expansion::None
    }

    /// Whether the word is written as `text`, without quotes that could hide it from a user.
    pub(super) fn is_written(&self, text: &str) -> bool {
        self.bare && self.is_literal() && self.text == text
    }
}

/// A word that is being read. Its text is a part of the line, or several parts if quotes and backslashes are between them.
pub(super) struct Draft<'a> {
    line: &'a str,
    /// The text, as long as it is one part.
    part: (usize, usize),
    joined: Option<String>,
    pub(super) bare: bool,
    pub(super) expansion: Expansion,
}

impl<'a> Draft<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, part: (0, 0), joined: None, bare: true, expansion: Expansion::None }
    }

    /// Adds a part of the line, from a position and with a length in bytes.
    pub(super) fn copy(&mut self, from: usize, length: usize) {
        let (start, end) = self.part;
        match &mut self.joined {
            Some(text) => text.push_str(&self.line[from..from + length]),
            None if start == end => self.part = (from, from + length),
            None if end == from => self.part = (start, from + length),
            None if length == 0 => {}
            None => self.joined = Some([&self.line[start..end], &self.line[from..from + length]].concat()),
        }
    }

    pub(super) fn text(&self) -> &str {
        match &self.joined {
            Some(text) => text,
            None => &self.line[self.part.0..self.part.1],
        }
    }

    /// Returns the word. `written` is the part of the line that was read.
    pub(super) fn finish(self, written: &'a str) -> Word<'a> {
        let text = match self.joined {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(&self.line[self.part.0..self.part.1]),
        };
        Word { text, bare: self.bare, expansion: self.expansion, written }
    }
}

/// One simple command: a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// The program, which is literal, and its arguments.
    pub(super) words: Vec<Word<'a>>,
    /// Variables that are set for the program. `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` can change what runs.
    pub(super) assigned: Vec<&'a str>,
    pub(super) kind: Kind,
    /// Whether a grant for its identifier covers it.
    pub(super) plain: bool,
    /// A git command that would be harmless, in a repository whose configuration can run programs.
    pub(super) distrusted: bool,
}

impl<'a> Command<'a> {
    /// Classifies a command. `moved`: whether the line may have changed the directory before it.
    pub(super) fn new(words: Vec<Word<'a>>, assigned: Vec<&'a str>, moved: bool) -> Self {
        let verdict = catalogue::classify(&words, moved);
        let open = words.iter().any(|word| word.expansion == Expansion::Open);
        let kind = if assigned.is_empty() { verdict.kind } else { Kind::Runner };
        let plain = verdict.plain && assigned.is_empty() && !open;
        Self { words, assigned, kind, plain, distrusted: false }
    }

    /// Whether the command is harmless only as long as the configuration of its repository is.
    pub(super) fn reads_repository(&self) -> bool {
        self.kind == Kind::Reader && self.program() == "git"
    }

    /// Treats a git command as one that can run other programs.
    pub(super) fn distrust(&mut self) {
        self.kind = Kind::Runner;
        self.plain = false;
        self.distrusted = true;
    }

    /// Returns the program, as written.
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |word| &*word.text)
    }

    /// Returns the identifier of a grant for the command, without the suffix of a wide grant.
    pub(super) fn identifier(&self) -> String {
        let words: Vec<&str> = catalogue::name(&self.words).iter().map(|word| &*word.text).collect();
        words.join(" ")
    }

    /// Whether one of these identifies the command.
    pub(super) fn is_identified_by_any<'i>(&self, mut identifiers: impl Iterator<Item = &'i str>) -> bool {
        let name = catalogue::name(&self.words);
        let is_own = |identifier: &str| match name {
            [program] => identifier == program.text,
            name => identifier.split(' ').eq(name.iter().map(|word| &*word.text)),
        };
        identifiers.any(is_own)
    }

    /// Whether variables are set for the program.
    pub(super) fn assigns(&self) -> bool {
        !self.assigned.is_empty()
    }

    /// Whether the command writes no file and runs no other program.
    pub(super) fn is_read_only(&self) -> bool {
        self.kind == Kind::Reader
    }

    /// Whether only a grant for the exact line can cover it.
    pub(super) fn needs_exact_line(&self) -> bool {
        self.assigns()
            || self.kind == Kind::ShellState
            || self.words.iter().any(|word| word.expansion == Expansion::Open)
    }
}
