//! Reads JSON that comes from outside: from models, tools, MCP servers, engines, clients, repositories and web pages.
//!
//! Parsing is done by `serde_json`. This crate decides what reaches it: [`limits`] on depth and number of values are checked on
//! the text before anything is built, because a tree of values takes up to 150 times the memory of its text. At the top, a
//! struct is read from an object only; `serde_json` would also take an array for its fields in order.
//!
//! JSON that Baton wrote itself (events, snapshots, messages of peers) is read with `serde_json` directly: a history always
//! opens, however large its values have become. Events that are imported are checked once, before they are stored
//! ([`check_event`]).

mod limits;
mod objects;
mod path;

use serde::de::{Deserialize, DeserializeOwned, Error as _};
use serde_json::{Error, Value};

pub use self::limits::{MAX_DEPTH, MAX_VALUES, check, check_event};
use self::objects::StructsAreObjects;
pub use self::path::path_of;

/// Reads a text.
///
/// # Errors
/// When the text exceeds the limits, is not JSON, or does not match the type.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    check(text.as_bytes()).map_err(Error::custom)?;
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(StructsAreObjects(&mut parser))?;
    parser.end()?;
    Ok(value)
}

/// Reads a text in UTF-8.
///
/// # Errors
/// When the bytes are not UTF-8 or not JSON, exceed the limits, or do not match the type.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    from_str(std::str::from_utf8(bytes).map_err(|error| Error::custom(format_args!("not UTF-8: {error}")))?)
}

/// Reads a value that is in memory already.
///
/// # Errors
/// When the value does not match the type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(StructsAreObjects(value))
}

#[cfg(test)]
mod tests;
