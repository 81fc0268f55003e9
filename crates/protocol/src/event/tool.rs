//! Events of tool calls and of the hooks around them.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;
use crate::json::Json;
use crate::tool::BinaryResult;

/// A tool call started. Exactly one [`ToolComplete`] follows, whatever happens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStart {
    pub tool_call_id: ToolCallId,
    pub tool_name: String,
    pub arguments: Option<Json>,
    pub turn_id: Option<String>,
    pub model: Option<String>,
    /// The tool call that the calling sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
    /// The MCP server, if the tool is one of its.
    pub mcp_server_name: Option<String>,
    /// Name of the tool on the MCP server.
    pub mcp_tool_name: Option<String>,
    /// Title of the tool, for people.
    pub tool_title: Option<String>,
}

/// A tool call ended.
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
    /// The tool call that the calling sub-agent works for.
    pub parent_tool_call_id: Option<ToolCallId>,
}

/// The result of a tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCompleteResult {
    /// Text for the model.
    pub content: String,
    /// Details for people, such as a diff.
    pub detailed_content: Option<String>,
    pub contents: Option<Json>,
    /// Structured content of an MCP tool, as its server sent it.
    pub structured_content: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_results_for_llm: Vec<BinaryResult>,
}

/// The error of a failed tool call. The model receives [`ToolCompleteResult::content`] if there is a result,
/// else the message.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCompleteError {
    pub message: String,
    pub code: Option<String>,
}

/// New output of a running tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolPartialResult {
    pub tool_call_id: ToolCallId,
    pub partial_output: String,
}

/// Progress of a running tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolProgress {
    pub tool_call_id: ToolCallId,
    pub progress_message: String,
}

/// A hook of a client was called.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookStart {
    pub hook_invocation_id: String,
    pub hook_type: String,
    pub input: Option<Json>,
}

/// A hook of a client returned.
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
