//! A shell line, taken apart into simple commands.
//!
//! This is no shell. It understands quotes, pipes, lists, assignments, redirections and substitutions; on
//! anything else (loops, functions, here-documents, arithmetic) it gives up, and the caller must assume the
//! worst. It must never claim that a line runs less than it does.

use std::iter::Peekable;
use std::str::Chars;

use crate::tools::text::listed;

const LONGEST: usize = 16 * 1024;
const DEEPEST: usize = 16;

/// What begins a construct that is not understood.
const RESERVED: &str =
    "if then elif else fi for while until do done case esac select function coproc time { [[ !";

/// A command with its arguments, without what connects it to others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) words: Vec<Word>,
    /// Variables are set for it, or for what follows.
    pub(crate) assigns: bool,
    pub(crate) redirections: Vec<Redirection>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word without its quotes; variables and substitutions as they are written.
    pub(crate) text: String,
    /// Something in it is known only when it is run.
    pub(crate) expands: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirection {
    pub(crate) writes: bool,
    pub(crate) target: Word,
}

/// The commands of `line`, those in substitutions included, or `None` if it is not understood.
pub(crate) fn parse(line: &str) -> Option<Vec<Simple>> {
    parse_at(line, 0)
}

fn parse_at(line: &str, depth: usize) -> Option<Vec<Simple>> {
    if line.len() > LONGEST || line.contains('\0') {
        return None;
    }
    let mut parser = Parser { rest: line.chars().peekable(), commands: Vec::new(), depth };
    parser.list(None)?;
    Some(parser.commands)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Simple>,
    depth: usize,
}

impl Parser<'_> {
    /// Reads commands up to `end`, or to the end of the line.
    fn list(&mut self, end: Option<char>) -> Option<()> {
        let mut command = Simple::default();
        loop {
            match self.rest.peek().copied() {
                None => {
                    self.push(command);
                    return end.is_none().then_some(());
                }
                Some(')') => {
                    self.rest.next();
                    self.push(command);
                    return (end == Some(')')).then_some(());
                }
                Some('(') => return None,
                Some(' ' | '\t') => {
                    self.rest.next();
                }
                Some('\n' | ';' | '&' | '|') => {
                    if self.separator(&mut command)? {
                        self.push(std::mem::take(&mut command));
                    }
                }
                Some('#') => while self.rest.next_if(|c| *c != '\n').is_some() {},
                Some('<' | '>') => command.redirections.push(self.redirection()?),
                Some(_) => self.word_of(&mut command)?,
            }
        }
    }

    fn push(&mut self, command: Simple) {
        if command != Simple::default() {
            self.commands.push(command);
        }
    }

    /// Reads a separator and says whether it ended the command: `&>` does not.
    fn separator(&mut self, command: &mut Simple) -> Option<bool> {
        match self.rest.next()? {
            '&' if self.rest.peek() == Some(&'>') => {
                command.redirections.push(self.redirection()?);
                return Some(false);
            }
            '&' => _ = self.rest.next_if_eq(&'&'),
            '|' => _ = self.rest.next_if(|c| matches!(c, '|' | '&')),
            // `;;` belongs to `case`.
            ';' if self.rest.peek() == Some(&';') => return None,
            _ => {}
        }
        Some(true)
    }

    fn word_of(&mut self, command: &mut Simple) -> Option<()> {
        let (word, bare) = self.word()?;
        let digits = bare && !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit());
        if digits && matches!(self.rest.peek(), Some('<' | '>')) {
            // The number of a descriptor, as in `2>&1`.
            command.redirections.push(self.redirection()?);
        } else if command.words.is_empty() && is_assignment(&word.text) {
            command.assigns = true;
        } else if command.words.is_empty() && listed(RESERVED, &word.text) {
            return None;
        } else {
            command.words.push(word);
        }
        Some(())
    }

    fn redirection(&mut self) -> Option<Redirection> {
        let mut writes = self.rest.next()? == '>';
        let duplicates = match self.rest.peek().copied() {
            Some('<') if !writes => {
                self.rest.next();
                // `<<<` is a word as input; `<<` is a here-document.
                self.rest.next_if_eq(&'<')?;
                false
            }
            Some('&') => self.rest.next().is_some(),
            Some('>' | '|') => {
                self.rest.next();
                writes = true;
                false
            }
            Some('(') => return None,
            _ => false,
        };
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let (target, _) = self.word()?;
        if target.text.is_empty() {
            return None;
        }
        let is_descriptor = duplicates && target.text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let harmless = ["/dev/null", "/dev/stdout", "/dev/stderr"].contains(&target.text.as_str());
        writes &= !is_descriptor && (target.expands || !harmless);
        Some(Redirection { writes, target })
    }

    /// Reads a word and says whether it was written without quotes.
    fn word(&mut self) -> Option<(Word, bool)> {
        let (mut word, mut bare) = (Word::default(), true);
        while let Some(c) = self.rest.peek().copied() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.rest.next();
                    bare = false;
                    loop {
                        match self.rest.next()? {
                            '\'' => break,
                            c => word.text.push(c),
                        }
                    }
                }
                '"' => {
                    bare = false;
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    self.rest.next();
                    bare = false;
                    word.text.extend(self.rest.next().filter(|c| *c != '\n'));
                }
                _ => self.plain(&mut word)?,
            }
        }
        Some((word, bare))
    }

    fn double_quoted(&mut self, word: &mut Word) -> Option<()> {
        self.rest.next();
        loop {
            match self.rest.peek().copied()? {
                '"' => {
                    self.rest.next();
                    return Some(());
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next()? {
                        '\n' => {}
                        c @ ('$' | '`' | '"' | '\\') => word.text.push(c),
                        c => word.text.extend(['\\', c]),
                    }
                }
                '$' | '`' => self.plain(word)?,
                c => {
                    self.rest.next();
                    word.text.push(c);
                }
            }
        }
    }

    /// Reads one character outside quotes, with all that hangs on it.
    fn plain(&mut self, word: &mut Word) -> Option<()> {
        match self.rest.next()? {
            '$' => self.dollar(word)?,
            '`' => self.backticks(word)?,
            c => {
                // Braces make several words of one; the others match names of files.
                word.expands |= matches!(c, '*' | '?' | '[' | '{');
                word.text.push(c);
            }
        }
        Some(())
    }

    fn dollar(&mut self, word: &mut Word) -> Option<()> {
        word.text.push('$');
        word.expands = true;
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                self.depth += 1;
                if self.depth > DEEPEST || self.rest.peek() == Some(&'(') {
                    return None;
                }
                self.list(Some(')'))?;
                self.depth -= 1;
                word.text += "(...)";
            }
            Some('{') => loop {
                match self.rest.next()? {
                    '}' => {
                        word.text.push('}');
                        break;
                    }
                    '$' | '`' | '\'' | '"' | '\\' => return None,
                    c => word.text.push(c),
                }
            },
            Some('\'' | '"') => return None,
            _ => {
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    word.text.push(c);
                }
            }
        }
        Some(())
    }

    fn backticks(&mut self, word: &mut Word) -> Option<()> {
        let mut inner = String::new();
        loop {
            match self.rest.next()? {
                '`' => break,
                '\\' => match self.rest.next()? {
                    c @ ('`' | '\\' | '$') => inner.push(c),
                    c => inner.extend(['\\', c]),
                },
                c => inner.push(c),
            }
        }
        if self.depth >= DEEPEST {
            return None;
        }
        self.commands.extend(parse_at(&inner, self.depth + 1)?);
        word.expands = true;
        word.text += "`...`";
        Some(())
    }
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.trim_end_matches('+');
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[cfg(test)]
mod tests;
