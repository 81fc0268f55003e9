//! Events of requests: whatever waits for an answer from outside.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::{RequestId, SessionId, ToolCallId};
use crate::json::Json;
use crate::permission::{PermissionOutcome, PermissionRequest};
use crate::tool::Command;

/// A tool may not run before somebody allows it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequested {
    pub request_id: RequestId,
    pub permission_request: PermissionRequest,
    /// The same in the words of prompts: see [`PermissionRequest::as_prompt`].
    pub prompt_request: Option<Json>,
    pub resolved_by_hook: Option<bool>,
}

/// Somebody, or a rule, has decided.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionCompleted {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    pub result: PermissionOutcome,
}

/// A client's tool is called.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalToolRequested {
    pub request_id: RequestId,
    pub session_id: SessionId,
    pub tool_call_id: ToolCallId,
    pub tool_name: String,
    pub arguments: Option<Json>,
    pub working_directory: Option<String>,
    pub traceparent: Option<String>,
    pub tracestate: Option<String>,
}

/// A client's tool has answered, or is not waited for any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalToolCompleted {
    pub request_id: RequestId,
}

/// The user is asked something.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputRequested {
    pub request_id: RequestId,
    pub question: String,
    pub choices: Option<Vec<String>>,
    pub allow_freeform: Option<bool>,
    pub tool_call_id: Option<ToolCallId>,
}

/// The user has answered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputCompleted {
    pub request_id: RequestId,
    pub answer: Option<String>,
    pub was_freeform: Option<bool>,
}

/// A form is to be filled in.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationRequested {
    pub request_id: RequestId,
    pub message: String,
    pub mode: Option<String>,
    pub requested_schema: Option<Json>,
    pub elicitation_source: Option<String>,
    pub tool_call_id: Option<ToolCallId>,
    pub url: Option<String>,
}

/// A form was filled in, declined or dropped.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationCompleted {
    pub request_id: RequestId,
    pub action: Option<String>,
    pub content: Option<Json>,
}

/// A model may not be asked for a while: should another be?
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoModeSwitchRequested {
    pub request_id: RequestId,
    pub error_code: Option<String>,
    pub retry_after_seconds: Option<u64>,
}

/// Somebody has said whether, or it is not waited for any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoModeSwitchCompleted {
    pub request_id: RequestId,
    pub response: SwitchAnswer,
}

/// Whether to go on with another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchAnswer {
    /// Now.
    Yes,
    /// Now, and from now on without being asked.
    YesAlways,
    No,
}

/// It is the turn of a slash command that waited, and whoever has said that they run such commands is to run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandQueued {
    pub request_id: RequestId,
    pub command: String,
}

/// A client's slash command is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecute {
    pub request_id: RequestId,
    pub command: String,
    pub command_name: String,
    pub args: String,
}

/// A client's slash command is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandCompleted {
    pub request_id: RequestId,
}

/// The set of slash commands has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandsChanged {
    pub commands: Vec<Command>,
}
