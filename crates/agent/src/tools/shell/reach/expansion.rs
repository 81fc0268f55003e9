//! Expansion of words: the arguments that a word of a line can become.
//!
//! The expansion is exact where that is easy. Elsewhere it yields more than the shell would, and one more path is checked.
//! For a word that only the shell can expand it yields nothing, and the line needs approval.

use std::collections::BTreeSet;
use std::path::PathBuf;

use baton_core::policy::shell::Piece;

use super::super::environment::CommandEnvironment;
use super::glob::{Budget, Pattern};

/// The variables of the shell that runs a line, as far as they are known at a command of the line.
pub(super) struct Variables<'a> {
    environment: &'a CommandEnvironment,
    /// Variables that earlier commands may have set.
    changed: BTreeSet<String>,
    /// Whether an earlier command may have set any variable.
    all_changed: bool,
}

impl<'a> Variables<'a> {
    pub(super) fn new(environment: &'a CommandEnvironment) -> Self {
        Self { environment, changed: BTreeSet::new(), all_changed: false }
    }

    /// Forgets the value of a variable.
    pub(super) fn forget(&mut self, name: &str) {
        self.changed.insert(name.to_owned());
    }

    /// Forgets the values of all variables.
    pub(super) fn forget_all(&mut self) {
        self.all_changed = true;
    }

    /// Returns the value of a variable, if it is known.
    pub(super) fn known(&self, name: &str) -> Option<&str> {
        let is_kept = !self.all_changed && !self.changed.contains(name);
        self.environment.known(name).filter(|_| is_kept)
    }

    /// Whether a variable may have a value.
    pub(super) fn may_be_set(&self, name: &str) -> bool {
        self.all_changed || self.changed.contains(name) || self.environment.has(name)
    }
}

/// Returns the arguments that a word can become. `None` if only the shell knows them, or there are too many.
pub(super) fn arguments(
    word: &[Piece<'_>],
    variables: &Variables<'_>,
    directories: &[PathBuf],
    budget: &mut Budget,
) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    for tildes in [Tildes::Literal, Tildes::Expanded] {
        let Some(pattern) = pattern(word, variables, tildes)? else { continue };
        // A glob without a match stays as it is written.
        arguments.push(pattern.text());
        if pattern.is_glob() {
            arguments.extend(pattern.matches(directories, budget)?);
        }
    }
    Some(arguments)
}

/// How `~` is read. Both readings count, because shells differ in where they expand it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tildes {
    Literal,
    Expanded,
}

/// Builds the pattern of a word: the outer `None` if it is not known, the inner one if it has no `~` to expand.
#[expect(clippy::option_option, reason = "two different answers, named in the comment")]
fn pattern(word: &[Piece<'_>], variables: &Variables<'_>, tildes: Tildes) -> Option<Option<Pattern>> {
    let mut pattern = Pattern::default();
    let mut has_tilde = false;
    for (at, piece) in word.iter().enumerate() {
        match piece {
            Piece::Quoted(text) => pattern.push_literal(text),
            Piece::QuotedVariable(name) => pattern.push_literal(variables.known(name)?),
            Piece::BareVariable(name) => {
                let value = variables.known(name)?;
                if value.contains([' ', '\t', '\n']) {
                    // It is several words.
                    return None;
                }
                pattern.push_bare(value);
            }
            Piece::Bare(text) => {
                let is_last = at + 1 == word.len();
                let mut rest = *text;
                while let Some(tilde) = rest.find('~') {
                    pattern.push_bare(&rest[..tilde]);
                    rest = &rest[tilde + 1..];
                    match tilde_at(&pattern, rest, is_last) {
                        Tilde::Literal => pattern.push_literal("~"),
                        Tilde::Unknown => return None,
                        Tilde::Home => {
                            has_tilde = true;
                            match tildes {
                                Tildes::Literal => pattern.push_literal("~"),
                                Tildes::Expanded => pattern.push_literal(variables.known("HOME")?),
                            }
                        }
                    }
                }
                pattern.push_bare(rest);
            }
        }
    }
    Some(Some(pattern).filter(|_| has_tilde || tildes == Tildes::Literal))
}

/// The meaning of a `~` outside quotes.
enum Tilde {
    Literal,
    Home,
    /// Of another user (`~user`), or of the shell (`~+`, `~-`).
    Unknown,
}

/// Reads a `~` between what is before it and what is behind it. It counts at the start of a word and after the first `=`;
/// in `NAME=a:~`, also after `:`.
fn tilde_at(before: &Pattern, behind: &str, is_last: bool) -> Tilde {
    let before = before.text();
    let counts =
        before.is_empty() || before.ends_with('=') || (before.ends_with(':') && before.contains('='));
    match behind.chars().next() {
        _ if !counts => Tilde::Literal,
        Some('/' | ':') => Tilde::Home,
        None if is_last => Tilde::Home,
        _ => Tilde::Unknown,
    }
}
