//! Events of tool calls and of hooks around them.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;
use crate::json::Json;
use crate::tool::BinaryResult;

/// A tool call begins. From here on it has exactly one [`ToolComplete`], whatever happens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStart {
    pub tool_call_id: ToolCallId,
    pub tool_name: String,
    pub arguments: Option<Json>,
    pub turn_id: Option<String>,
    pub model: Option<String>,
    /// The call that the calling sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
}

/// A tool call is over.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolComplete {
    pub tool_call_id: ToolCallId,
    pub success: bool,
    pub model: Option<String>,
    pub interaction_id: Option<String>,
    pub turn_id: Option<String>,
    pub result: Option<ToolCompleteResult>,
    pub error: Option<ToolCompleteError>,
    pub tool_telemetry: Option<Json>,
    /// The call that the calling sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
}

/// What a tool call gave.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCompleteResult {
    /// What the model is told.
    pub content: String,
    /// What a person may want to see besides, such as a diff.
    pub detailed_content: Option<String>,
    pub contents: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_results_for_llm: Vec<BinaryResult>,
}

/// Why a tool call failed. The model is told [`ToolCompleteResult::content`] if there is a result, else the message.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCompleteError {
    pub message: String,
    pub code: Option<String>,
}

/// New output of a tool that is still running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolPartialResult {
    pub tool_call_id: ToolCallId,
    pub partial_output: String,
}

/// How far a running tool has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolProgress {
    pub tool_call_id: ToolCallId,
    pub progress_message: String,
}

/// A client's hook is being called.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookStart {
    pub hook_invocation_id: String,
    pub hook_type: String,
    pub input: Option<Json>,
}

/// A client's hook has answered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookEnd {
    pub hook_invocation_id: String,
    pub hook_type: String,
    pub success: bool,
    pub output: Option<Json>,
    pub error: Option<Json>,
}
