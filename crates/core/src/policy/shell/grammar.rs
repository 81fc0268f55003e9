//! Grammar of the shell lines that are parsed.
//!
//! It is an allow-list: anything else makes the line opaque. A line is a list of simple commands, connected by `&&`, `||`,
//! `;`, `|` or newlines. A word consists of plain characters, `'...'`, `"..."`, `\c`, `$NAME` and `${NAME}`. A redirection
//! goes to `/dev/null` or to descriptor 0, 1 or 2. There are no comments, groups, substitutions, background jobs and
//! braces.
//!
//! Lines that shells can read in two ways are opaque, too:
//! - A backslash before a newline joins the characters around it (`$\⏎(id)` is a substitution), so it is accepted only
//!   between words, where it is a blank.
//! - In some locales a byte of a non-ASCII character swallows the byte after it, so a backslash within double quotes is
//!   not accepted together with such characters.
//! - `$_` is the last word of the previous command, so it is not accepted as a variable.
//! - `=ls` and `$x[...]` have a meaning in zsh, which some engines use.

use super::Why;
use super::word::{Command, Draft, Expansion, Word};

/// Length of the longest line that is parsed, in bytes.
const LONGEST: usize = 16 * 1024;

/// Commands of a line, and words of a command, for which room is made at once: most have fewer.
const USUAL: usize = 8;

/// Parses a line, or returns why it is opaque.
pub(super) fn parse(text: &str) -> Result<Vec<Command<'_>>, Why> {
    if text.len() > LONGEST {
        return Err(Why::TooLong);
    }
    if !text.bytes().all(is_printable) && text.chars().any(is_deceptive) {
        return Err(Why::Character);
    }
    let mut parser = Parser { text, at: 0, moved: false, commands: Vec::with_capacity(USUAL) };
    parser.list()?;
    if parser.commands.is_empty() { Err(Why::Empty) } else { Ok(parser.commands) }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n')
}

/// Whether a character is invisible, or displayed as something else than what the shell reads.
fn is_deceptive(c: char) -> bool {
    match c {
        ' '..='~' | '\t' | '\n' => false,
        c if c.is_control() || c.is_whitespace() => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{115f}' | '\u{1160}' => true,
        _ => false,
    }
}

/// End of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `&&`, `||` or `|`: a further command must follow.
    Joins,
    /// `;` or a newline.
    Ends,
    /// The end of the line.
    Nothing,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Whether a command so far may have changed the directory.
    moved: bool,
    commands: Vec<Command<'a>>,
}

impl<'a> Parser<'a> {
    /// Returns the next byte. The grammar has ASCII characters only, besides those within words.
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Consumes a character.
    fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(wanted.as_bytes());
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn blanks(&mut self) {
        while self.skip_any(b" \t") || self.take("\\\n") {}
    }

    fn blank_lines(&mut self) {
        while self.skip_any(b" \t\n") {}
    }

    /// Consumes one of these characters.
    fn skip_any(&mut self, wanted: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| wanted.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn list(&mut self) -> Result<(), Why> {
        self.blank_lines();
        while self.peek().is_some() {
            self.command()?;
            match self.separator()? {
                Separator::Nothing => return Ok(()),
                Separator::Ends => self.blank_lines(),
                Separator::Joins => {
                    self.blank_lines();
                    if self.peek().is_none() {
                        return Err(Why::Incomplete);
                    }
                }
            }
        }
        Ok(())
    }

    fn separator(&mut self) -> Result<Separator, Why> {
        if self.peek().is_none() {
            return Ok(Separator::Nothing);
        }
        if self.take("&&") || self.take("||") {
            return Ok(Separator::Joins);
        }
        if self.take("|") {
            return if self.peek() == Some(b'&') { Err(Why::Operator) } else { Ok(Separator::Joins) };
        }
        if self.take(";") {
            return if matches!(self.peek(), Some(b';' | b'&')) {
                Err(Why::Operator)
            } else {
                Ok(Separator::Ends)
            };
        }
        if self.take("\n") { Ok(Separator::Ends) } else { Err(Why::Operator) }
    }

    /// Reads one command, up to its separator.
    fn command(&mut self) -> Result<(), Why> {
        let (mut words, mut assigned) = (Vec::with_capacity(USUAL), Vec::new());
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b'\n' | b';' | b'|') => break,
                // A redirection in bash; in a plain `sh` the end of a background command.
                Some(b'&') if self.take("&>") => return Err(Why::Redirection),
                Some(b'&') => break,
                Some(b'<' | b'>') => self.redirection()?,
                Some(b'0'..=b'2') if matches!(self.text.as_bytes().get(self.at + 1), Some(b'<' | b'>')) => {
                    self.at += 1;
                    self.redirection()?;
                }
                Some(_) => {
                    let (word, assignment) = self.word()?;
                    let number = word.bare && word.text.bytes().all(|b| b.is_ascii_digit());
                    if number && matches!(self.peek(), Some(b'<' | b'>')) {
                        return Err(Why::Redirection);
                    }
                    if words.is_empty() && assignment {
                        if !is_plain_value(&word) {
                            return Err(Why::Assignment);
                        }
                        assigned.extend(word.written.split(['+', '=']).next());
                        continue;
                    }
                    if words.is_empty() {
                        check_program(&word)?;
                    }
                    words.push(word);
                }
            }
        }
        if words.is_empty() {
            return Err(if assigned.is_empty() { Why::Incomplete } else { Why::Assignment });
        }
        let command = Command::new(words, assigned, self.moved);
        self.moved |= command.program() == "cd" || command.needs_exact_line();
        self.commands.push(command);
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), Why> {
        if self.take(">&") {
            return if self.skip_any(b"012") { self.delimited() } else { Err(Why::Redirection) };
        }
        _ = self.take(">>") || self.take(">") || self.take("<");
        self.null()
    }

    /// Reads `/dev/null` as the target of a redirection.
    fn null(&mut self) -> Result<(), Why> {
        while self.skip_any(b" \t") {}
        if self.take("/dev/null") { self.delimited() } else { Err(Why::Redirection) }
    }

    fn delimited(&self) -> Result<(), Why> {
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&') => Ok(()),
            Some(_) => Err(Why::Redirection),
        }
    }

    /// Reads a word. Also returns whether it is an assignment, if it precedes the program.
    fn word(&mut self) -> Result<(Word<'a>, bool), Why> {
        let start = self.at;
        let mut draft = Draft::new(self.text);
        let mut assignment = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' => break,
                b'\'' => self.single_quoted(&mut draft)?,
                b'"' => self.double_quoted(&mut draft)?,
                b'\\' => self.escaped(&mut draft)?,
                b'$' => self.variable(&mut draft, Expansion::Open)?,
                b'*' | b'?' | b'[' => {
                    draft.copy(self.at, 1);
                    draft.expansion = Expansion::Open;
                    self.at += 1;
                }
                b'=' => {
                    assignment |= draft.bare && is_assignable(draft.text());
                    draft.copy(self.at, 1);
                    self.at += 1;
                }
                byte if is_plain(byte) => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let run = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
                    draft.copy(self.at, run);
                    self.at += run;
                }
                0x80.. => self.foreign_letter(&mut draft)?,
                b'`' | b'(' | b')' => return Err(Why::Substitution),
                b'{' | b'}' => return Err(Why::Braces),
                b'#' => return Err(Why::Comment),
                _ => return Err(Why::Character),
            }
        }
        let mut word = draft.finish(&self.text[start..self.at]);
        if word.bare && word.text == "[" {
            word.expansion = Expansion::None;
        }
        if word.text.starts_with('~') && word.bare && !is_own_home(&word.text) {
            word.expansion = Expansion::Open;
        }
        Ok((word, assignment))
    }

    /// Reads a letter or digit that is not ASCII. In another locale it may contain a blank.
    fn foreign_letter(&mut self, draft: &mut Draft<'a>) -> Result<(), Why> {
        let start = self.at;
        if !self.next().is_some_and(char::is_alphanumeric) {
            return Err(Why::Character);
        }
        draft.copy(start, self.at - start);
        draft.expansion = Expansion::Open;
        Ok(())
    }

    fn single_quoted(&mut self, draft: &mut Draft<'a>) -> Result<(), Why> {
        self.at += 1;
        draft.bare = false;
        let length = self.text[self.at..].find('\'').ok_or(Why::Incomplete)?;
        draft.copy(self.at, length);
        self.at += length + 1;
        Ok(())
    }

    fn double_quoted(&mut self, draft: &mut Draft<'a>) -> Result<(), Why> {
        self.at += 1;
        draft.bare = false;
        let (mut escapes, mut foreign) = (false, false);
        loop {
            let start = self.at;
            match self.next().ok_or(Why::Incomplete)? {
                '"' => break,
                '`' => return Err(Why::Substitution),
                '\\' => {
                    escapes = true;
                    match self.next().ok_or(Why::Incomplete)? {
                        '\n' => return Err(Why::Continuation),
                        '$' | '`' | '"' | '\\' => draft.copy(start + 1, 1),
                        c => draft.copy(start, 1 + c.len_utf8()),
                    }
                }
                // A dollar sign before a blank or quote is literal, as at the end of a regular expression.
                '$' if matches!(self.peek(), Some(b'"' | b' ')) => draft.copy(start, 1),
                '$' => {
                    self.at = start;
                    self.variable(draft, Expansion::Quoted)?;
                }
                c => {
                    foreign |= !c.is_ascii();
                    draft.copy(start, c.len_utf8());
                }
            }
        }
        if escapes && foreign { Err(Why::Character) } else { Ok(()) }
    }

    fn escaped(&mut self, draft: &mut Draft<'a>) -> Result<(), Why> {
        self.at += 1;
        draft.bare = false;
        match self.next() {
            Some(' '..='~') => draft.copy(self.at - 1, 1),
            Some('\n') => return Err(Why::Continuation),
            _ => return Err(Why::Character),
        }
        Ok(())
    }

    /// Reads `$NAME` or `${NAME}`.
    fn variable(&mut self, draft: &mut Draft<'a>, expansion: Expansion) -> Result<(), Why> {
        let start = self.at;
        self.at += 1;
        let braces = self.take("{");
        let rest = &self.text[self.at..];
        let name = &rest[..rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()];
        if !is_name(name) || name == "_" {
            return Err(Why::Substitution);
        }
        self.at += name.len();
        let closed = !braces || self.take("}");
        // `$x[...]` is a subscript in other shells, and a backslash may join the name with the next line.
        if !closed || matches!(self.peek(), Some(b'[' | b'\\')) {
            return Err(Why::Substitution);
        }
        draft.copy(start, self.at - start);
        draft.expansion = draft.expansion.max(expansion);
        Ok(())
    }
}

/// Whether a character is literal anywhere in a word. Most of a line is, so it is looked up.
fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        plain[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'-' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+' | b'^' | b'~' | b']' | b'!'
            );
        byte += 1;
    }
    plain
};

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether `text=` starts an assignment.
fn is_assignable(text: &str) -> bool {
    is_name(text.strip_suffix('+').unwrap_or(text))
}

/// Whether bash never evaluates a value, whatever the attributes of the variable: `RANDOM='a[$(id)]'` runs `id`.
fn is_plain_value(word: &Word<'_>) -> bool {
    word.is_literal() && !word.text.contains(['[', '$', '`', '('])
}

/// Whether a word is `~` or a path below it. `~user`, `~+` and `~-` are known only to the shell.
fn is_own_home(text: &str) -> bool {
    text == "~" || text.starts_with("~/")
}

/// Whether a word is not a program in command position.
fn is_reserved(text: &str) -> bool {
    matches!(
        text,
        "if" | "then"
            | "else"
            | "elif"
            | "fi"
            | "do"
            | "done"
            | "case"
            | "esac"
            | "while"
            | "until"
            | "for"
            | "select"
            | "in"
            | "function"
            | "time"
            | "coproc"
            | "repeat"
            | "foreach"
            | "end"
            | "!"
            | "[["
            | "]]"
            | "nocorrect"
    )
}

/// Refuses words that do not name a program, or that only the shell can resolve to one.
fn check_program(word: &Word<'_>) -> Result<(), Why> {
    let text = &*word.text;
    if !word.is_literal() {
        return Err(Why::Program);
    }
    if is_reserved(text) {
        return Err(Why::Keyword);
    }
    let odd = |byte: u8| byte.is_ascii_control() || matches!(byte, b'[' | b'$' | b'`' | b'(' | b'{' | b' ');
    if text.is_empty()
        || text.starts_with(['-', '+', '=', '%', '^', '!', ']'])
        || (text != "[" && text.bytes().any(odd))
    {
        return Err(Why::Program);
    }
    Ok(())
}
