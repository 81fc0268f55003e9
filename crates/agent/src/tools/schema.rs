//! JSON Schemas of arguments, in few words.

use serde_json::{Value, json};

/// An object with these properties.
pub(crate) fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

pub(crate) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

pub(crate) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// One of these words.
pub(crate) fn choice(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

pub(crate) fn array(items: &str, description: &str) -> Value {
    json!({ "type": "array", "items": { "type": items }, "description": description })
}

/// A string, or several.
pub(crate) fn strings(description: &str) -> Value {
    let several = json!({ "type": "array", "items": { "type": "string" } });
    json!({ "anyOf": [{ "type": "string" }, several], "description": description })
}
