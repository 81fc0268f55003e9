//! The part of the Agent Client Protocol, version 1, that Baton uses.
//!
//! Values are read as leniently as the official types read them: a field of the wrong type counts as missing, an item that
//! cannot be read is skipped, and what is required makes the message unreadable. Tests compare both.

use serde_json::{Value, json};

use super::tool_call::{ToolCall, ToolCallUpdate};
use crate::ToolServer;

/// Names of methods that the agent implements.
pub(super) mod methods {
    pub(in crate::acp) const INITIALIZE: &str = "initialize";
    pub(in crate::acp) const NEW: &str = "session/new";
    pub(in crate::acp) const LOAD: &str = "session/load";
    pub(in crate::acp) const RESUME: &str = "session/resume";
    pub(in crate::acp) const PROMPT: &str = "session/prompt";
    pub(in crate::acp) const CANCEL: &str = "session/cancel";
    pub(in crate::acp) const SET_CONFIG_OPTION: &str = "session/set_config_option";
    /// The method of older versions of the protocol.
    pub(in crate::acp) const SET_MODEL: &str = "session/set_model";
}

/// Names of methods that the client implements.
pub(super) mod client_methods {
    pub(in crate::acp) const UPDATE: &str = "session/update";
    pub(in crate::acp) const REQUEST_PERMISSION: &str = "session/request_permission";
}

/// Parameters of `initialize`. Baton offers no files and no terminals.
pub(super) fn initialize() -> Value {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        "clientInfo": {"name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// An MCP server that the agent starts.
pub(super) fn stdio_server(tools: &ToolServer) -> Value {
    json!({"name": tools.name, "command": tools.program, "args": tools.args, "env": []})
}

/// Parameters of `session/new`.
pub(super) fn new_session(cwd: &str, servers: &Value) -> Value {
    json!({"cwd": cwd, "mcpServers": servers})
}

/// Parameters of `session/load`.
pub(super) fn load_session(session: &str, cwd: &str, servers: &Value) -> Value {
    json!({"sessionId": session, "cwd": cwd, "mcpServers": servers})
}

/// Parameters of `session/resume`, which leave out an empty list.
pub(super) fn resume_session(session: &str, cwd: &str, servers: &Value) -> Value {
    let mut params = json!({"sessionId": session, "cwd": cwd});
    if servers.as_array().is_some_and(|servers| !servers.is_empty()) {
        params["mcpServers"] = servers.clone();
    }
    params
}

/// Parameters of `session/prompt`.
pub(super) fn prompt(session: &str, prompt: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})
}

/// How a conversation can be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// With `session/load`, which repeats the history.
    pub(super) load: bool,
    /// With `session/resume`, which does not.
    pub(super) resume: bool,
}

impl Capabilities {
    /// Reads the response to `initialize`.
    pub(super) fn read(result: &Value) -> Self {
        let capabilities = &result["agentCapabilities"];
        Self {
            load: capabilities["loadSession"] == true,
            resume: capabilities["sessionCapabilities"]["resume"].is_object(),
        }
    }
}

/// An update that Baton shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Update {
    Message { text: String, message: Option<String> },
    Thought(String),
    ToolCall(ToolCall),
    ToolCallUpdate(ToolCallUpdate),
    Plan(Vec<PlanEntry>),
}

/// An entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanEntry {
    pub(super) content: String,
    pub(super) is_completed: bool,
}

impl Update {
    /// Reads an update; `None` if it is of no interest.
    pub(super) fn read(update: &Value) -> Option<Self> {
        Some(match string(update, "sessionUpdate")? {
            "agent_message_chunk" => Self::Message {
                text: content_text(&update["content"])?,
                message: string(update, "messageId").map(str::to_owned),
            },
            "agent_thought_chunk" => Self::Thought(content_text(&update["content"])?),
            "tool_call" => Self::ToolCall(ToolCall::read(update)?),
            "tool_call_update" => Self::ToolCallUpdate(ToolCallUpdate::read(update)?),
            "plan" => {
                let entries = update["entries"].as_array()?.iter().filter_map(|entry| {
                    let is_completed = string(entry, "status")? == "completed";
                    Some(PlanEntry { content: string(entry, "content")?.to_owned(), is_completed })
                });
                Self::Plan(entries.collect())
            }
            _ => return None,
        })
    }
}

/// Returns a field that is a string, also an empty one.
pub(super) fn string<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// The text of a content block: empty for images, sounds and embedded resources. `None` if it is not a content block.
pub(super) fn content_text(block: &Value) -> Option<String> {
    match string(block, "type")? {
        "text" => string(block, "text").map(str::to_owned),
        "resource_link" => string(block, "uri").map(str::to_owned),
        "image" | "audio" | "resource" => Some(String::new()),
        _ => None,
    }
}

/// A permission request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PermissionRequest {
    pub(super) tool_call: ToolCallUpdate,
    pub(super) options: Vec<PermissionOption>,
}

/// An answer that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermissionOption {
    pub(super) id: String,
    pub(super) kind: PermissionOptionKind,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl PermissionRequest {
    /// Reads a request. One option that cannot be read makes the request unreadable: a request is answered as the agent
    /// meant it, or cancelled.
    pub(super) fn read(params: &Value) -> Option<Self> {
        string(params, "sessionId")?;
        Some(Self {
            tool_call: ToolCallUpdate::read(&params["toolCall"])?,
            options: params["options"]
                .as_array()?
                .iter()
                .map(PermissionOption::read)
                .collect::<Option<_>>()?,
        })
    }
}

impl PermissionOption {
    fn read(value: &Value) -> Option<Self> {
        let kind = match string(value, "kind")? {
            "allow_once" => PermissionOptionKind::AllowOnce,
            "allow_always" => PermissionOptionKind::AllowAlways,
            "reject_once" => PermissionOptionKind::RejectOnce,
            "reject_always" => PermissionOptionKind::RejectAlways,
            _ => return None,
        };
        Some(Self { id: string(value, "optionId")?.to_owned(), kind })
    }
}

/// The response to a permission request: the chosen option, or a cancellation.
pub(super) fn permission_response(option: Option<&str>) -> Value {
    match option {
        Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
