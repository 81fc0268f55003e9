//! Short constructors for the JSON Schemas of arguments.

use serde_json::{Value, json};

/// Returns the schema of an object with these properties.
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

/// Returns the schema of a string that is one of these values.
pub(crate) fn choice(values: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": values, "description": description })
}

pub(crate) fn array(items: &str, description: &str) -> Value {
    json!({ "type": "array", "items": { "type": items }, "description": description })
}

/// Returns the schema of a string or an array of strings.
pub(crate) fn strings(description: &str) -> Value {
    let several = json!({ "type": "array", "items": { "type": "string" } });
    json!({ "anyOf": [{ "type": "string" }, several], "description": description })
}
