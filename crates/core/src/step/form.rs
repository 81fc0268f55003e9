//! Checks the answer to a form of an MCP server against its schema. The check is shallow, because such forms have fields of
//! simple types only.

use serde_json::Value;

use crate::ask::{Elicit, Elicited};

/// Checks the values of an accepted form.
///
/// # Errors
/// With the field that is missing or wrong.
pub(super) fn check(form: &Elicit, answer: &Elicited) -> Result<(), String> {
    // A client's own form is between clients.
    let is_of_server = form.key.is_some() && answer.action == "accept";
    let Some(schema) =
        form.schema.as_ref().filter(|_| is_of_server).and_then(|schema| schema.parse::<Value>().ok())
    else {
        return Ok(());
    };
    let content: Value = answer.content.as_ref().and_then(|content| content.parse().ok()).unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if content.get(name).is_none_or(Value::is_null) {
            return Err(format!("the form requires a value for \"{name}\""));
        }
    }
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, field) in fields {
        if let Some(value) = content.get(name).filter(|value| !value.is_null())
            && !is_valid(field, value)
        {
            return Err(format!("the value for \"{name}\" does not match the form"));
        }
    }
    Ok(())
}

fn is_valid(field: &Value, value: &Value) -> bool {
    let has_type = match field.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("array") => value.is_array(),
        _ => true,
    };
    let choices = field.get("enum").and_then(Value::as_array);
    has_type && choices.is_none_or(|choices| choices.contains(value))
}
