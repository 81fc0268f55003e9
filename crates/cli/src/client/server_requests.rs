//! Requests of MCP servers at the terminal: forms, pages to open, and answers of the model.

use serde_json::{Map, Value, json};

use crate::terminal::Question;

/// Describes a request. Its texts are a stranger's, so the server is named first.
pub(super) fn describe(kind: &str, detail: &Value) -> Question {
    let text = |name: &str| detail[name].as_str().unwrap_or_default();
    if kind == "sampling" {
        let request = serde_json::to_string_pretty(&detail["request"]).unwrap_or_default();
        return Question::plain("may an MCP server ask the model?")
            .exact("server", text("serverName"))
            .exact("request", &request);
    }
    let asked = match is_page(detail) {
        true => Question::plain("an MCP server asks you to open a page"),
        false => Question::plain("an MCP server asks"),
    };
    let asked = asked.exact("server", text("source")).prose("message", text("message"));
    match is_page(detail) {
        true => asked.exact("address", text("url")),
        false => asked.exact("fields", &fields(detail)),
    }
}

/// The possible answers, for the prompt line.
pub(super) fn hint(kind: &str, detail: &Value) -> &'static str {
    match (kind, only_field(detail)) {
        ("sampling", _) => "[y]es or [n]o:",
        _ if is_page(detail) => "[y]es, I opened it, or [n]o:",
        (_, Some(_)) => "the value, or [n]o:",
        (_, None) => "a JSON object, or [n]o:",
    }
}

/// Parses a typed line into an answer; none if it is not an answer.
pub(super) fn answer(kind: &str, detail: &Value, line: &str) -> Option<Value> {
    let word = line.to_lowercase();
    let (yes, no) = (matches!(word.as_str(), "y" | "yes"), matches!(word.as_str(), "n" | "no"));
    if kind == "sampling" {
        return (yes || no).then(|| json!({ "kind": "sampling", "approve": yes }));
    }
    if no {
        return Some(json!({ "kind": "elicitation", "action": "decline" }));
    }
    if is_page(detail) {
        return yes.then(|| json!({ "kind": "elicitation", "action": "accept" }));
    }
    let content = match (baton_json::from_str::<Value>(line), only_field(detail)) {
        (Ok(Value::Object(content)), _) => Value::Object(content),
        (_, Some((name, schema))) => Value::Object(Map::from_iter([(name.clone(), typed(schema, line)?)])),
        _ => return None,
    };
    Some(json!({ "kind": "elicitation", "action": "accept", "content": content }))
}

fn is_page(detail: &Value) -> bool {
    detail["url"].is_string()
}

fn properties(detail: &Value) -> Option<&Map<String, Value>> {
    detail["requestedSchema"]["properties"].as_object()
}

fn only_field(detail: &Value) -> Option<(&String, &Value)> {
    properties(detail).filter(|fields| fields.len() == 1)?.iter().next()
}

fn fields(detail: &Value) -> String {
    let line = |(name, schema): (&String, &Value)| {
        let about = schema["description"].as_str().or(schema["title"].as_str()).unwrap_or_default();
        let choices = schema["enum"].as_array().map(|_| format!(" one of {}", schema["enum"]));
        format!(
            "{name} ({}){} {about}",
            schema["type"].as_str().unwrap_or("any"),
            choices.unwrap_or_default()
        )
    };
    properties(detail).into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

/// Converts a typed value to the type of its field; none if it is of another type.
fn typed(schema: &Value, line: &str) -> Option<Value> {
    match schema["type"].as_str() {
        Some("number") => line.parse::<f64>().ok().map(|number| json!(number)),
        Some("integer") => line.parse::<i64>().ok().map(|number| json!(number)),
        Some("boolean") => match line.to_lowercase().as_str() {
            "true" | "y" | "yes" => Some(json!(true)),
            "false" => Some(json!(false)),
            _ => None,
        },
        _ => Some(json!(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_answered_with_a_value_or_an_object() {
        let form =
            |properties: Value| json!({ "message": "m", "requestedSchema": { "properties": properties } });
        let one = form(json!({ "age": { "type": "integer" } }));
        let accept =
            |content: Value| Some(json!({ "kind": "elicitation", "action": "accept", "content": content }));
        assert_eq!(answer("elicitation", &one, "7"), accept(json!({ "age": 7 })));
        assert_eq!(answer("elicitation", &one, "seven"), None);
        assert_eq!(answer("elicitation", &one, r#"{"age":8}"#), accept(json!({ "age": 8 })));
        assert_eq!(answer("elicitation", &one, "No").unwrap()["action"], "decline");
        let two = form(json!({ "a": { "type": "string" }, "b": { "type": "string", "enum": ["x"] } }));
        assert_eq!(answer("elicitation", &two, "x"), None);
        assert!(fields(&two).contains("one of [\"x\"]"));
    }

    #[test]
    fn pages_and_samples_need_a_yes() {
        let page = json!({ "message": "m", "url": "https://x.example/" });
        assert_eq!(answer("elicitation", &page, "y").unwrap()["action"], "accept");
        assert_eq!(answer("elicitation", &page, "perhaps"), None);
        assert_eq!(
            answer("sampling", &json!({}), "yes"),
            Some(json!({ "kind": "sampling", "approve": true }))
        );
        assert_eq!(
            answer("sampling", &json!({}), "n"),
            Some(json!({ "kind": "sampling", "approve": false }))
        );
        assert_eq!(answer("sampling", &json!({}), "hm"), None);
    }
}
