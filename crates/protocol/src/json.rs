//! JSON that is passed through without interpretation: tool arguments, schemas, foreign fields.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON text on one line, exactly as its author wrote it except for white space between tokens.
///
/// A model's tool arguments are sent back to it in every later request. Parsing and serialising them would
/// change the order of keys and the spelling of numbers, so the text itself is stored. Cloning is cheap.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Returns the JSON value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Returns the empty object `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self::from_text("{}").unwrap_or_else(|_| Self::null())
    }

    /// Parses a JSON text from outside, dropping white space outside strings so that it fits on one line.
    ///
    /// # Errors
    /// When the text is not one JSON value, or exceeds the limits of `baton_json`.
    pub fn from_text(text: &str) -> serde_json::Result<Self> {
        Self::from_raw(baton_json::from_str(text)?)
    }

    /// Wraps JSON that we serialised ourselves, without validating it again.
    #[must_use]
    pub fn from_trusted(raw: Box<RawValue>) -> Self {
        Self(Arc::from(raw))
    }

    /// Serialises a value.
    ///
    /// # Errors
    /// When the value cannot be represented in JSON (a map whose keys are not strings).
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        Ok(Self(Arc::from(serde_json::value::to_raw_value(value)?)))
    }

    /// Deserialises the text into a type.
    ///
    /// # Errors
    /// When the text does not match the type.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.as_str())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    fn from_raw<E: serde::de::Error>(raw: Box<RawValue>) -> Result<Self, E> {
        match compact(raw.get()) {
            Ok(Cow::Borrowed(_)) => Ok(Self(Arc::from(raw))),
            Ok(Cow::Owned(text)) => {
                RawValue::from_string(text).map(|raw| Self(Arc::from(raw))).map_err(E::custom)
            }
            Err(TooDeep) => {
                Err(E::custom(format_args!("JSON that is nested more than {MAX_DEPTH} levels deep")))
            }
        }
    }
}

/// Maximum nesting depth inside another value. Skipping over a value needs no stack, so without this limit a deeply nested
/// text would overflow the stack of the first parser that reads it. What comes from outside has at most
/// `baton_json::MAX_DEPTH` levels; histories of older versions may have more, and must open.
const MAX_DEPTH: usize = 128;

/// Error for a value that is nested too deep.
struct TooDeep;

/// Drops white space outside strings from a valid text. Most texts have none, and are not copied.
fn compact(text: &str) -> Result<Cow<'_, str>, TooDeep> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    // `copied`: how much of the text is in `out`, or was left out.
    let (mut at, mut copied, mut depth) = (0, 0, 0usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at += string_length(&bytes[at..]),
            b'{' | b'[' if depth == MAX_DEPTH => return Err(TooDeep),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            byte if byte.is_ascii_whitespace() => {
                out.push_str(&text[copied..at - 1]);
                copied = at;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(text));
    }
    out.push_str(&text[copied..]);
    Ok(Cow::Owned(out))
}

/// Returns the length of the rest of a string, with its closing quote.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(next) = rest[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        at += next + 1;
        if rest[at - 1] == b'"' {
            return at;
        }
        // The escaped character does not end the string.
        at = (at + 1).min(rest.len());
    }
    rest.len()
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(deserializer)?)
    }
}

/// Deserialises JSON from serde's buffer, which serde uses to find the tag of an enum inside its fields. The
/// buffer holds values instead of text, so the order of keys is preserved, but not the spelling of numbers.
pub(crate) fn read_buffered<'de, D: Deserializer<'de>, T: FromValue>(deserializer: D) -> Result<T, D::Error> {
    T::Read::deserialize(deserializer).map(T::from_read)
}

/// Conversion from buffered values.
pub(crate) trait FromValue {
    /// The buffered form.
    type Read: DeserializeOwned;

    fn from_read(read: Self::Read) -> Self;
}

impl FromValue for Option<Json> {
    type Read = Option<serde_json::Value>;

    fn from_read(read: Self::Read) -> Self {
        read.map(Json::from)
    }
}

impl FromValue for Vec<Json> {
    type Read = Vec<serde_json::Value>;

    fn from_read(read: Self::Read) -> Self {
        read.into_iter().map(Json::from).collect()
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from_value(&value).unwrap_or_else(|_| Self::null())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_and_number_spelling_are_preserved() {
        let json = Json::from_text("{ \"b\": 1.10,\n \"a\": \"x \\\" y\\n\" }").unwrap();
        assert_eq!(json.as_str(), r#"{"b":1.10,"a":"x \" y\n"}"#);
        assert_eq!(serde_json::to_string(&json).unwrap(), json.as_str());
    }

    #[test]
    fn numbers_survive_as_values() {
        // Off by one in the last digit without the feature `float_roundtrip` of serde_json.
        let number = "0.40035310908253163";
        assert_eq!(baton_json::from_str::<serde_json::Value>(number).unwrap().to_string(), number);
        proptest::proptest!(|(number: f64)| {
            let text = serde_json::to_string(&number).unwrap();
            let value: serde_json::Value = baton_json::from_str(&text).unwrap();
            proptest::prop_assert_eq!(value.to_string(), text);
        });
    }

    #[test]
    fn white_space_is_dropped_outside_of_strings_only() {
        for (text, expected) in [
            (" [ ] ", "[]"),
            ("{\"a\":1}\n", "{\"a\":1}"),
            (r#"["\\", " \\\" { ", "\u0020 x"]"#, r#"["\\"," \\\" { ","\u0020 x"]"#),
            ("[\"ü \u{2028} [[\",\t\"日 本\"]", "[\"ü \u{2028} [[\",\"日 本\"]"),
            ("\"a b\"", "\"a b\""),
            (" 1.50 ", "1.50"),
        ] {
            assert_eq!(Json::from_text(text).unwrap().as_str(), expected);
            assert_eq!(Json::from_text(expected).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        for bad in ["", "{", "{} {}", "nope"] {
            assert!(Json::from_text(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn deeply_nested_json_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::from_text(&nested(baton_json::MAX_DEPTH)).is_ok());
        assert!(Json::from_text(&nested(baton_json::MAX_DEPTH + 1)).is_err());
        assert!(serde_json::from_str::<Json>(&nested(MAX_DEPTH)).is_ok());
        assert!(serde_json::from_str::<Json>(&nested(MAX_DEPTH + 1)).is_err());
    }
}
