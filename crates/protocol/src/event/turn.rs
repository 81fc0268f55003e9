//! Events of a turn: the user's messages and the model's answers.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::baton::TokenCounts;
use super::session::AgentMode;
use crate::attachment::Attachment;
use crate::ids::{Author, PromptId, ToolCallId};
use crate::json::Json;

/// How a prompt reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The session was idle; the prompt started a turn at once.
    Idle,
    /// The prompt joined the running turn.
    Steering,
    /// The prompt was queued behind another turn.
    Queued,
}

/// A prompt became part of the conversation.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// The text of the user.
    pub content: String,
    /// The text for the model: the prompt with date, attachments and context.
    pub transformed_content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    pub agent_mode: Option<AgentMode>,
    pub delivery: Option<Delivery>,
    pub interaction_id: Option<String>,
    pub turn_id: Option<String>,
    pub source: Option<String>,
    /// The accepted prompt. Specific to Baton; absent in histories of other programs.
    pub message_id: Option<PromptId>,
}

/// The system prompt, recorded when it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemMessage {
    pub role: String,
    pub content: String,
}

/// A message to the model that the user did not write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemNotification {
    pub content: String,
    pub kind: Json,
}

/// A round started: one for every model call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    pub turn_id: String,
    pub interaction_id: Option<String>,
    pub model: Option<String>,
}

/// The model's reasoning, where the provider returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasoning {
    pub reasoning_id: String,
    pub content: String,
}

/// A tool call in a model's answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequest {
    pub tool_call_id: ToolCallId,
    pub name: String,
    /// The arguments as the model wrote them; a JSON string if they are not valid JSON.
    pub arguments: Option<Json>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The MCP server, if the tool is one of its.
    pub mcp_server_name: Option<String>,
    /// Name of the tool on the MCP server.
    pub mcp_tool_name: Option<String>,
    /// Title of the tool, for people.
    pub tool_title: Option<String>,
}

/// The model's answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    pub message_id: String,
    pub model: Option<String>,
    pub content: String,
    #[serde(default)]
    pub tool_requests: Vec<ToolRequest>,
    pub interaction_id: Option<String>,
    pub turn_id: Option<String>,
    pub reasoning_text: Option<String>,
    /// Opaque provider state that must be sent back with the message.
    pub reasoning_opaque: Option<String>,
    /// The model's sources. Passed through without interpretation, so any JSON is accepted.
    pub citations: Option<Json>,
    pub output_tokens: Option<u64>,
    pub api_call_id: Option<String>,
    pub request_id: Option<String>,
    /// The tool call that the answering sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
    /// Token counts of the call. Specific to Baton; absent in histories of other programs.
    #[serde(rename = "batonTokens")]
    pub tokens: Option<TokenCounts>,
}

/// A round ended: the model call and its tool calls.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    pub turn_id: String,
    pub model: Option<String>,
}

/// The running turn was cancelled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    pub reason: AbortReason,
    /// Who cancelled it. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
}

/// The reason of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    #[default]
    UserInitiated,
    RemoteCommand,
    UserAbort,
    AutopilotCreditLimit,
}

/// The agent's loop stopped.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantIdle {
    pub aborted: Option<bool>,
}

/// The queue changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PendingMessagesModified {}

/// Usage of a model call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantUsage {
    pub model: String,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub duration: Option<u64>,
    pub time_to_first_token_ms: Option<f64>,
    pub initiator: Option<String>,
    pub interaction_type: Option<String>,
    pub is_byok: Option<bool>,
    pub api_call_id: Option<String>,
    pub provider_call_id: Option<String>,
    pub api_endpoint: Option<String>,
    pub transport: Option<String>,
    pub finish_reason: Option<String>,
    pub reasoning_effort: Option<String>,
    pub num_tool_calls: Option<u64>,
    pub max_prompt_tokens: Option<u64>,
    /// The tool call that the calling sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
}

/// A streamed answer started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageStart {
    pub message_id: String,
}

/// A part of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageDelta {
    pub message_id: String,
    pub delta_content: String,
}

/// A part of streamed reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningDelta {
    pub reasoning_id: String,
    pub delta_content: String,
}

/// Everything that was streamed of an unfinished message, reasoning or tool output; one of the ids says of which. It replaces
/// the parts that the reader has: a reader that joins in the middle, or that has missed parts, gets it before the next part.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamSoFar {
    pub message_id: Option<String>,
    pub reasoning_id: Option<String>,
    pub tool_call_id: Option<ToolCallId>,
    pub text: String,
    /// Whether the beginning is missing, because the text is long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Number of bytes received of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingDelta {
    pub total_response_size_bytes: u64,
}

/// A part of the arguments of a streamed tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallDelta {
    pub tool_call_id: ToolCallId,
    pub tool_name: Option<String>,
    pub tool_type: Option<String>,
    pub input_delta: String,
}

/// A model call failed; it may be retried.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallFailure {
    pub source: String,
    pub model: Option<String>,
    pub status_code: Option<u16>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub duration_ms: Option<u64>,
    pub api_endpoint: Option<String>,
    pub is_byok: Option<bool>,
    /// Pause before the next attempt, zero if an engine does not tell it; absent after the last. Specific to Baton.
    #[serde(rename = "batonRetryInMs")]
    pub retry_in_ms: Option<u64>,
}
