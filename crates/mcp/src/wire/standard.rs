//! Headers that repeat parts of a request, so that proxies can route it without its body: version 2026-07-28, over HTTP.
//!
//! `Mcp-Method` is the method, `Mcp-Name` the name of the tool or prompt, or the URI of the resource. A tool may mark simple
//! parameters with `x-mcp-header`; a call repeats their values as `Mcp-Param-<mark>`. A tool whose marks are not allowed is
//! removed from the list: not unique, no header name, not a string, integer or boolean, or not reached through
//! `properties` only. Values that no header can carry are Base64 between `=?base64?` and `?=`.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderName;
use serde_json::Value;

/// The field of a parameter's schema.
const MARK: &str = "x-mcp-header";
/// Tools with marks that are remembered, and marks of each.
const MOST: usize = 1000;

/// A marked parameter: the names from the arguments to it, and its mark.
type Marked = (Vec<String>, String);

/// The marked parameters of a server's tools.
#[derive(Default)]
pub(super) struct MarkedTools(HashMap<String, Vec<Marked>>);

impl MarkedTools {
    /// Remembers the marks in a list of tools, and removes tools whose marks are not allowed. Returns their names.
    pub(super) fn learn(&mut self, list: &mut Value) -> Vec<String> {
        let Some(Value::Array(tools)) = list.get_mut("tools") else { return Vec::new() };
        let mut removed = Vec::new();
        tools.retain(|tool| {
            let (Some(name), Some(schema)) =
                (tool.get("name").and_then(Value::as_str), tool.get("inputSchema"))
            else {
                return true;
            };
            let Some(marked) = marked(schema) else {
                removed.push(name.to_owned());
                return false;
            };
            self.0.remove(name);
            if !marked.is_empty() && self.0.len() < MOST {
                self.0.insert(name.to_owned(), marked);
            }
            true
        });
        removed
    }

    /// Returns the headers of a request or notification.
    pub(super) fn headers(&self, method: &str, params: &Value) -> Vec<(String, String)> {
        let text = |name: &str| params.get(name).and_then(Value::as_str);
        let name = match method {
            "tools/call" | "prompts/get" => text("name"),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => text("taskId"),
            _ => None,
        };
        let mut headers = vec![("mcp-method".to_owned(), carried(method))];
        headers.extend(name.map(|name| ("mcp-name".to_owned(), carried(name))));
        let marked = name.filter(|_| method == "tools/call").and_then(|name| self.0.get(name));
        for (path, mark) in marked.into_iter().flatten() {
            let arguments = params.get("arguments");
            let value = arguments
                .and_then(|arguments| path.iter().try_fold(arguments, |value, name| value.get(name)));
            let value = match value {
                Some(Value::String(text)) => text.clone(),
                Some(simple @ (Value::Bool(_) | Value::Number(_))) => simple.to_string(),
                _ => continue,
            };
            headers.push((format!("mcp-param-{mark}"), carried(&value)));
        }
        headers
    }
}

/// Returns a text as the value of a header.
fn carried(text: &str) -> String {
    let is_odd = !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        || text.trim_matches(' ') != text
        || (text.starts_with("=?base64?") && text.ends_with("?="));
    if is_odd { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) } else { text.to_owned() }
}

/// Returns the marked parameters of a schema; none if a mark is not allowed.
fn marked(schema: &Value) -> Option<Vec<Marked>> {
    let (mut marked, mut known) = (Vec::new(), HashSet::new());
    find(schema, &mut Some(Vec::new()), &mut marked);
    for (path, mark, of_type) in &marked {
        let path = path.as_ref().filter(|path| !path.is_empty());
        let is_simple = matches!(of_type, Some("string" | "integer" | "boolean"));
        let mark = mark.as_str().filter(|mark| HeaderName::from_bytes(mark.as_bytes()).is_ok());
        (path.is_some() && is_simple && known.insert(mark?.to_ascii_lowercase())).then_some(())?;
    }
    if marked.len() > MOST {
        return None;
    }
    let marked = marked.into_iter().filter_map(|(path, mark, _)| Some((path?, mark.as_str()?.to_owned())));
    Some(marked.collect())
}

/// A mark as it was found: the path to it, if that consists of properties only, the mark, and the type of what is marked.
type Found<'a> = (Option<Vec<String>>, &'a Value, Option<&'a str>);

/// Collects the marks of a schema. The depth is bounded by that of messages.
fn find<'a>(schema: &'a Value, path: &mut Option<Vec<String>>, found: &mut Vec<Found<'a>>) {
    match schema {
        Value::Array(schemas) => schemas.iter().for_each(|schema| find(schema, &mut None, found)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match field.as_str() {
                    MARK => found.push((path.clone(), value, fields.get("type").and_then(Value::as_str))),
                    "properties" => within(value, path, found),
                    "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                        within(value, &mut None, found);
                    }
                    // Data, not schemas.
                    "default" | "const" | "enum" | "examples" => {}
                    _ => find(value, &mut None, found),
                }
            }
        }
        _ => {}
    }
}

/// Collects the marks in an object of schemas, by name.
fn within<'a>(schemas: &'a Value, path: &mut Option<Vec<String>>, found: &mut Vec<Found<'a>>) {
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        if let Some(path) = path {
            path.push(name.clone());
        }
        find(schema, path, found);
        if let Some(path) = path {
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(properties: &Value) -> Value {
        let schema = json!({ "type": "object", "properties": properties });
        json!({ "tools": [{ "name": "t", "inputSchema": schema }, { "name": "other" }, 7] })
    }

    #[test]
    fn marked_parameters_become_headers() {
        let mut tools = MarkedTools::default();
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let nested =
            json!({ "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } });
        let absent = json!({ "type": "boolean", "x-mcp-header": "Absent" });
        let mut tools_list = list(&json!({ "region": region, "deep": nested, "absent": absent }));
        assert_eq!(tools.learn(&mut tools_list), Vec::<String>::new());
        let params = json!({ "name": "t", "arguments": { "region": "süd", "deep": { "n": 7 } } });
        let mut headers = tools.headers("tools/call", &params);
        headers.sort();
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "t"),
            ("mcp-param-N", "7"),
            ("mcp-param-Region", "=?base64?c8O8ZA==?="),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let read = tools.headers("resources/read", &json!({ "uri": " x:" }));
        assert_eq!(read[1], ("mcp-name".to_owned(), "=?base64?IHg6?=".to_owned()));
        assert_eq!(tools.headers("tools/list", &Value::Null).len(), 1);
    }

    #[test]
    fn tools_with_marks_that_are_not_allowed_are_removed() {
        let mark = |of_type: &str, mark: Value| json!({ "type": of_type, "x-mcp-header": mark });
        for properties in [
            json!({ "a": mark("object", json!("A")) }),
            json!({ "a": mark("string", json!("")) }),
            json!({ "a": mark("string", json!("a b")) }),
            json!({ "a": mark("string", json!(7)) }),
            json!({ "a": mark("string", json!("A")), "b": mark("string", json!("a")) }),
            json!({ "a": { "type": "array", "items": mark("string", json!("A")) } }),
            json!({ "a": { "anyOf": [mark("string", json!("A"))] } }),
        ] {
            let mut tools = list(&properties);
            assert_eq!(MarkedTools::default().learn(&mut tools), ["t"], "{properties}");
            assert_eq!(tools, json!({ "tools": [{ "name": "other" }, 7] }));
        }
        let mut root = json!({ "tools": [{ "name": "t", "inputSchema": mark("object", json!("A")) }] });
        assert_eq!(MarkedTools::default().learn(&mut root), ["t"]);
        let mut data = list(&json!({ "a": { "type": "object", "default": { "x-mcp-header": "A" } } }));
        assert!(MarkedTools::default().learn(&mut data).is_empty());
    }
}
