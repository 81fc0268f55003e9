//! Events about the session itself: its life, its settings, what people are told.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::{EventId, SessionId};
use crate::json::Json;
use crate::time::Timestamp;

/// Where a session works: its directory, and the repository around it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkContext {
    pub cwd: String,
    pub git_root: Option<String>,
    pub repository: Option<String>,
    pub repository_host: Option<String>,
    pub host_type: Option<String>,
    pub branch: Option<String>,
    pub base_commit: Option<String>,
    pub head_commit: Option<String>,
}

/// The first event of every session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStart {
    pub session_id: SessionId,
    pub version: u32,
    pub producer: String,
    pub copilot_version: String,
    pub start_time: Timestamp,
    pub selected_model: Option<String>,
    pub reasoning_effort: Option<String>,
    pub context: Option<WorkContext>,
    pub remote_steerable: Option<bool>,
    pub already_in_use: Option<bool>,
}

/// A client came (back) to a session that existed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionResume {
    pub resume_time: Timestamp,
    pub event_count: u64,
    pub selected_model: Option<String>,
    pub reasoning_effort: Option<String>,
    pub context: Option<WorkContext>,
    pub already_in_use: Option<bool>,
    pub session_was_active: Option<bool>,
    pub continue_pending_work: Option<bool>,
}

/// The session was closed; its history stays.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionShutdown {
    pub shutdown_type: ShutdownType,
    pub error_reason: Option<String>,
    pub total_premium_requests: f64,
    pub total_api_duration_ms: u64,
    pub session_start_time: i64,
    pub code_changes: CodeChanges,
    pub model_metrics: Json,
    pub current_model: Option<String>,
}

/// How a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShutdownType {
    Routine,
    Error,
}

/// What a session did to files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeChanges {
    pub lines_added: u64,
    pub lines_removed: u64,
    pub files_modified: Vec<String>,
}

/// Something worth knowing.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub info_type: String,
    pub message: String,
    pub url: Option<String>,
    pub tip: Option<String>,
}

/// Something that may need attention.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWarning {
    pub warning_type: String,
    pub message: String,
    pub url: Option<String>,
}

/// Something failed. Inside a turn, the turn ends with it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionError {
    pub error_type: String,
    pub message: String,
    pub error_code: Option<String>,
    /// Where it comes from, for whoever looks closer: the end of what a program wrote to stderr, say.
    pub stack: Option<String>,
    pub status_code: Option<u16>,
    pub provider_call_id: Option<String>,
    pub url: Option<String>,
}

/// Another model, or another effort, from here on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChange {
    pub previous_model: Option<String>,
    pub new_model: String,
    pub previous_reasoning_effort: Option<String>,
    pub reasoning_effort: Option<String>,
    pub reasoning_summary: Option<String>,
    pub source: Option<String>,
    pub cause: Option<String>,
}

/// How much the agent may do on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    #[default]
    Interactive,
    Plan,
    Autopilot,
    Shell,
}

/// The mode changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeChanged {
    pub previous_mode: AgentMode,
    pub new_mode: AgentMode,
}

/// Whether tools are asked for, or allowed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    #[default]
    Manual,
    Assisted,
    AllowAll,
}

/// The permission mode changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsChanged {
    pub previous_mode: PermissionMode,
    pub mode: PermissionMode,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileOperation {
    Create,
    Update,
    Delete,
}

/// Why a conversation is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// It fills more of the model's window than was set.
    Threshold,
    /// Somebody wants it.
    Manual,
    /// Another model has a smaller window.
    ModelSwitch,
    ContextLimitRetry,
    MemoryPressure,
}

/// The conversation up to here is being summarised.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionStart {
    pub system_tokens: Option<u64>,
    pub conversation_tokens: Option<u64>,
    pub tool_definitions_tokens: Option<u64>,
    pub current_tokens: Option<u64>,
    pub token_limit: Option<u64>,
    pub model: Option<String>,
    pub trigger: Option<CompactionTrigger>,
}

/// The conversation up to the last [`CompactionStart`] was summarised: for the model, the summary stands in its place from
/// here on. If that failed, everything stays as it was.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionComplete {
    pub success: bool,
    pub error: Option<String>,
    pub summary_content: Option<String>,
    pub pre_compaction_tokens: Option<u64>,
    pub post_compaction_tokens: Option<u64>,
    pub pre_compaction_messages_length: Option<u64>,
    pub messages_removed: Option<u64>,
    pub tokens_removed: Option<i64>,
    pub system_tokens: Option<u64>,
    pub conversation_tokens: Option<u64>,
    pub tool_definitions_tokens: Option<u64>,
    pub token_limit: Option<u64>,
    pub checkpoint_number: Option<u64>,
    pub checkpoint_path: Option<String>,
    pub custom_instructions: Option<String>,
    pub trigger: Option<CompactionTrigger>,
    pub compaction_tokens_used: Option<CompactionTokens>,
}

/// What a summary cost.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionTokens {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub duration: u64,
    pub model: Option<String>,
}

/// The newest part of the history was taken back, from this event on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRewind {
    pub up_to_event_id: EventId,
    pub events_removed: u64,
}

/// The plan file changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChanged {
    pub operation: FileOperation,
}

/// A file of the session's workspace changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceFileChanged {
    pub operation: FileOperation,
    pub path: String,
}

/// The session works somewhere else now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContextChanged(pub WorkContext);

/// Nothing is running and nothing is queued. The last event of every send.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionIdle {
    pub aborted: Option<bool>,
}

/// The title shown in lists of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleChanged {
    pub title: String,
}

/// How full the model's context is.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageInfo {
    pub token_limit: u64,
    pub current_tokens: u64,
    pub messages_length: u64,
    pub system_tokens: Option<u64>,
    pub conversation_tokens: Option<u64>,
    pub tool_definitions_tokens: Option<u64>,
    pub is_initial: Option<bool>,
}

/// The set of tools that the model is offered has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsUpdated {
    pub model: String,
}

/// The to-do table of the session changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TodosChanged {}

/// What the attached clients can show has changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapabilitiesChanged {
    pub ui: Option<UiCapabilities>,
}

/// What the attached clients can show.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiCapabilities {
    pub elicitation: Option<bool>,
    pub mcp_apps: Option<bool>,
    pub canvases: Option<bool>,
}
