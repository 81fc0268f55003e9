//! Permission requests, as crush's terminal shows them.

use baton_protocol::permission::PermissionRequest as ProtocolRequest;
use baton_protocol::{Json, RequestId, SessionId};
use serde_json::{Value, json};

use super::call::RENDERED;
use super::{Call, DiffSides};
use crate::wire::PermissionRequest;

/// Converts a permission request to the terminal's form.
pub(crate) fn permission(
    id: &RequestId,
    session: &SessionId,
    request: &ProtocolRequest,
    call: Option<&Call>,
    cwd: &str,
) -> PermissionRequest {
    let dialog = Dialog::new(request, call, cwd);
    PermissionRequest {
        id: id.to_string(),
        session_id: session.clone(),
        tool_call_id: request.tool_call_id().map(ToString::to_string).unwrap_or_default(),
        tool_name: dialog.tool,
        description: dialog.description,
        action: dialog.action.to_owned(),
        // The client drops a request whose parameters are not an object.
        params: if dialog.params.is_object() { dialog.params } else { json!({}) },
        path: dialog.path,
    }
}

/// The fields of a permission request that depend on its kind.
struct Dialog {
    tool: String,
    action: &'static str,
    description: String,
    params: Value,
    path: String,
}

impl Dialog {
    fn new(request: &ProtocolRequest, call: Option<&Call>, cwd: &str) -> Self {
        let dialog = |tool: &str, action, description: &str, params| Self {
            tool: tool.to_owned(),
            action,
            description: description.to_owned(),
            params,
            path: cwd.to_owned(),
        };
        match request {
            ProtocolRequest::Shell { full_command_text, intention, warning, .. } => {
                // The dialog has no place of its own for them.
                let notes = warning.iter().cloned().chain(request.sandbox_note());
                let intention = &notes.fold(intention.clone(), |text, note| format!("{text} ({note})"));
                let params = json!({
                    "description": intention, "command": full_command_text, "working_dir": cwd,
                    "run_in_background": false, "auto_background_after": 0,
                });
                dialog("bash", "execute", intention, params)
            }
            ProtocolRequest::Write { file_name, diff, intention, new_file_contents, .. } => {
                Self::write(file_name, diff, intention, new_file_contents.as_deref(), call)
            }
            ProtocolRequest::Read { path, intention, .. } => Self {
                path: directory_of(path),
                ..dialog("view", "read", intention, json!({ "file_path": path, "offset": 0, "limit": 0 }))
            },
            ProtocolRequest::Url { url, intention, .. } => {
                dialog("fetch", "fetch", intention, json!({ "url": url, "format": "markdown" }))
            }
            ProtocolRequest::Mcp { server_name, tool_name, tool_title, args, .. } => dialog(
                &format!("mcp_{server_name}_{tool_name}"),
                "execute",
                tool_title,
                value_of(args.as_ref()),
            ),
            ProtocolRequest::Memory { fact, .. } => {
                dialog("memory", "write", "Remember something", json!({ "fact": fact }))
            }
            ProtocolRequest::CustomTool { tool_name, tool_description, args, .. } => {
                dialog(&client_tool_name(tool_name), "execute", tool_description, value_of(args.as_ref()))
            }
            ProtocolRequest::Hook { tool_name, tool_args, hook_message, .. } => {
                let message = hook_message.as_deref().unwrap_or("A hook asks for a decision");
                dialog(&client_tool_name(tool_name), "execute", message, value_of(tool_args.as_ref()))
            }
        }
    }

    fn write(file: &str, diff: &str, intention: &str, contents: Option<&str>, call: Option<&Call>) -> Self {
        let sides = DiffSides::of(diff);
        let is_new = diff.contains("\n--- /dev/null\n");
        let new = contents.filter(|_| is_new).map_or(sides.new, str::to_owned);
        let tool = call.map_or(if is_new { "write" } else { "edit" }, Call::name);
        Self {
            tool: if tool == "write" { "write" } else { "edit" }.to_owned(),
            action: "write",
            description: format!("{intention} {file}"),
            params: json!({ "file_path": file, "old_content": sides.old, "new_content": new }),
            path: directory_of(file),
        }
    }
}

/// Returns the name of a client tool that no renderer of the terminal has.
fn client_tool_name(name: &str) -> String {
    if RENDERED.contains(&name) { format!("client_{name}") } else { name.to_owned() }
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

    fn ask(request: &ProtocolRequest) -> Value {
        let (id, session) = (RequestId::from("r"), "s".parse().unwrap());
        serde_json::to_value(permission(&id, &session, request, None, "/work")).unwrap()
    }

    #[test]
    fn permission_has_the_parameters_of_its_tool() {
        let command = ask(&ProtocolRequest::Shell {
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
            repository_runs: None,
            sandbox: None,
            request_sandbox_bypass: None,
            request_sandbox_bypass_reason: None,
        });
        assert_eq!(command["tool_name"], "bash");
        assert_eq!((&command["params"]["command"], &command["path"]), (&json!("rm x"), &json!("/work")));
        let write = ask(&ProtocolRequest::Write {
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

    #[test]
    fn dialog_says_where_a_command_runs() {
        let shell = |more: Value| {
            let mut wants = json!({ "kind": "shell", "fullCommandText": "ls", "intention": "List" });
            wants.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ask(&baton_json::from_value(&wants).unwrap())["description"].clone()
        };
        assert_eq!(shell(json!({ "sandbox": "workspace" })), "List (runs in the sandbox: workspace)");
        assert_eq!(shell(json!({ "warning": "it runs outside" })), "List (it runs outside)");
        assert_eq!(shell(json!({})), "List");
    }

    /// The terminal decodes parameters by tool name, and a client tool named `bash` can have any.
    #[test]
    fn client_tool_is_never_shown_under_a_name_with_a_renderer() {
        let custom = |args: &str| {
            ask(&ProtocolRequest::CustomTool {
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
