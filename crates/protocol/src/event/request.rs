//! Events of requests: questions that wait for a client.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::{Author, RequestId, SessionId, ToolCallId};
use crate::json::Json;
use crate::permission::{PermissionOutcome, PermissionRequest};
use crate::sandbox::Wall;
use crate::tool::SlashCommand;

/// A tool call waits for permission.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequested {
    pub request_id: RequestId,
    pub permission_request: PermissionRequest,
    /// The request in the vocabulary of prompts, from [`PermissionRequest::as_prompt`].
    pub prompt_request: Option<Json>,
    pub resolved_by_hook: Option<bool>,
    /// Whether a hook requires a user to decide: no client may approve it on its own.
    pub requires_user: Option<bool>,
    /// The wall of the sandbox that a program has met while its call ran. The call itself does not wait for the answer.
    /// Specific to Baton.
    #[serde(rename = "batonWall")]
    pub wall: Option<Wall>,
}

/// A permission request was decided, by a client or by a rule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionCompleted {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    pub result: PermissionOutcome,
    /// Who decided; none for a rule, and for a request that was withdrawn. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
}

/// A client tool was called.
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

/// A client tool returned, or its request was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalToolCompleted {
    pub request_id: RequestId,
}

/// The user was asked a question.
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

/// The user answered the question.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputCompleted {
    pub request_id: RequestId,
    pub answer: Option<String>,
    pub was_freeform: Option<bool>,
}

/// The user was asked to fill in a form.
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

/// A form was submitted, declined or dropped.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationCompleted {
    pub request_id: RequestId,
    pub action: Option<String>,
    pub content: Option<Json>,
}

/// An MCP server asks for an answer of the session's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SamplingRequested {
    pub request_id: RequestId,
    pub server_name: String,
    pub mcp_request_id: String,
    pub request: Json,
}

/// The request was answered or dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SamplingCompleted {
    pub request_id: RequestId,
}

/// The model is rate limited: the user is asked whether to continue with the fallback model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoModeSwitchRequested {
    pub request_id: RequestId,
    pub error_code: Option<String>,
    pub retry_after_seconds: Option<u64>,
}

/// The request for a fallback model was answered or dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoModeSwitchCompleted {
    pub request_id: RequestId,
    pub response: SwitchAnswer,
}

/// Whether to continue with the fallback model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchAnswer {
    /// Now.
    Yes,
    /// Now, and in future without asking.
    YesAlways,
    No,
}

/// A queued slash command is at the head of the queue; its runner executes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandQueued {
    pub request_id: RequestId,
    pub command: String,
}

/// A slash command of a client was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecute {
    pub request_id: RequestId,
    pub command: String,
    pub command_name: String,
    pub args: String,
}

/// A slash command of a client ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandCompleted {
    pub request_id: RequestId,
}

/// The set of slash commands changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandsChanged {
    pub commands: Vec<SlashCommand>,
}
