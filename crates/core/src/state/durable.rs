//! The durable half: the fold of all recorded events.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use baton_protocol::event::{
    AgentMode, Hold, LoginRequested, PermissionMode, Prompt, TokenCounts, WorkContext,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::rules::Rules;
use baton_protocol::sandbox::{SandboxChoice, Wall};
use baton_protocol::{EventId, Json, PromptId, RequestId, Timestamp};
use rpds::QueueSync;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Live, SubAgent, Turn};
use crate::policy::Grant;
use crate::policy::territory::Territory;
use crate::removed::Removed;

/// Durable state of a session.
///
/// It is small, however long the history. The shell stores a snapshot of it from time to time, so that opening a
/// session folds only the events after the snapshot. Field names are part of that format.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Durable {
    /// Sequence number of the last event.
    pub seq: u64,
    /// The last event that SDK clients see: the parent of the next one.
    pub last_public: Option<EventId>,
    /// Creation time of the session.
    pub started: Timestamp,
    /// Settings.
    pub facts: Facts,
    /// Accepted prompts and commands that have not entered a turn, in the order in which they will.
    pub inbox: QueueSync<Accepted>,
    /// Whether the queue is paused.
    pub hold: Hold,
    /// The running turn.
    pub turn: Option<Turn>,
    /// The latest sub-agents of earlier turns, newest last, so that their answers can still be read.
    pub agents: VecDeque<Arc<SubAgent>>,
    /// Latest idempotency keys of senders, with the prompts they belong to, newest last.
    pub keys: QueueSync<(String, PromptId)>,
    /// Grants, oldest first.
    #[serde(alias = "approvals")]
    pub grants: Vec<Grant>,
    /// Standing rules. Durable, because a crash must not drop a deny rule.
    pub rules: Arc<Rules>,
    /// Pending logins at MCP servers. They belong to no turn: a turn goes on without the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logins: Vec<Arc<LoginRequested>>,
    /// Pending requests of programs in the sandbox. They belong to no stage of a call: the program may have stopped waiting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub walls: Vec<Arc<WallRequest>>,
    /// Answers about origins that programs in the sandbox may reach, or may not, until a turn ends.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, Admission>,
    /// Usage so far.
    pub totals: Totals,
    /// Parts of the history removed by rewinds.
    pub removed: Removed,
}

impl Durable {
    /// Returns the latest sub-agents, those of the running turn last.
    pub fn known_agents(&self) -> impl DoubleEndedIterator<Item = &SubAgent> {
        let now = self.turn.iter().flat_map(|turn| &turn.agents);
        self.agents.iter().chain(now).map(|agent| &**agent)
    }

    /// Whether items of the queue are held because the turn before them was cancelled.
    #[must_use]
    pub fn holds_prompts(&self) -> bool {
        self.inbox.iter().any(|item| item.held)
    }

    /// Returns the files that grants cover. `resolved` is the working directory with its links resolved; without it,
    /// the directory is taken as it is named.
    #[must_use]
    pub fn territory<'a>(&'a self, live: &'a Live, resolved: Option<&'a Path>) -> Territory<'a> {
        let cwd = resolved.unwrap_or_else(|| Path::new(&self.facts.context.cwd));
        Territory {
            cwd,
            home: live.home.as_deref(),
            workspace: live.workspace.as_deref(),
            engine_files: &live.engine_files,
        }
    }

    /// Returns a pending request of a program in the sandbox.
    #[must_use]
    pub fn wall_of(&self, request: &RequestId) -> Option<&Arc<WallRequest>> {
        self.walls.iter().find(|wall| wall.request == *request)
    }

    /// Returns the agent mode in effect: that of the running turn, or the session's.
    #[must_use]
    pub fn mode(&self) -> AgentMode {
        self.turn.as_ref().and_then(|turn| turn.mode).unwrap_or(self.facts.mode)
    }
}

/// A pending request of a program in the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WallRequest {
    /// Its id.
    pub request: RequestId,
    /// What permission is asked for.
    pub wants: PermissionRequest,
    /// What the program wants.
    pub wall: Wall,
}

/// Answer of a person about an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// Programs may reach it.
    Admitted,
    /// They may not, and need not ask again.
    Denied,
}

/// Durable settings of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Model; none means the server's default.
    pub model: Option<String>,
    /// Reasoning effort of the model.
    pub reasoning_effort: Option<String>,
    /// Agent mode.
    pub mode: AgentMode,
    /// Permission mode.
    pub permissions: PermissionMode,
    /// Name, if the session was given one.
    pub name: Option<String>,
    /// Whether a user chose the name.
    pub named_by_user: bool,
    /// Start of the first prompt, which lists show for a session without a name.
    pub title: Option<String>,
    /// Working directory and repository.
    pub context: WorkContext,
    /// Whether turns continue with a fallback model without asking.
    pub switches_always: bool,
    /// Ids that engines gave this conversation, by engine.
    pub threads: BTreeMap<String, String>,
    /// Number of compactions.
    pub summaries: u32,
    /// Whether files are snapshotted before tools change them.
    pub tracks_files: bool,
    /// Sandbox of the session's programs; none means that of the location or the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxChoice>,
}

/// A prompt or command in the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its id.
    pub id: PromptId,
    /// The prompt as it was sent.
    pub prompt: Arc<Prompt>,
    /// Whether it waits for a release of the queue, because the turn before it was cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

/// Usage of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Number of prompts that have an outcome.
    pub prompts: u64,
    /// Number of calls and tokens by model.
    pub models: BTreeMap<String, (u64, TokenCounts)>,
}

impl Totals {
    /// Returns the time spent in model calls, in milliseconds.
    #[must_use]
    pub fn model_time_ms(&self) -> u64 {
        self.models.values().fold(0, |sum, (_, tokens)| sum.saturating_add(tokens.duration_ms))
    }

    /// Returns the number of calls and tokens by model, in the form for clients.
    #[must_use]
    pub fn model_metrics(&self) -> Json {
        let models = self.models.iter().map(|(model, (calls, tokens))| {
            let usage = json!({
                "inputTokens": tokens.input,
                "outputTokens": tokens.output,
                "cacheReadTokens": tokens.cache_read,
                "cacheWriteTokens": tokens.cache_write,
                "reasoningTokens": tokens.reasoning,
            });
            (model.clone(), json!({ "requests": { "count": calls, "cost": 0 }, "usage": usage }))
        });
        Json::from(Value::Object(models.collect()))
    }
}
