//! Finds the path of the field at which a JSON text cannot be read.

use serde::Deserialize;

use crate::limits::check;
use crate::objects::StructsAreObjects;

/// Returns the path of the value that keeps a text from being read as a type, such as `tools[0].name`; empty for the whole text.
///
/// Tracking the path costs time, so it is done for texts that were refused only.
#[must_use]
pub fn path_of<'de, T: Deserialize<'de>>(text: &'de str) -> String {
    if check(text.as_bytes()).is_err() {
        return String::new();
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, T>(StructsAreObjects(&mut parser)) {
        Err(error) if error.path().iter().next().is_some() => error.path().to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::Error;

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
            assert_eq!(path_of::<Outer>(text), expected, "{text}");
        }
    }
}
