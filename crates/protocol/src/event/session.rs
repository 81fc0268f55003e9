//! Events about the session itself: lifecycle, settings, notices.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::{Author, EventId, SessionId};
use crate::json::Json;
use crate::sandbox::SandboxChoice;
use crate::time::Timestamp;

/// Where a session works: its directory, and the surrounding repository.
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

/// The session was created. The first event of every session.
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
    /// Who created it; none in histories of older versions. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
    /// Sandbox of the session's programs, if the session was created with one of its own. Specific to Baton.
    #[serde(rename = "batonSandbox")]
    pub sandbox: Option<SandboxChoice>,
}

/// A client resumed an existing session.
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

/// The session was closed; its history remains.
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

/// Changes that a session made to files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeChanges {
    pub lines_added: u64,
    pub lines_removed: u64,
    pub files_modified: Vec<String>,
}

/// Information for the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub info_type: String,
    pub message: String,
    pub url: Option<String>,
    pub tip: Option<String>,
}

/// A warning for the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWarning {
    pub warning_type: String,
    pub message: String,
    pub url: Option<String>,
}

/// An error. Inside a turn, it ends the turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionError {
    pub error_type: String,
    pub message: String,
    pub error_code: Option<String>,
    /// Details for diagnosis, such as the last lines of a program's stderr.
    pub stack: Option<String>,
    pub status_code: Option<u16>,
    pub provider_call_id: Option<String>,
    pub url: Option<String>,
}

/// The model or its reasoning effort changed.
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
    /// Who changed it; none for the server itself, and in histories of older versions. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
}

/// How autonomously the agent works.
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeChanged {
    pub previous_mode: AgentMode,
    pub new_mode: AgentMode,
    /// Who changed it; none in histories of older versions. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
}

/// Whether tools need permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    #[default]
    Manual,
    Assisted,
    AllowAll,
}

/// The permission mode changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsChanged {
    pub previous_mode: PermissionMode,
    pub mode: PermissionMode,
    /// Who changed it; none in histories of older versions. Specific to Baton.
    #[serde(rename = "batonBy")]
    pub by: Option<Author>,
}

/// The kind of change to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileOperation {
    Create,
    Update,
    Delete,
}

/// The reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The conversation exceeds the configured part of the model's context window.
    Threshold,
    /// Requested by a client.
    Manual,
    /// The new model has a smaller context window.
    ModelSwitch,
    ContextLimitRetry,
    MemoryPressure,
}

/// Compaction of the conversation so far started.
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

/// Compaction ended: for the model, the summary replaces everything before the last [`CompactionStart`]. If
/// compaction failed, nothing changes.
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

/// Token usage of a compaction.
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

/// The conversation was rewound to before this event.
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

/// The session's working directory changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContextChanged(pub WorkContext);

/// Nothing is running and the queue is empty. The last event of every send.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionIdle {
    pub aborted: Option<bool>,
}

/// The title in lists of sessions changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleChanged {
    pub title: String,
}

/// Usage of the model's context window.
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

/// The set of tools available to the model changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsUpdated {
    pub model: String,
}

/// The session's to-do list changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TodosChanged {}

/// The UI capabilities of the attached clients changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapabilitiesChanged {
    pub ui: Option<UiCapabilities>,
}

/// UI capabilities of the attached clients.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiCapabilities {
    pub elicitation: Option<bool>,
    pub mcp_apps: Option<bool>,
    pub canvases: Option<bool>,
}
