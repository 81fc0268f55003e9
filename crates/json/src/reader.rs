//! The parser: a position in a text, and what can be read there. Nothing here is generic.

use std::borrow::Cow;

use serde::de::{Error as _, Expected, IgnoredAny, Unexpected};
use serde_json::value::RawValue;
use serde_json::{Error, Number};

use crate::checked::Checked;

/// Maximum nesting depth, the one of `serde_json`: types can be recursive, and the stack is not endless.
const MAX_DEPTH: u8 = 127;

/// A text that is being read.
pub(crate) struct Reader<'de> {
    text: &'de str,
    /// How much of the text has been read, in bytes.
    at: usize,
    /// How many more objects and arrays may be opened.
    depth_left: u8,
}

/// An object or an array.
#[derive(Clone, Copy)]
pub(crate) enum Container {
    Object,
    Array,
}

impl Container {
    fn open(self) -> u8 {
        match self {
            Self::Object => b'{',
            Self::Array => b'[',
        }
    }

    fn close(self) -> u8 {
        match self {
            Self::Object => b'}',
            Self::Array => b']',
        }
    }
}

impl<'de> Reader<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth_left: MAX_DEPTH }
    }

    /// Returns the next byte that is not white space, without reading it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Checks that nothing is left but white space.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        if self.peek().is_some() { Err(self.malformed()) } else { Ok(()) }
    }

    /// Reads the start of an object or array, if there is one.
    pub(crate) fn open(&mut self, container: Container) -> Result<bool, Error> {
        if self.peek() != Some(container.open()) {
            return Ok(false);
        }
        self.depth_left = self.depth_left.checked_sub(1).ok_or_else(|| self.malformed())?;
        self.at += 1;
        Ok(true)
    }

    /// Reads the end of an object or array.
    pub(crate) fn close(&mut self, container: Container) -> Result<(), Error> {
        if self.peek() != Some(container.close()) {
            return Err(self.malformed());
        }
        self.at += 1;
        self.depth_left += 1;
        Ok(())
    }

    /// Goes on to the next item of an object or array. Returns whether there is one.
    pub(crate) fn next(&mut self, container: Container, is_first: bool) -> Result<bool, Error> {
        let mut next = self.peek();
        if next == Some(container.close()) {
            return Ok(false);
        }
        if !is_first {
            self.mark(b',')?;
            next = self.peek();
        }
        match (container, next) {
            (Container::Object, Some(b'"')) => Ok(true),
            (Container::Array, Some(byte)) if byte != b']' => Ok(true),
            _ => Err(self.malformed()),
        }
    }

    /// Reads the colon between a key and its value.
    pub(crate) fn colon(&mut self) -> Result<(), Error> {
        self.mark(b':')
    }

    fn mark(&mut self, mark: u8) -> Result<(), Error> {
        if self.peek() != Some(mark) {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    /// Reads `null`, if it is there.
    pub(crate) fn null(&mut self) -> Result<bool, Error> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.word("null").map(|()| true)
    }

    /// Reads `true` or `false`, if one of them is there.
    pub(crate) fn boolean(&mut self) -> Result<Option<bool>, Error> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| Some(true)),
            Some(b'f') => self.word("false").map(|()| Some(false)),
            _ => Ok(None),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.malformed());
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads a string, if there is one.
    pub(crate) fn string(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        if self.peek() != Some(b'"') {
            return Ok(None);
        }
        let start = self.at + 1;
        let rest = &self.text.as_bytes()[start..];
        match rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
            Some(length) if rest[length] == b'"' => {
                self.at = start + length + 1;
                Ok(Some(Cow::Borrowed(&self.text[start..start + length])))
            }
            Some(length) if rest[length] == b'\\' => self.escaped_string(start + length).map(Some),
            _ => Err(self.malformed()),
        }
    }

    /// Reads a string whose first escape is at a position.
    fn escaped_string(&mut self, escape: usize) -> Result<Cow<'de, str>, Error> {
        let bytes = self.text.as_bytes();
        let mut end = escape;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                // The escaped character does not end the string.
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.malformed()),
            }
        }
        let string = serde_json::from_str(&self.text[self.at..=end]).map_err(|_| self.malformed())?;
        self.at = end + 1;
        Ok(Cow::Owned(string))
    }

    /// Reads a number, if there is one.
    pub(crate) fn number(&mut self) -> Result<Option<Number>, Error> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Ok(None);
        }
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let length = rest.bytes().position(|byte| !is_part(&byte)).unwrap_or(rest.len());
        let number = number_of(&rest[..length]).ok_or_else(|| self.malformed())?;
        self.at += length;
        Ok(Some(number))
    }

    /// Reads any value, and returns its text.
    pub(crate) fn value_text(&mut self) -> Result<&'de str, Error> {
        self.peek();
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else { return Err(self.malformed()) };
        self.at += values.byte_offset();
        Ok(value.get())
    }

    /// Returns the error for a value that is not of the expected type.
    #[cold]
    pub(crate) fn unexpected(&mut self, expected: &dyn Expected) -> Error {
        self.describe(expected).unwrap_or_else(|error| error)
    }

    fn describe(&mut self, expected: &dyn Expected) -> Result<Error, Error> {
        if self.null()? {
            return Ok(Error::invalid_type(Unexpected::Unit, expected));
        }
        if let Some(value) = self.boolean()? {
            return Ok(Error::invalid_type(Unexpected::Bool(value), expected));
        }
        if let Some(text) = self.string()? {
            return Ok(Error::invalid_type(Unexpected::Str(&text), expected));
        }
        if let Some(number) = self.number()? {
            let number = match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Unexpected::Unsigned(number),
                (None, Some(number)) => Unexpected::Signed(number),
                (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
            };
            return Ok(Error::invalid_type(number, expected));
        }
        match self.peek() {
            Some(b'{') => Ok(Error::invalid_type(Unexpected::Map, expected)),
            Some(b'[') => Ok(Error::invalid_type(Unexpected::Seq, expected)),
            _ => Err(self.malformed()),
        }
    }

    /// Returns the error for a text that cannot be read on: the one that `serde_json` finds. If it finds none, there is more
    /// than the type has room for.
    #[cold]
    fn malformed(&self) -> Error {
        let syntax = serde_json::from_str::<IgnoredAny>(self.text).err();
        syntax
            .or_else(|| serde_json::from_str::<Checked>(self.text).err())
            .unwrap_or_else(|| self.locate(Error::custom("trailing characters")))
    }

    /// Adds the position to an error of a type, unless it has one.
    #[cold]
    pub(crate) fn locate(&self, error: Error) -> Error {
        if error.line() != 0 {
            return error;
        }
        let (line, column) = position(&self.text.as_bytes()[..self.at]);
        // `serde_json` takes a position at the end of a message for the position of the error.
        Error::custom(format_args!("{error} at line {line} column {column}"))
    }
}

/// Returns line and column after a text, as `serde_json` counts: lines from one, columns in bytes.
pub(crate) fn position(before: &[u8]) -> (usize, usize) {
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    (line, column)
}

/// Parses a number. The short way is for integers, which are nearly all.
pub(crate) fn number_of(text: &str) -> Option<Number> {
    let is_integer =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    match text.parse::<u64>() {
        Ok(number) if is_integer => Some(number.into()),
        _ => serde_json::from_str(text).ok(),
    }
}
