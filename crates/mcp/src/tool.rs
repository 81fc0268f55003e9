//! Tools, as a server lists them.

use serde_json::{Map, Value};

use crate::text::{clean, is_deceptive};

/// Bytes of a schema. Larger ones would fill a model's context.
const SCHEMA: usize = 256 * 1024;
/// Bytes of a description.
const DESCRIPTION: usize = 16 * 1024;
const NAME: usize = 256;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// Its name on the server.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON Schema of its arguments, with sorted keys.
    pub schema: Value,
    /// The server says that it changes nothing.
    pub read_only_hint: bool,
    /// Whether models may call it; otherwise it is for apps only.
    pub for_model: bool,
    /// The tool as the server lists it.
    pub raw: Map<String, Value>,
}

impl RemoteTool {
    /// Parses an entry of `tools/list`.
    ///
    /// # Errors
    /// With the reason, when the tool cannot be offered.
    pub(crate) fn parse(entry: &Value) -> Result<Self, String> {
        let raw = entry.as_object().ok_or("an entry is not an object")?;
        let name = raw.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or("an entry has no name")?;
        // Not cleaned: the server knows the tool by exactly this name, and people must see the name that is called.
        if name.len() > NAME || name.chars().any(|c| c.is_control() || is_deceptive(c)) {
            return Err(format!("the name of a tool is not usable: {}", clean(name, 100)));
        }
        let schema = match raw.get("inputSchema") {
            None => Value::Object(Map::new()),
            Some(schema @ Value::Object(_)) => schema.clone(),
            Some(_) => return Err(format!("{name}: its schema is not an object")),
        };
        let size = schema.to_string().len();
        if size > SCHEMA {
            return Err(format!("{name}: its schema has {size} bytes; at most {SCHEMA} are accepted"));
        }
        let annotations = raw.get("annotations");
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let title = text(raw.get("title")).or_else(|| text(annotations.and_then(|notes| notes.get("title"))));
        let visibility = entry.pointer("/_meta/ui/visibility").and_then(Value::as_array);
        Ok(Self {
            name: name.to_owned(),
            title: clean(&title.unwrap_or_else(|| name.to_owned()), NAME),
            description: clean(&text(raw.get("description")).unwrap_or_default(), DESCRIPTION),
            schema: with_properties(sorted(schema)),
            read_only_hint: annotations
                .and_then(|notes| notes.get("readOnlyHint"))
                .and_then(Value::as_bool)
                .unwrap_or(false),
            for_model: visibility.is_none_or(|places| places.iter().any(|place| place == "model")),
            raw: raw.clone(),
        })
    }
}

/// Sorts the keys of all objects: the request to the model stays the same whatever order the server uses.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Completes the schema of a tool without arguments, which providers refuse otherwise.
fn with_properties(mut schema: Value) -> Value {
    if let Some(map) = schema.as_object_mut() {
        if !map.get("properties").is_some_and(Value::is_object) {
            map.insert("properties".into(), Value::Object(Map::new()));
        }
        map.insert("type".into(), "object".into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_is_parsed_leniently() {
        let tool = RemoteTool::parse(&json!({
            "name": "add",
            "description": "Adds\u{1b}[0m",
            "inputSchema": { "type": "object", "required": ["b"], "properties": { "b": {}, "a": {} } },
            "annotations": { "title": "Add", "readOnlyHint": true },
            "outputSchema": 7,
        }))
        .unwrap();
        assert_eq!((tool.title.as_str(), tool.description.as_str()), ("Add", "Adds[0m"));
        assert!(tool.read_only_hint && tool.for_model);
        assert_eq!(
            tool.schema.to_string(),
            r#"{"properties":{"a":{},"b":{}},"required":["b"],"type":"object"}"#
        );
        assert_eq!(tool.raw["outputSchema"], 7);
    }

    #[test]
    fn tool_without_arguments_has_an_empty_schema() {
        let tool = RemoteTool::parse(&json!({ "name": "ping" })).unwrap();
        assert_eq!(tool.schema, json!({ "properties": {}, "type": "object" }));
        assert_eq!(tool.title, "ping");
    }

    #[test]
    fn tools_for_apps_only_are_recognised() {
        let tool = |places: Value| {
            RemoteTool::parse(&json!({ "name": "a", "_meta": { "ui": { "visibility": places } } }))
                .unwrap()
                .for_model
        };
        assert!(tool(json!(["model", "app"])));
        assert!(!tool(json!(["app"])));
        assert!(tool(json!("app")), "not a list");
    }

    #[test]
    fn unusable_entries_are_refused() {
        for entry in [
            json!(null),
            json!({}),
            json!({ "name": "" }),
            json!({ "name": "a\nb" }),
            json!({ "name": "a\u{202e}b" }),
            json!({ "name": "a\u{200b}" }),
            json!({ "name": "n".repeat(1000) }),
            json!({ "name": "a", "inputSchema": [] }),
            json!({ "name": "a", "inputSchema": { "description": "x".repeat(5_000_000) } }),
        ] {
            assert!(RemoteTool::parse(&entry).unwrap_err().len() < 300);
        }
    }
}
