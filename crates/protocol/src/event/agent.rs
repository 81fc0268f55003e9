//! Events of sub-agents: conversations inside a turn that work on a task of the main one. Their content is
//! recorded in the usual events, with the agent's id in the envelope.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;

/// Whether a handoff blocks the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// The tool call that started the agent ends when the agent ends.
    #[default]
    Sync,
    /// The tool call returns at once; the model is notified when the agent ends.
    Background,
}

/// A sub-agent started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentStarted {
    /// The tool call of the main conversation that it works for.
    pub tool_call_id: ToolCallId,
    /// The kind of agent.
    pub agent_name: String,
    pub agent_display_name: String,
    pub agent_description: String,
    pub model: Option<String>,
    #[serde(default)]
    pub execution_mode: ExecutionMode,
}

/// A sub-agent completed its task, or was stopped.
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

/// A sub-agent failed.
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

/// A custom agent was selected for the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentSelected {
    pub agent_name: String,
    pub agent_display_name: String,
    /// The tools that it may use; `None` means all.
    pub tools: Option<Vec<String>>,
}

/// The default agent was selected again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubagentDeselected {}
