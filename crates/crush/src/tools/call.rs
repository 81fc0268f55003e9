//! Names and arguments of tool calls, as crush's terminal knows them.

use baton_protocol::Json;
use serde_json::{Map, Value, json};

/// A tool call of the running turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Option<Json>,
    /// When it started, in milliseconds since 1970.
    pub(crate) started: i64,
}

impl Call {
    /// Returns the terminal's name for the tool.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.tool)
    }

    /// Returns the arguments in the terminal's form, as JSON text. Arguments that are not a JSON object are left unchanged.
    pub(crate) fn input(&self) -> String {
        let Some(arguments) = &self.arguments else { return "{}".into() };
        match arguments.parse::<Map<String, Value>>() {
            Ok(given) => input_of(&self.tool, given).to_string(),
            Err(_) => arguments.as_str().to_owned(),
        }
    }

    /// Returns the path in the arguments, if any.
    pub(super) fn file(&self) -> String {
        let given =
            self.arguments.as_ref().and_then(|arguments| arguments.parse::<Map<String, Value>>().ok());
        let path = given.and_then(|mut given| take(&mut given, PATH));
        path.and_then(|path| path.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Names for which the terminal has a renderer. A client tool must not be shown under one of them.
pub(super) const RENDERED: [&str; 11] = [
    "agentic_fetch",
    "bash",
    "download",
    "edit",
    "fetch",
    "glob",
    "grep",
    "ls",
    "multiedit",
    "view",
    "write",
];

const PATH: &[&str] = &["path", "file_path", "filePath"];

fn name_of(tool: &str) -> &str {
    match tool {
        "create" => "write",
        "web_fetch" => "fetch",
        "read_bash" => "job_output",
        "stop_bash" => "job_kill",
        other => other,
    }
}

/// Removes an argument, which models spell in several ways.
fn take(given: &mut Map<String, Value>, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| given.shift_remove(*name))
}

fn input_of(tool: &str, mut given: Map<String, Value>) -> Value {
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    let mut get = |names: &[&str]| text(take(&mut given, names));
    match tool {
        "bash" => json!({
            "command": get(&["command", "cmd", "script"]),
            "description": get(&["description"]),
            "run_in_background": matches!(get(&["mode"]).as_str(), "async" | "background" | "detached"),
        }),
        "read_bash" | "stop_bash" => json!({ "shell_id": get(&["shellId", "shell_id", "id"]) }),
        "view" => view_input(&get(PATH), given.get("view_range").or(given.get("viewRange"))),
        "create" => {
            json!({ "file_path": get(PATH), "content": get(&["file_text", "content", "contents"]) })
        }
        "edit" => json!({
            "file_path": get(PATH),
            "old_string": get(&["old_str", "old_string", "oldStr", "oldString"]),
            "new_string": get(&["new_str", "new_string", "newStr", "newString"]),
        }),
        "web_fetch" => json!({ "url": get(&["url"]), "format": "markdown" }),
        "grep" => {
            json!({ "pattern": get(&["pattern"]), "path": get(&["path", "paths"]), "include": get(&["glob"]) })
        }
        "glob" => json!({ "pattern": get(&["pattern"]), "path": get(&["path", "paths"]) }),
        _ => Value::Object(given),
    }
}

fn view_input(path: &str, range: Option<&Value>) -> Value {
    let end = |at: usize| range.and_then(|range| range.get(at)?.as_i64());
    let first = end(0).unwrap_or(1).max(1);
    let limit = end(1).filter(|last| *last >= first).map_or(0, |last| last - first + 1);
    json!({ "file_path": path, "offset": first - 1, "limit": limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tool: &str, arguments: &str, name: &str, input: &Value) {
        let call = Call { tool: tool.into(), arguments: Json::from_text(arguments).ok(), started: 0 };
        assert_eq!(call.name(), name);
        assert_eq!(baton_json::from_str::<Value>(&call.input()).unwrap(), *input, "{tool} {arguments}");
    }

    #[test]
    fn calls_get_names_and_arguments_of_the_terminal() {
        check(
            "bash",
            r#"{"command":"ls","description":"List"}"#,
            "bash",
            &json!({"command": "ls", "description": "List", "run_in_background": false}),
        );
        check(
            "edit",
            r#"{"path":"/a","old_str":"x","new_str":"y"}"#,
            "edit",
            &json!({"file_path": "/a", "old_string": "x", "new_string": "y"}),
        );
        check(
            "create",
            r#"{"path":"/a","file_text":"t"}"#,
            "write",
            &json!({"file_path": "/a", "content": "t"}),
        );
        check(
            "view",
            r#"{"path":"/a","view_range":[11,20]}"#,
            "view",
            &json!({"file_path": "/a", "offset": 10, "limit": 10}),
        );
        check("view", r#"{"path":"/a"}"#, "view", &json!({"file_path": "/a", "offset": 0, "limit": 0}));
        check(
            "grep",
            r#"{"pattern":"x","path":["a","b"]}"#,
            "grep",
            &json!({"pattern": "x", "path": "a, b", "include": ""}),
        );
        check(
            "web_fetch",
            r#"{"url":"http://x"}"#,
            "fetch",
            &json!({"url": "http://x", "format": "markdown"}),
        );
        check("read_bash", r#"{"shellId":"1"}"#, "job_output", &json!({"shell_id": "1"}));
        check("sql", r#"{"query":"select 1"}"#, "sql", &json!({"query": "select 1"}));
        check("sql", r#""oops""#, "sql", &json!("oops"));
    }
}
