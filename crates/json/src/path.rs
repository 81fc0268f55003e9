//! Where in a JSON text an error is, as a path of fields.
//!
//! Deserialisers that track the path exist, and compile every type a second and third time. The position that each error has
//! anyway is enough: the path is found by reading the text up to there.

use std::fmt::Write;

/// Returns the path of the value that an error is about, such as `tools[0].name`; empty for the whole text.
#[must_use]
pub fn path_of(text: &str, error: &serde_json::Error) -> String {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(error.line().saturating_sub(1)).map(str::len).sum();
    let end = (before + error.column()).min(text.len());
    let mut walk = Walk::default();
    walk.read(text.as_bytes().get(..end).unwrap_or_default());
    walk.path()
}

/// An object or array that the position is in.
enum Container {
    /// An object, with its last key as it is written.
    Object(Option<String>),
    /// An array, with the index of its last item.
    Array(usize),
}

/// Reads a JSON text up to a position.
#[derive(Default)]
struct Walk {
    open: Vec<Container>,
}

impl Walk {
    fn read(&mut self, bytes: &[u8]) {
        let mut at = 0;
        // Whether the next string of an object is a key.
        let mut is_key = false;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'{' => {
                    self.open.push(Container::Object(None));
                    is_key = true;
                }
                b'[' => self.open.push(Container::Array(0)),
                b'}' | b']' => drop(self.open.pop()),
                b':' => is_key = false,
                b',' => is_key = self.next_item(),
                b'"' => {
                    let end = end_of_string(bytes, at + 1);
                    if is_key && let Some(Container::Object(key)) = self.open.last_mut() {
                        *key = Some(String::from_utf8_lossy(&bytes[at + 1..end]).into_owned());
                    }
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Goes on to the next item of an array. Returns whether a key follows instead.
    fn next_item(&mut self) -> bool {
        match self.open.last_mut() {
            Some(Container::Array(index)) => {
                *index += 1;
                false
            }
            _ => true,
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for container in &self.open {
            match container {
                Container::Object(None) => {}
                Container::Object(Some(key)) if path.is_empty() => path.push_str(key),
                // Writing to a string cannot fail.
                Container::Object(Some(key)) => drop(write!(path, ".{key}")),
                Container::Array(index) => drop(write!(path, "[{index}]")),
            }
        }
        path
    }
}

/// Returns where a string that begins at `start` ends: the position of its closing quote, or the end of the text.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::{DeserializeOwned, Error};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only parsed")]
    struct Outer {
        id: Option<NotEmpty>,
        inner: Option<Vec<Inner>>,
        kind: Option<Kind>,
        tagged: Option<Tagged>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only parsed")]
    struct Inner {
        count: u8,
        #[serde(default, deserialize_with = "never")]
        never: (),
    }

    #[derive(Debug)]
    struct NotEmpty;

    impl<'de> Deserialize<'de> for NotEmpty {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            if text.is_empty() { Err(D::Error::custom("empty")) } else { Ok(Self) }
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        One,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only parsed")]
    enum Tagged {
        Number { n: u8 },
    }

    fn never<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer)?;
        Err(D::Error::custom("never"))
    }

    fn path<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        path_of(text, &crate::from_str::<T>(text).unwrap_err())
    }

    #[test]
    fn path_names_the_value() {
        for (text, expected) in [
            (r#"{"id":7}"#, "id"),
            (r#"{"id":""}"#, "id"),
            (r#"{"id":"","kind":"one"}"#, "id"),
            (r#"{"inner":[{"count":1},{"count":"x\"}"}]}"#, "inner[1].count"),
            (r#"{"inner":[{"count":1},{"count":300,"a":[]}]}"#, "inner[1].count"),
            (r#"{"inner":[{"count":1},{}]}"#, "inner[1]"),
            (r#"{"inner":[{"count":1,"never":[1,{}]}]}"#, "inner[0].never"),
            (r#"{"inner":{"a":1}}"#, "inner"),
            (r#"{"kind":"two"}"#, "kind"),
            (r#"{"a":{"b":[1,2,{"c":3}]}, "kind" : "two"}"#, "kind"),
            ("{\n \"a\": 1,\n \"kind\":\n 5}", "kind"),
            (r#"{"tagged":{"m":1}}"#, "tagged"),
            ("7", ""),
            ("", ""),
        ] {
            assert_eq!(path::<Outer>(text), expected, "{text}");
        }
    }
}
