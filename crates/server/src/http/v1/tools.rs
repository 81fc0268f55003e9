//! Tools, in the words of crush's terminal: it shows a call by its name, from arguments and metadata that it knows.
//!
//! Nothing here decides anything. A tool that has no counterpart keeps its own name, and the terminal shows it plainly.

mod results;

use baton_protocol::permission::PermissionRequest as Wants;
use baton_protocol::{Json, RequestId, SessionId};
use serde_json::{Map, Value, json};

pub(crate) use self::results::{Halves, result};
use super::wire::PermissionRequest;

/// A tool call of the running turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Option<Json>,
    /// When it began, in milliseconds.
    pub(crate) began: i64,
}

impl Call {
    /// The name under which the terminal knows the tool.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.tool)
    }

    /// The arguments as the terminal knows them, as JSON in a text. What a model wrote that is no JSON is shown as it is.
    pub(crate) fn input(&self) -> String {
        let Some(arguments) = &self.arguments else { return "{}".into() };
        match arguments.parse::<Map<String, Value>>() {
            Ok(given) => input_of(&self.tool, given).to_string(),
            Err(_) => arguments.as_str().to_owned(),
        }
    }

    /// The file that the call is about.
    fn file(&self) -> String {
        let given =
            self.arguments.as_ref().and_then(|arguments| arguments.parse::<Map<String, Value>>().ok());
        let path = given.and_then(|mut given| take(&mut given, PATH));
        path.and_then(|path| path.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Names that mean something to the terminal, so that a client's own tool must not bear them by accident.
const KNOWN: [&str; 11] = [
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

/// Models spell arguments in several ways; tools take them all.
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

/// What somebody has to allow, as the terminal asks for it.
pub(crate) fn permission(
    request: &RequestId,
    session: &SessionId,
    wants: &Wants,
    call: Option<&Call>,
    cwd: &str,
) -> PermissionRequest {
    let wanted = Wanted::of(wants, call, cwd);
    PermissionRequest {
        id: request.to_string(),
        session_id: session.clone(),
        tool_call_id: wants.tool_call_id().map(ToString::to_string).unwrap_or_default(),
        tool_name: wanted.tool,
        description: wanted.description,
        action: wanted.action.to_owned(),
        // Anything but an object would cost the client the whole request.
        params: if wanted.params.is_object() { wanted.params } else { json!({}) },
        path: wanted.path,
    }
}

struct Wanted {
    tool: String,
    action: &'static str,
    description: String,
    params: Value,
    path: String,
}

impl Wanted {
    fn of(wants: &Wants, call: Option<&Call>, cwd: &str) -> Self {
        let here = |tool: &str, action, description: &str, params| Self {
            tool: tool.to_owned(),
            action,
            description: description.to_owned(),
            params,
            path: cwd.to_owned(),
        };
        match wants {
            Wants::Shell { full_command_text, intention, .. } => {
                let params = json!({
                    "description": intention, "command": full_command_text, "working_dir": cwd,
                    "run_in_background": false, "auto_background_after": 0,
                });
                here("bash", "execute", intention, params)
            }
            Wants::Write { file_name, diff, intention, new_file_contents, .. } => {
                Self::write(file_name, diff, intention, new_file_contents.as_deref(), call)
            }
            Wants::Read { path, intention, .. } => Self {
                path: directory_of(path),
                ..here("view", "read", intention, json!({ "file_path": path, "offset": 0, "limit": 0 }))
            },
            Wants::Url { url, intention, .. } => {
                here("fetch", "fetch", intention, json!({ "url": url, "format": "markdown" }))
            }
            Wants::Mcp { server_name, tool_name, tool_title, args, .. } => here(
                &format!("mcp_{server_name}_{tool_name}"),
                "execute",
                tool_title,
                value_of(args.as_ref()),
            ),
            Wants::Memory { fact, .. } => {
                here("memory", "write", "Remember something", json!({ "fact": fact }))
            }
            Wants::CustomTool { tool_name, tool_description, args, .. } => {
                here(&foreign(tool_name), "execute", tool_description, value_of(args.as_ref()))
            }
            Wants::Hook { tool_name, tool_args, hook_message, .. } => {
                let message = hook_message.as_deref().unwrap_or("A hook asks for your decision");
                here(&foreign(tool_name), "execute", message, value_of(tool_args.as_ref()))
            }
        }
    }

    fn write(file: &str, diff: &str, intention: &str, contents: Option<&str>, call: Option<&Call>) -> Self {
        let halves = Halves::of(diff);
        let is_new = diff.contains("\n--- /dev/null\n");
        let new = contents.filter(|_| is_new).map_or(halves.new, str::to_owned);
        let tool = call.map_or(if is_new { "write" } else { "edit" }, Call::name);
        Self {
            tool: if tool == "write" { "write" } else { "edit" }.to_owned(),
            action: "write",
            description: format!("{intention} {file}"),
            params: json!({ "file_path": file, "old_content": halves.old, "new_content": new }),
            path: directory_of(file),
        }
    }
}

/// The name of a tool that is not ours.
fn foreign(name: &str) -> String {
    if KNOWN.contains(&name) { format!("client_{name}") } else { name.to_owned() }
}

fn value_of(json: Option<&Json>) -> Value {
    json.and_then(|json| json.parse().ok()).unwrap_or_else(|| json!({}))
}

fn directory_of(file: &str) -> String {
    let parent = std::path::Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or_else(|| file.to_owned(), |parent| parent.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tool: &str, arguments: &str, name: &str, input: &Value) {
        let call = Call { tool: tool.into(), arguments: Json::from_text(arguments).ok(), began: 0 };
        assert_eq!(call.name(), name);
        assert_eq!(serde_json::from_str::<Value>(&call.input()).unwrap(), *input, "{tool} {arguments}");
    }

    #[test]
    fn calls_are_shown_in_the_terminals_words() {
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

    fn ask(wants: &Wants) -> Value {
        let (id, session) = (RequestId::from("r"), "s".parse().unwrap());
        serde_json::to_value(permission(&id, &session, wants, None, "/work")).unwrap()
    }

    #[test]
    fn a_permission_has_the_parameters_of_its_tool() {
        let command = ask(&Wants::Shell {
            tool_call_id: Some("c".into()),
            full_command_text: "rm x".into(),
            intention: "Clean up".into(),
            commands: Vec::new(),
            possible_paths: Vec::new(),
            possible_urls: Vec::new(),
            has_write_file_redirection: false,
            can_offer_session_approval: false,
            warning: None,
            input_to: None,
        });
        assert_eq!(command["tool_name"], "bash");
        assert_eq!((&command["params"]["command"], &command["path"]), (&json!("rm x"), &json!("/work")));
        let write = ask(&Wants::Write {
            tool_call_id: Some("c".into()),
            file_name: "/work/a/b.txt".into(),
            diff: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-one\n+two\n same\n".into(),
            intention: "Edit file".into(),
            new_file_contents: Some("two\nsame\n".into()),
            can_offer_session_approval: true,
        });
        assert_eq!((&write["tool_name"], &write["path"]), (&json!("edit"), &json!("/work/a")));
        let expected =
            json!({"file_path": "/work/a/b.txt", "old_content": "one\nsame\n", "new_content": "two\nsame\n"});
        assert_eq!(write["params"], expected);
    }

    /// The client decodes parameters by name; a client's own `bash` may take anything.
    #[test]
    fn a_clients_tool_never_passes_for_one_of_the_terminals() {
        let custom = |args: &str| {
            ask(&Wants::CustomTool {
                tool_call_id: None,
                tool_name: "bash".into(),
                tool_description: "Mine".into(),
                args: Json::from_text(args).ok(),
            })
        };
        assert_eq!(
            (&custom("[1]")["tool_name"], &custom("[1]")["params"]),
            (&json!("client_bash"), &json!({}))
        );
        assert_eq!(custom(r#"{"a":1}"#)["params"], json!({"a": 1}));
    }
}
