//! Baton's own events, for facts that must be durable and that the SDKs' vocabulary cannot express.
//!
//! They are part of the session's one sequence, are exported and shown by Baton's own APIs, and are not sent
//! to SDK clients.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::plan::ProposedPlan;
use super::session::{AgentMode, SessionError};
use crate::attachment::Attachment;
use crate::ids::{AgentId, Author, EventId, PromptId, RequestId, ToolCallId};
use crate::json::Json;
use crate::permission::Approval;
use crate::rules::Rules;
use crate::sandbox::SandboxChoice;

/// When a prompt reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendMode {
    /// After the prompts before it.
    #[default]
    Enqueue,
    /// With the next model call of the running turn.
    Immediate,
    /// Never: it is a slash command, executed after the turns before it.
    Command(Runner),
}

/// Executor of a queued slash command. Decided at acceptance, so that a command for a client still waits for
/// a client after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    Server,
    Clients,
}

/// A prompt or command, as sent by a client.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    pub text: String,
    /// Text to show to people instead of the prompt.
    pub display: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    #[serde(default)]
    pub mode: SendMode,
    pub agent_mode: Option<AgentMode>,
    /// The sender's idempotency key: a second send with the same key is the same prompt.
    pub key: Option<String>,
    /// The sender; none in histories of older versions.
    pub by: Option<Author>,
    /// HTTP headers for the model calls of this prompt. Never stored: they may contain credentials.
    #[serde(skip)]
    pub request_headers: BTreeMap<String, String>,
}

/// A prompt was accepted. It is durable from here on, and exactly one [`TurnSettled`] follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptAccepted {
    pub prompt_id: PromptId,
    pub prompt: Prompt,
}

/// A queued prompt was moved before another one, or to the end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptMoved {
    pub prompt_id: PromptId,
    pub before: Option<PromptId>,
}

/// The text of a queued prompt was replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptAmended {
    pub prompt_id: PromptId,
    pub prompt: Prompt,
}

/// Whether the queue is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Queued prompts run one after the other.
    #[default]
    Open,
    /// Held until a client sends a prompt.
    UntilNext,
    /// Held until a client releases the queue.
    UntilReleased,
}

/// The queue was held or released. Prompts that steer a running turn are not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueHeld {
    pub hold: Hold,
}

/// These queued items are held until a client releases the queue: the turn before them was cancelled. Later prompts are not
/// held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptsHeld {
    pub prompt_ids: Vec<PromptId>,
}

/// The outcome of an accepted prompt (P5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The model responded, or a tool or a user ended the turn.
    Completed,
    /// An error ended the turn.
    Failed,
    /// The prompt was cancelled.
    Cancelled,
    /// The server stopped, or the last client left, during the turn.
    Interrupted,
}

/// The final outcome of the prompts of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSettled {
    pub prompt_ids: Vec<PromptId>,
    pub outcome: Outcome,
    /// The reason, for people.
    pub reason: String,
}

/// A request was opened that is ephemeral in the SDKs' vocabulary, and durable here (P3).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOpened {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    pub question: Question,
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// A question to the user.
    UserInput(UserQuestion),
    /// Approval of a plan.
    Plan(ProposedPlan),
}

/// A question of the model to the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    pub question: String,
    pub choices: Option<Vec<String>>,
    pub allow_freeform: Option<bool>,
}

/// The model is rate limited; the request asks whether to continue with the fallback model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchOffered {
    pub request_id: RequestId,
    /// The fallback model.
    pub model: String,
    pub retry_after_seconds: Option<u64>,
    /// The error to report if the fallback model is declined.
    pub error: SessionError,
}

/// A remote MCP server needs a login. Pending until it is closed, also across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginRequested {
    pub request_id: RequestId,
    pub server_name: String,
    pub server_url: String,
    /// `initial`, `refresh`, `reauth` or `upscope`.
    pub reason: String,
}

/// The request was answered or dropped.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestClosed {
    pub request_id: RequestId,
    pub answer: Option<Json>,
    /// Who answered. None if nobody did, and in histories of older versions.
    pub by: Option<Author>,
}

/// Context was added to the conversation by neither the user nor a tool, such as the output of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextAdded {
    pub source: String,
    pub content: String,
}

/// A turn started without a prompt: a client started a sub-agent in an idle session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnOpened {
    pub interaction_id: String,
}

/// The result of an ended sub-agent is no longer needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentForgotten {
    pub agent_id: AgentId,
}

/// The turn that just started is run by an external agent program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTurn {
    pub engine: String,
}

/// The program reported the id of its own conversation, by which it can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineThread {
    pub engine: String,
    pub token: String,
}

/// Usage of the program since its last report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineUsage {
    pub model: String,
    pub tokens: TokenCounts,
}

/// A user ran a command in the session's directory. The model sees it with the next prompt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellRun {
    pub command: String,
    pub output: String,
    pub exit_code: i32,
    /// The user; none in histories of older versions.
    pub by: Option<Author>,
}

/// A user started a command without waiting for its end, or stopped it. The model does not see it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellStarted {
    pub command: String,
    /// Working directory, if it is not the session's.
    pub cwd: Option<String>,
    /// The user.
    pub by: Option<Author>,
}

/// A hook changed the arguments of a tool call; the model sees the new ones from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAmended {
    pub tool_call_id: ToolCallId,
    pub arguments: Json,
}

/// A grant was added or revoked. With neither, all were revoked.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalsChanged {
    pub approval: Option<Approval>,
    /// The location for which the grant was stored as well.
    pub location_key: Option<String>,
    /// The event that added the revoked grant.
    pub revoked: Option<EventId>,
    pub by: Option<Author>,
    /// For a tool of an MCP server: the digest of the server and tool that the user was shown.
    pub binding: Option<String>,
}

/// The session's rules changed; these replace the previous ones.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RulesChanged {
    /// In an `Arc`: shared with the session's state, and cheap to move.
    pub rules: Arc<Rules>,
    pub by: Option<Author>,
}

/// The sandbox of the session's programs was set.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxChanged {
    /// The policy from now on; none returns to that of the location or the configuration.
    pub choice: Option<SandboxChoice>,
    pub by: Option<Author>,
}

/// The session was renamed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Renamed {
    pub name: String,
    /// Whether a user chose the name; an automatic name never replaces it.
    pub by_user: bool,
    /// Who renamed it; none for an automatic name, and in histories of older versions.
    pub by: Option<Author>,
}

/// The conversation was rewound. Nothing is erased: the events from `from_seq` up to this one stay in the
/// history, but are no longer part of the conversation. Usage and settings are not rewound.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryTruncated {
    /// The first rewound event, as named by the client.
    pub from_event_id: EventId,
    /// Sequence number of the first rewound event.
    pub from_seq: u64,
    /// Number of rewound events that SDK clients had seen.
    pub events_removed: u64,
    /// The last event that SDK clients still see.
    pub last_kept: Option<EventId>,
    /// Whether any user message is left.
    pub has_prompts: bool,
    /// Who rewound it; none in histories of older versions.
    pub by: Option<Author>,
}

/// Token counts of one model call, stored with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenCounts {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub duration_ms: u64,
}
