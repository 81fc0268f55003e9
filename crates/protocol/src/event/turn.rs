//! Events of a turn: what the user said, what the model answered.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::baton::TokenCounts;
use super::session::AgentMode;
use crate::attachment::Attachment;
use crate::ids::{PromptId, ToolCallId};
use crate::json::Json;

/// How a prompt reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The session was idle; the prompt opened a turn at once.
    Idle,
    /// It joined the running turn.
    Steering,
    /// It waited for the turn before it.
    Queued,
}

/// A prompt has become part of the conversation.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// What the user wrote.
    pub content: String,
    /// What the model is given for it: the prompt with date, attachments and context around it.
    pub transformed_content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    pub agent_mode: Option<AgentMode>,
    pub delivery: Option<Delivery>,
    pub interaction_id: Option<String>,
    pub turn_id: Option<String>,
    pub source: Option<String>,
    /// The accepted prompt that this is. Ours; other histories have none.
    pub message_id: Option<PromptId>,
}

/// The system text the model is given, when it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemMessage {
    pub role: String,
    pub content: String,
}

/// Something the model is told that no user wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemNotification {
    pub content: String,
    pub kind: Json,
}

/// The model is asked. One of these for every model call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    pub turn_id: String,
    pub interaction_id: Option<String>,
    pub model: Option<String>,
}

/// What the model thought, where it says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasoning {
    pub reasoning_id: String,
    pub content: String,
}

/// One tool call that the model asks for.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequest {
    pub tool_call_id: ToolCallId,
    pub name: String,
    /// As the model wrote them; a JSON string when what it wrote is not JSON.
    pub arguments: Option<Json>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// What the model answered.
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
    /// Opaque state of the provider that must be sent back with the message.
    pub reasoning_opaque: Option<String>,
    /// Where the model found what it says. Nobody here reads it, so that it may be anything.
    pub citations: Option<Json>,
    pub output_tokens: Option<u64>,
    pub api_call_id: Option<String>,
    pub request_id: Option<String>,
    /// The call that the speaking sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
    /// What the call cost. Ours; other histories have none.
    #[serde(rename = "batonTokens")]
    pub tokens: Option<TokenCounts>,
}

/// The model call and its tools are over.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    pub turn_id: String,
    pub model: Option<String>,
}

/// Somebody cancelled the running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    pub reason: AbortReason,
}

/// Why a turn was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    #[default]
    UserInitiated,
    RemoteCommand,
    UserAbort,
    AutopilotCreditLimit,
}

/// The agent's loop has stopped.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantIdle {
    pub aborted: Option<bool>,
}

/// The queue of prompts changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PendingMessagesModified {}

/// What a model call cost.
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
    /// The call that the asking sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
}

/// A streamed answer begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageStart {
    pub message_id: String,
}

/// The next piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageDelta {
    pub message_id: String,
    pub delta_content: String,
}

/// The next piece of streamed reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningDelta {
    pub reasoning_id: String,
    pub delta_content: String,
}

/// How much of a streamed answer has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingDelta {
    pub total_response_size_bytes: u64,
}

/// The next piece of the arguments of a streamed tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallDelta {
    pub tool_call_id: ToolCallId,
    pub tool_name: Option<String>,
    pub tool_type: Option<String>,
    pub input_delta: String,
}

/// A model call failed; it may be tried again.
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
}
