//! Lenient deserialisation of secondary fields. Every provider interprets the API differently: a field of an
//! unexpected type is dropped, instead of losing the answer.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Deserialises a value, or the default if it is missing, `null` or of another type.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(baton_json::from_value(&Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Deserialises tool arguments: a string of JSON, or, with some providers, the JSON itself.
pub(crate) fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        json => json.to_string(),
    })
}
