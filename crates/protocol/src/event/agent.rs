//! Events of sub-agents: conversations inside a session that work on a task of the main one. What happens in them is
//! told by the usual events, with the agent's id on the envelope.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;

/// Whether the one who hands on a task waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// The call that started the agent ends with it.
    #[default]
    Sync,
    /// The call has ended at once; the model is told when the agent is done.
    Background,
}

/// A sub-agent begins to work.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentStarted {
    /// The call of the main conversation that it works for.
    pub tool_call_id: ToolCallId,
    /// What kind of agent it is.
    pub agent_name: String,
    pub agent_display_name: String,
    pub agent_description: String,
    pub model: Option<String>,
    #[serde(default)]
    pub execution_mode: ExecutionMode,
}

/// A sub-agent has done its work, or was told to stop.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentCompleted {
    pub tool_call_id: ToolCallId,
    pub agent_name: String,
    pub agent_display_name: String,
    pub model: Option<String>,
    pub cancelled: Option<bool>,
    pub total_tool_calls: Option<u64>,
    pub duration_ms: Option<u64>,
}

/// A sub-agent could not do its work.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentFailed {
    pub tool_call_id: ToolCallId,
    pub agent_name: String,
    pub agent_display_name: String,
    pub error: String,
    pub model: Option<String>,
    pub total_tool_calls: Option<u64>,
    pub duration_ms: Option<u64>,
}

/// A custom agent was chosen for the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentSelected {
    pub agent_name: String,
    pub agent_display_name: String,
    /// The tools that it may use; none means all.
    pub tools: Option<Vec<String>>,
}

/// The conversation is the default agent's again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubagentDeselected {}
