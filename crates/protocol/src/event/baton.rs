//! Baton's own events: what the SDKs' vocabulary has no word for, and durability needs.
//!
//! They share the session's one sequence, are exported and shown by Baton's own doors, and are left out of what SDK
//! clients see.
#![allow(missing_docs, reason = "the struct says what its fields are about")]

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

/// When a prompt is to reach the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendMode {
    /// After the prompts before it.
    #[default]
    Enqueue,
    /// With the next model call of the running turn.
    Immediate,
    /// Not at all: it is a slash command, which is run when the turns before it are over.
    Command(Runner),
}

/// Who runs a slash command that waits in the inbox. Settled when it is accepted, so that a command which a client was
/// to run waits for one after a restart, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    Server,
    Clients,
}

/// What a client sends for the model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    pub text: String,
    /// What people are shown instead of the text.
    pub display: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    #[serde(default)]
    pub mode: SendMode,
    pub agent_mode: Option<AgentMode>,
    /// The sender's own name for this sending: the same key again is the same prompt again, not another one.
    pub key: Option<String>,
    /// HTTP headers for the model calls of this prompt. Never stored: they may hold credentials.
    #[serde(skip)]
    pub request_headers: BTreeMap<String, String>,
}

/// A prompt was accepted. It is durable from here on, and has exactly one [`TurnSettled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptAccepted {
    pub prompt_id: PromptId,
    pub prompt: Prompt,
}

/// A prompt that waits was put before another one; without one, at the end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptMoved {
    pub prompt_id: PromptId,
    pub before: Option<PromptId>,
}

/// A prompt that waits was replaced by another wording of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptAmended {
    pub prompt_id: PromptId,
    pub prompt: Prompt,
}

/// Whether prompts that wait have their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// They have it, one after the other.
    #[default]
    Open,
    /// Not before somebody sends something.
    UntilNext,
    /// Not before somebody says so.
    UntilReleased,
}

/// Somebody holds back what waits, or lets it go on. What steers a running turn is not held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueHeld {
    pub hold: Hold,
}

/// How an accepted prompt ended (P5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The model has answered, or a tool or a person ended the turn.
    Completed,
    /// It could not be done.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// The server stopped, or the last client left, in the middle.
    Interrupted,
}

/// The one terminal outcome of the prompts that a turn worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSettled {
    pub prompt_ids: Vec<PromptId>,
    pub outcome: Outcome,
    /// Why, for people.
    pub reason: String,
}

/// Something waits for an answer that the SDKs' vocabulary calls ephemeral, and we do not (P3).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOpened {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    pub question: Question,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// Something that only the user knows.
    UserInput(UserQuestion),
    /// Whether a plan is good, and how to go on with it.
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

/// A model may not be asked for a while, and somebody is to say whether the turn goes on with another.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchOffered {
    pub request_id: RequestId,
    /// The other model.
    pub model: String,
    pub retry_after_seconds: Option<u64>,
    /// What everybody is told if nobody wants the other model.
    pub error: SessionError,
}

/// It was answered, or is not waited for any more.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestClosed {
    pub request_id: RequestId,
    pub answer: Option<Json>,
}

/// Something joined the conversation that no user wrote and no tool returned, such as a hook's advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextAdded {
    pub source: String,
    pub content: String,
}

/// A turn begins that no prompt has asked for: a client has started a sub-agent in a session at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnOpened {
    pub interaction_id: String,
}

/// Nobody wants to hear of a sub-agent that has ended any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentForgotten {
    pub agent_id: AgentId,
}

/// Another agent's program works on the turn that has just begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTurn {
    pub engine: String,
}

/// The program has named its own conversation, with which it can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineThread {
    pub engine: String,
    pub token: String,
}

/// What the program has used since it last said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineUsage {
    pub model: String,
    pub tokens: TokenCounts,
}

/// A person has run a command in the session's directory. The model is told with the next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellRun {
    pub command: String,
    pub output: String,
    pub exit_code: i32,
}

/// A hook has changed the arguments of a call; the model is shown the new ones from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAmended {
    pub tool_call_id: ToolCallId,
    pub arguments: Json,
}

/// Grants changed: one was given, or one was revoked. With neither, all were revoked.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalsChanged {
    pub approval: Option<Approval>,
    /// The location that the grant was stored for as well.
    pub location_key: Option<String>,
    /// The event that gave the grant which is revoked.
    pub revoked: Option<EventId>,
    pub by: Option<Author>,
}

/// The standing rules of the session changed; these hold from here on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RulesChanged {
    /// Shared with the session's state, and small where events are moved.
    pub rules: Arc<Rules>,
    pub by: Option<Author>,
}

/// The session has another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Renamed {
    pub name: String,
    /// Whether a person chose it; such a name is not replaced by an automatic one.
    pub by_user: bool,
}

/// The newest part of the history was taken back. Nothing is erased: the events from the one named here up to this one
/// stay where they are, and are not part of the session any more. What has been spent and what was set stay as they are:
/// it is the conversation that goes back.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryTruncated {
    /// The first event that is taken back, as whoever asked for it named it.
    pub from_event_id: EventId,
    /// The place in the sequence from which on everything is taken back.
    pub from_seq: u64,
    /// How many events that SDK clients had seen are taken back.
    pub events_removed: u64,
    /// The last event that SDK clients still see.
    pub last_kept: Option<EventId>,
    /// Whether anything that a user said is left.
    pub has_prompts: bool,
}

/// From here on the session keeps what files were before its own tools change them. Said before the first turn, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileTrackingBegun {}

/// What a file was before somebody changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Preimage {
    /// There was none.
    Absent,
    /// A copy of it is kept under the SHA-256 of what is in it.
    Kept { digest: String, size: u64, mode: u32 },
    /// It could not be kept.
    NotKept { why: String },
}

/// One file that a tool may be about to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Absolute, and where links lead.
    pub path: String,
    pub before: Preimage,
}

/// A tool is about to run that may change these files. Not said again for those that are what a tool of this turn last made of
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesKept {
    pub files: Vec<KeptFile>,
}

/// One file that a tool has changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    pub path: String,
    /// The SHA-256 of what is in it now; none if it is gone.
    pub after: Option<String>,
    /// How it differs from what it was when it was last kept.
    pub lines_added: u64,
    pub lines_removed: u64,
}

/// What a tool that has run made of the files that were kept before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesChanged {
    pub files: Vec<ChangedFile>,
    /// Those that it left as they were. Their copies are not needed for it. One that is named nowhere here was kept for a call
    /// that something cut off: nobody knows what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
}

/// What one model call cost, kept with the answer.
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
