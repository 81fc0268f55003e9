//! What programs want to do, in the words of our own permission requests, so that every client can show and answer them.

use std::path::Path;

use baton_agent::tools::{shell, unified_diff};
use baton_agent::{blocking, untrusted};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Json, ToolCallId};
use serde_json::Value;

/// What was decided, as far as programs can tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Once,
    /// This and what the program finds to be like it, as long as it runs. What is like it for us, and for how long, is
    /// known elsewhere: such a request then never reaches a person.
    Session,
    /// What to do instead, if somebody said so.
    No(Option<String>),
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::ApproveOnce => Self::Once,
            Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => Self::Session,
            Verdict::Reject { feedback } => Self::No(feedback.filter(|text| !text.trim().is_empty())),
            Verdict::UserNotAvailable => Self::No(Some("Nobody is there to decide.".to_owned())),
            Verdict::DeniedByRules => Self::No(Some("The rules of this session do not allow it.".to_owned())),
        }
    }
}

/// To run a command.
pub(crate) fn shell(call: &str, cwd: &Path, command: &str, intention: &str) -> PermissionRequest {
    shell::permission_request(&ToolCallId::from(call), cwd, command, intention)
}

/// To change files. `diff` is shown as it is.
pub(crate) fn write(call: &str, file_name: &str, diff: String, intention: &str) -> PermissionRequest {
    PermissionRequest::Write {
        tool_call_id: Some(ToolCallId::from(call)),
        file_name: file_name.to_owned(),
        diff,
        intention: intention.to_owned(),
        new_file_contents: None,
        can_offer_session_approval: true,
    }
}

/// To read a file or a directory.
pub(crate) fn read(call: &str, path: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Read { tool_call_id, path: path.to_owned(), intention: intention.to_owned() }
}

/// To fetch something from the network.
pub(crate) fn url(call: &str, url: &str, intention: &str) -> PermissionRequest {
    let tool_call_id = Some(ToolCallId::from(call));
    PermissionRequest::Url { tool_call_id, url: url.to_owned(), intention: intention.to_owned() }
}

/// To call a tool of an MCP server.
pub(crate) fn mcp(call: &str, server: &str, tool: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::Mcp {
        tool_call_id: Some(ToolCallId::from(call)),
        server_name: server.to_owned(),
        tool_name: tool.to_owned(),
        tool_title: tool.to_owned(),
        args: Some(Json::from(args.clone())),
        read_only: false,
    }
}

/// To do anything else.
pub(crate) fn other(call: &str, tool: &str, description: &str, args: &Value) -> PermissionRequest {
    PermissionRequest::CustomTool {
        tool_call_id: Some(ToolCallId::from(call)),
        tool_name: tool.to_owned(),
        tool_description: description.to_owned(),
        args: Some(Json::from(args.clone())),
    }
}

/// A file longer than this is not read for a diff that nobody would read either.
const LONGEST_FILE: usize = 1024 * 1024;

/// To replace a file by `new`. [`with_difference`] shows what is lost.
pub(crate) fn replace(call: &str, path: &str, new: &str, intention: &str) -> PermissionRequest {
    let mut request = write(call, path, String::new(), intention);
    if let PermissionRequest::Write { new_file_contents, .. } = &mut request {
        *new_file_contents = Some(new.to_owned());
    }
    request
}

/// The request with the difference that replacing a file makes. The file is looked at as it is now, so that the person
/// who decides sees what is lost; one that is no regular file, or too long, is shown as if it were new.
pub(crate) async fn with_difference(mut request: PermissionRequest, cwd: &Path) -> PermissionRequest {
    if let PermissionRequest::Write { file_name, diff, new_file_contents, .. } = &mut request
        && diff.is_empty()
        && let Some(new) = new_file_contents.take()
    {
        let full = cwd.join(&*file_name);
        let read = blocking::run(move || {
            let old = untrusted::read_named(&full, LONGEST_FILE).ok().filter(|old| !old.is_cut);
            let old = old.and_then(|old| old.into_text().ok());
            unified_diff(&full, old.as_deref(), &new)
        });
        *diff = read.await.unwrap_or_else(|error| format!("(cannot be shown: {error})"));
    }
    request
}

/// To replace a part of a file by another.
pub(crate) fn edit(call: &str, cwd: &Path, path: &str, parts: &[(&str, &str)]) -> PermissionRequest {
    let diffs: Vec<String> =
        parts.iter().map(|(old, new)| unified_diff(&cwd.join(path), Some(old), new)).collect();
    write(call, path, diffs.join("\n"), "")
}
