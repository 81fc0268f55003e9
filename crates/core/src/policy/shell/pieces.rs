//! Words in pieces: which characters of a word a shell takes literally, and which it expands.
//!
//! The grammar decides whether a line is understood, and forgets the quotes. Code that has to know what a word becomes
//! needs them, so it takes the words of a parsed line apart once more, with the same few forms.

use super::word::{Command, Word};

/// A command of a line, with words in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand<'a> {
    /// The program, without quotes.
    pub program: &'a str,
    /// Arguments of the program.
    pub arguments: Vec<Vec<Piece<'a>>>,
    /// Names of the variables that are set for the program.
    pub assigned: &'a [&'a str],
}

/// A part of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text within quotes or behind a backslash: literal.
    Quoted(&'a str),
    /// Text outside quotes, in which `~`, `*`, `?` and `[` have a meaning.
    Bare(&'a str),
    /// A variable within double quotes: its value is literal.
    QuotedVariable(&'a str),
    /// A variable outside quotes: its value is split at blanks, and is a glob.
    BareVariable(&'a str),
}

impl<'a> SimpleCommand<'a> {
    pub(super) fn of(command: &'a Command<'_>) -> Self {
        let arguments = command.words.iter().skip(1).map(|word| of_word(word)).collect();
        Self { program: command.program(), arguments, assigned: &command.assigned }
    }
}

/// Takes a word apart that the grammar has accepted.
fn of_word<'a>(word: &Word<'a>) -> Vec<Piece<'a>> {
    let (mut rest, mut pieces) = (word.written, Vec::new());
    while let Some(first) = rest.bytes().next() {
        rest = match first {
            b'\'' => {
                let (text, behind) = rest[1..].split_once('\'').unwrap_or((&rest[1..], ""));
                pieces.push(Piece::Quoted(text));
                behind
            }
            b'"' => double_quoted(&rest[1..], &mut pieces),
            b'\\' => {
                let (text, behind) = split_after_first(&rest[1..]);
                pieces.push(Piece::Quoted(text));
                behind
            }
            b'$' => {
                let (name, behind) = variable(&rest[1..]);
                pieces.push(Piece::BareVariable(name));
                behind
            }
            _ => {
                let (text, behind) = rest.split_at(rest.find(['\'', '"', '\\', '$']).unwrap_or(rest.len()));
                pieces.push(Piece::Bare(text));
                behind
            }
        };
    }
    pieces
}

/// Takes text within double quotes apart. Returns what is behind the closing quote.
fn double_quoted<'a>(text: &'a str, pieces: &mut Vec<Piece<'a>>) -> &'a str {
    let mut rest = text;
    // Empty quotes are an empty argument.
    pieces.push(Piece::Quoted(""));
    while let Some(first) = rest.bytes().next() {
        rest = match first {
            b'"' => return &rest[1..],
            b'\\' => {
                let escaped = rest[1..].starts_with(['$', '`', '"', '\\']);
                let (text, behind) = split_after_first(&rest[1..]);
                pieces.push(Piece::Quoted(if escaped { text } else { &rest[..1 + text.len()] }));
                behind
            }
            b'$' if rest[1..].starts_with(['"', ' ']) => {
                pieces.push(Piece::Quoted("$"));
                &rest[1..]
            }
            b'$' => {
                let (name, behind) = variable(&rest[1..]);
                pieces.push(Piece::QuotedVariable(name));
                behind
            }
            _ => {
                let (text, behind) = rest.split_at(rest.find(['"', '\\', '$']).unwrap_or(rest.len()));
                pieces.push(Piece::Quoted(text));
                behind
            }
        };
    }
    rest
}

/// Splits `NAME` or `{NAME}` off.
fn variable(text: &str) -> (&str, &str) {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').unwrap_or((braced, ""));
    }
    text.split_at(text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count())
}

fn split_after_first(text: &str) -> (&str, &str) {
    text.split_at(text.chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::Piece::{Bare, BareVariable, Quoted, QuotedVariable};
    use super::*;

    fn pieces(line: &str) -> Vec<Vec<Piece<'static>>> {
        let line: &'static str = line.to_owned().leak();
        let line: &'static Line<'_> = Box::leak(Box::new(Line::parse(line)));
        let Line::Commands(commands) = line else { panic!("{line:?}") };
        commands.in_pieces().next().unwrap().arguments
    }

    #[test]
    fn words_keep_what_is_quoted() {
        let cases: &[(&str, &[Piece<'_>])] = &[
            ("x a*b", &[Bare("a*b")]),
            ("x 'a*'b", &[Quoted("a*"), Bare("b")]),
            ("x \"a$HOME\"", &[Quoted(""), Quoted("a"), QuotedVariable("HOME")]),
            ("x \"a$\"", &[Quoted(""), Quoted("a"), Quoted("$")]),
            ("x \"\\$HOME\\n\"", &[Quoted(""), Quoted("$"), Quoted("HOME"), Quoted("\\n")]),
            ("x ${HOME}/$b'c'", &[BareVariable("HOME"), Bare("/"), BareVariable("b"), Quoted("c")]),
            ("x \\*a", &[Quoted("*"), Bare("a")]),
            ("x ''", &[Quoted("")]),
            ("x \"${a}\"b", &[Quoted(""), QuotedVariable("a"), Bare("b")]),
        ];
        for (line, expected) in cases {
            assert_eq!(pieces(line), [expected.to_vec()], "{line}");
        }
    }

    #[test]
    fn assigned_variables_are_named() {
        let Line::Commands(line) = Line::parse("A=1 B+=2 x C=3") else { panic!() };
        assert_eq!(line.in_pieces().next().unwrap().assigned, ["A", "B"]);
    }
}
