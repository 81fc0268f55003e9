//! Reading fields that matter less than the answer they stand in. Every provider has its own idea of an API: what has
//! an unexpected type is dropped, instead of losing the answer.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A value, or the default of its type when it is missing, `null` or of some other type.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Arguments are a text that contains JSON; some providers send the JSON itself.
pub(crate) fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        json => json.to_string(),
    })
}
