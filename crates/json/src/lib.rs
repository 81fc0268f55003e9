//! Reading JSON into types, with one parser for all of them.
//!
//! `serde_json` compiles its parser into the code of every type that it reads: once for text, once for bytes, once for values,
//! and each time also for structs that are written as arrays. Hundreds of types made that two megabytes of the program. Here the
//! parser is not generic, and a type adds little more than the names of its fields.
//!
//! This is not a second opinion on what JSON is. Strings with escapes, numbers other than short integers, and values that are
//! ignored or kept as text are read by `serde_json`, errors of syntax are the ones it reports, and a property test compares
//! the two. There is one difference: **a struct is an object**, never an array. What none of our types needs is left out:
//! integers of 128 bits, bytes from strings, and keys that are borrowed or booleans.

mod access;
mod checked;
mod path;
mod reader;

use serde::de::{Deserialize, DeserializeOwned, Error as _};
use serde_json::{Error, Value};

pub use self::path::path_of;
use self::reader::Reader;

/// Reads a text.
///
/// # Errors
/// When the text is not JSON, or does not match the type.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    let value = T::deserialize(&mut reader).map_err(|error| reader.locate(error))?;
    reader.end()?;
    Ok(value)
}

/// Reads a text in UTF-8.
///
/// # Errors
/// When the bytes are not UTF-8 or not JSON, or do not match the type.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    from_str(utf8(bytes)?)
}

/// Reads a value, by way of its text: types are then not compiled for values as well.
///
/// # Errors
/// When the value does not match the type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    from_str(&value.to_string())
}

fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = reader::position(&bytes[..error.valid_up_to()]);
        Error::custom(format_args!("invalid UTF-8 at line {line} column {column}"))
    })
}

#[cfg(test)]
mod tests;
