//! Answers of sub-agents as JSON: a request in the prompt, and a structural check of the answer. Not a validator of JSON
//! Schema: unknown keywords are ignored.

use serde_json::Value;

/// Deepest schema that is checked.
const MOST_LEVELS: usize = 64;

/// Adds the request for JSON to a prompt.
pub(super) fn prompt(prompt: String, schema: Option<&Value>) -> String {
    match schema {
        None => prompt,
        Some(schema) => {
            format!(
                "{prompt}\n\nReply with one JSON value that matches this JSON Schema, and nothing else:\n{schema}"
            )
        }
    }
}

/// Parses an answer.
///
/// # Errors
/// When it is not JSON, or does not match.
pub(super) fn parse(answer: &str, schema: &Value) -> Result<Value, String> {
    let text = without_fence(answer.trim());
    let value =
        baton_json::from_str(text).map_err(|error| format!("the agent's answer is not JSON: {error}"))?;
    match matches(&value, schema, 0) {
        true => Ok(value),
        false => Err("the agent's answer does not match the schema".into()),
    }
}

/// Removes the Markdown fence around a text.
fn without_fence(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_, body)| body.trim())
}

fn matches(value: &Value, schema: &Value, level: usize) -> bool {
    if level > MOST_LEVELS {
        return false;
    }
    let all = |name: &str| schema.get(name).and_then(Value::as_array);
    let inner = |schema: &Value| matches(value, schema, level + 1);
    has_type(value, schema.get("type"))
        && schema.get("const").is_none_or(|expected| expected == value)
        && all("enum").is_none_or(|choices| choices.contains(value))
        && all("required").is_none_or(|names| {
            names.iter().filter_map(Value::as_str).all(|name| !value.is_object() || value.get(name).is_some())
        })
        && schema.get("properties").and_then(Value::as_object).is_none_or(|fields| {
            let given = |name: &String| value.as_object().and_then(|object| object.get(name));
            fields
                .iter()
                .all(|(name, field)| given(name).is_none_or(|value| matches(value, field, level + 1)))
        })
        && schema.get("items").is_none_or(|item| {
            value.as_array().is_none_or(|items| items.iter().all(|value| matches(value, item, level + 1)))
        })
        && all("allOf").is_none_or(|parts| parts.iter().all(inner))
        && all("anyOf").is_none_or(|parts| parts.iter().any(inner))
        && all("oneOf").is_none_or(|parts| parts.iter().any(inner))
}

fn has_type(value: &Value, expected: Option<&Value>) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match expected {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_checked_by_structure() {
        let schema = json!({
            "type": "object",
            "required": ["name", "tags"],
            "properties": {
                "name": { "type": "string" },
                "tags": { "type": "array", "items": { "enum": ["a", "b"] } },
                "size": { "type": ["integer", "null"] },
            },
        });
        for right in
            [r#"{"name":"x","tags":[]}"#, "```json\n{\"name\":\"x\",\"tags\":[\"a\"],\"size\":null}\n```"]
        {
            assert!(parse(right, &schema).is_ok(), "{right}");
        }
        for wrong in [
            "name: x",
            "[]",
            r#"{"name":"x"}"#,
            r#"{"name":1,"tags":[]}"#,
            r#"{"name":"x","tags":["c"]}"#,
            r#"{"name":"x","tags":[],"size":1.5}"#,
        ] {
            assert!(parse(wrong, &schema).is_err(), "{wrong}");
        }
        assert!(parse("1", &json!({"anyOf": [{"type": "string"}, {"const": 1}]})).is_ok());
        assert!(parse("2", &json!({"allOf": [{"type": "number"}, {"const": 1}]})).is_err());
    }

    #[test]
    fn deep_schema_is_refused() {
        // As deep as the parser of a call lets through.
        let deep = (0..60).fold(json!({}), |inner, _| json!({ "allOf": [inner] }));
        assert!(parse("1", &deep).is_ok());
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "allOf": [inner] }));
        assert!(parse("1", &deep).is_err());
    }
}
