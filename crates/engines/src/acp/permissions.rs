//! Permission requests of an agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_markup::diff::unified as unified_diff;
use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Value, json};

use super::schema::{self, PermissionOption, PermissionOptionKind};
use super::tool_call::{ToolCall, ToolCallContent, ToolKind};
use crate::adapter::Steps;
use crate::json::text;
use crate::pending::OpenRequests;
use crate::permission::{self, SingleVerdict};

/// The open permission requests. References are the agent's request ids as text.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    pub(super) cwd: PathBuf,
    pending: OpenRequests<OpenRequest>,
}

/// A request that waits for a decision.
#[derive(Debug)]
struct OpenRequest {
    id: Value,
    call: String,
    options: Vec<PermissionOption>,
}

impl Permissions {
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    pub(super) fn on_request(
        &mut self,
        id: &Value,
        call: &ToolCall,
        options: Vec<PermissionOption>,
        steps: &mut Steps,
    ) {
        let call_id = call.id.clone();
        let request = permission_request(&call_id, &self.cwd, call);
        let open = OpenRequest { id: id.clone(), call: call_id.clone(), options };
        self.pending.request_permission(&id.to_string(), &call_id, request, open, steps);
    }

    /// Sends a decision to the agent. Returns the call if it was denied.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        use PermissionOptionKind::{AllowOnce, RejectAlways, RejectOnce};
        let OpenRequest { id, call, options } = self.pending.decided(reference)?;
        let (kinds, denied) = match SingleVerdict::from(verdict) {
            // Never "always", which some agents store permanently. An agent that offers nothing else is denied.
            SingleVerdict::Allow => (&[AllowOnce][..], None),
            SingleVerdict::Deny(_) => (&[RejectOnce, RejectAlways][..], Some(call)),
        };
        let chosen = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
        respond(&id, chosen.map(|option| option.id.as_str()), steps);
        denied
    }

    /// Cancels all open requests.
    pub(super) fn cancel(&mut self, steps: &mut Steps) {
        for OpenRequest { id, .. } in self.pending.take_permissions() {
            cancel(&id, steps);
        }
    }
}

pub(super) fn cancel(id: &Value, steps: &mut Steps) {
    respond(id, None, steps);
}

/// Answers with an option of the agent, or cancels the request.
fn respond(id: &Value, option: Option<&str>, steps: &mut Steps) {
    let result = schema::permission_response(option);
    steps.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Arguments of a command that do not affect what runs.
const INERT_ARGUMENTS: [&str; 6] =
    ["command", "description", "timeout", "is_background", "run_in_background", "background"];
/// Arguments that name the directory of a command.
const DIRECTORY_ARGUMENTS: [&str; 5] = ["cwd", "workdir", "directory", "dir_path", "dir"];

/// Returns the command line to show to the user, with its directory if that is not the session's. None if the call has
/// unknown arguments: the line alone would then not tell what runs.
fn command_line(cwd: &Path, command: &str, input: &Value) -> Option<String> {
    let mut named = None;
    for (name, value) in input.as_object()? {
        match value.as_str() {
            _ if INERT_ARGUMENTS.contains(&name.as_str()) || value.is_null() => {}
            Some("") if DIRECTORY_ARGUMENTS.contains(&name.as_str()) => {}
            Some(directory) if DIRECTORY_ARGUMENTS.contains(&name.as_str()) && named.is_none() => {
                named = Some(directory);
            }
            _ => return None,
        }
    }
    let elsewhere = named.map(|directory| cwd.join(directory)).filter(|directory| directory != cwd);
    Some(match elsewhere {
        Some(directory) => permission::in_directory(&directory, command),
        None => command.to_owned(),
    })
}

/// Translates a request of the agent.
fn permission_request(id: &str, cwd: &Path, call: &ToolCall) -> PermissionRequest {
    let nothing = Value::Null;
    let input = call.raw_input.as_ref().unwrap_or(&nothing);
    let diffs = call.content.iter().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        ToolCallContent::Text(_) => None,
    });
    let diffs: Vec<_> = diffs.collect();
    // A command, and a fetch, are no change of the files that come with them.
    if !diffs.is_empty() && !matches!(call.kind, ToolKind::Execute | ToolKind::Fetch) {
        let located = call.locations.iter().map(|location| location.path.as_path());
        let files: BTreeSet<&Path> = diffs.iter().map(|diff| diff.path.as_path()).chain(located).collect();
        let files = permission::file_names(files.into_iter().map(Path::to_str));
        let texts = diffs
            .iter()
            .map(|diff| unified_diff(&cwd.join(&diff.path), diff.old_text.as_deref(), &diff.new_text));
        return permission::write(id, &files, texts.collect::<Vec<_>>().join("\n"), &call.title);
    }
    // All paths of the call: a moved file has two.
    let located = call.locations.iter().map(|location| location.path.as_path());
    let path = text(input, "/filepath").or(text(input, "/file_path")).or(text(input, "/path"));
    let paths: BTreeSet<&Path> = path.map(Path::new).into_iter().chain(located).collect();
    let path = permission::file_names(paths.into_iter().map(Path::to_str));
    match (call.kind, text(input, "/command")) {
        (ToolKind::Execute, Some(command)) => match command_line(cwd, command, input) {
            Some(line) => permission::shell(id, cwd, &line, text(input, "/description").unwrap_or("")),
            None => {
                permission::ungrantable(id, call.name.as_deref().unwrap_or("execute"), &call.title, input)
            }
        },
        (ToolKind::Execute, None) => permission::undisclosed_shell(id, cwd, &call.title),
        (ToolKind::Edit | ToolKind::Delete | ToolKind::Move, _) => {
            let diff = text(input, "/diff").unwrap_or_default().to_owned();
            permission::write(id, &path, diff, &call.title)
        }
        (ToolKind::Read | ToolKind::Search, _) => permission::read(id, &path, &call.title),
        (ToolKind::Fetch, _) => match text(input, "/url") {
            Some(url) => permission::url(id, url, ""),
            None => permission::ungrantable(id, "web_fetch", &call.title, input),
        },
        // A title describes one call. A grant for the title would cover any later call that has the same title.
        _ => match call.name.as_deref() {
            Some(name) => permission::custom_tool(id, name, &call.title, input),
            None => permission::ungrantable(id, "tool", &call.title, input),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(mut update: Value) -> PermissionRequest {
        update["toolCallId"] = "c".into();
        update["title"] = "https://ok.example/".into();
        permission_request("c", Path::new("/work"), &ToolCall::read(&update).unwrap())
    }

    #[test]
    fn command_with_a_diff_is_shown_as_a_command() {
        let content = json!([{"type": "diff", "path": "notes.txt", "oldText": "a", "newText": "b"}]);
        let edit = requested(json!({"kind": "edit", "content": content}));
        assert!(matches!(edit, PermissionRequest::Write { .. }), "{edit:?}");
        let command =
            requested(json!({"kind": "execute", "content": content, "rawInput": {"command": "rm x"}}));
        let PermissionRequest::Shell { full_command_text, .. } = &command else { panic!("{command:?}") };
        assert_eq!(full_command_text, "rm x");
    }

    #[test]
    fn title_is_not_taken_for_the_address_of_a_fetch() {
        let named = requested(json!({"kind": "fetch", "rawInput": {"url": "https://x.example/"}}));
        assert!(
            matches!(&named, PermissionRequest::Url { url, .. } if url == "https://x.example/"),
            "{named:?}"
        );
        let unnamed = requested(json!({"kind": "fetch", "rawInput": {"address": "https://x.example/"}}));
        assert!(matches!(unnamed, PermissionRequest::Hook { .. }), "{unnamed:?}");
    }

    #[test]
    fn command_line_is_shown_only_if_it_shows_what_runs() {
        let shown = |input: Value| command_line(Path::new("/work"), "make", &input);
        assert_eq!(shown(json!({"command": "make", "description": "x", "timeout": 5})), Some("make".into()));
        assert_eq!(shown(json!({"command": "make", "workdir": "/work"})), Some("make".into()));
        assert_eq!(
            shown(json!({"command": "make", "cwd": "/tmp/evil"})),
            Some("cd '/tmp/evil' && make".into())
        );
        assert_eq!(
            shown(json!({"command": "make", "directory": "sub"})),
            Some("cd '/work/sub' && make".into())
        );
        for unknown in [
            json!({"command": "make", "args": ["-f", "x"]}),
            json!({"command": "make", "host": "prod"}),
            json!({"command": "make", "cwd": "/a", "workdir": "/b"}),
            json!({"command": "make", "cwd": 7}),
        ] {
            assert_eq!(shown(unknown.clone()), None, "{unknown}");
        }
    }
}
