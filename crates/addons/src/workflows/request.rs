//! Requests of clients about the workflows of a session. The server that holds the session serves them.

use baton_protocol::workflow::{Limits, Vocabulary};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::ReportedLine;
use super::shown::Page;

/// A request about the workflows of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowRequest {
    /// Names that the client knows.
    pub vocabulary: Vocabulary,
    /// The request.
    pub action: WorkflowAction,
}

/// What is requested.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are those of the wire; the variants are documented")]
pub enum WorkflowAction {
    /// Starts a run. Replies its state when it is durable, before it has ended.
    Start { name: String, args: Value, limits: Limits },
    /// Starts a run again that has failed or was interrupted, with its arguments and journal. Replies the name of its
    /// workflow and its state.
    Resume { run: String, limits: Limits },
    /// Replies the state of a run.
    Get { run: String },
    /// Describes a run with its phases and its newest progress.
    Describe { run: String },
    /// Replies a page of a run's progress.
    Progress { run: String, page: Page },
    /// Lists the newest runs, the newest first.
    List { limit: usize },
    /// Cancels a run. Replies its outcome, which may be another if it ended first.
    Cancel { run: String },
    /// Adds lines that the code of a run reports.
    Log { run: String, token: String, lines: Vec<ReportedLine> },
    /// Looks up the result of a step.
    Recall { run: String, token: String, key: String },
    /// Records the result of a step.
    Record { run: String, token: String, key: String, result: Value },
    /// Runs a sub-agent for the code of a run, and replies its answer. It ends with the execution.
    Agent { run: String, token: String, task: AgentTask },
    /// Replies the events of the runs that were interrupted when this server took the session over.
    Interrupted {},
}

impl WorkflowAction {
    /// Whether asking twice is harmless.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Get { .. }
            | Self::Describe { .. }
            | Self::Progress { .. }
            | Self::List { .. }
            | Self::Cancel { .. }
            | Self::Recall { .. }
            | Self::Interrupted {} => true,
            Self::Start { .. }
            | Self::Resume { .. }
            | Self::Log { .. }
            | Self::Record { .. }
            | Self::Agent { .. } => false,
        }
    }
}

/// A task that the code of a run gives to a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// Kind of the agent.
    pub agent_type: String,
    /// The task.
    pub prompt: String,
    /// Display name.
    pub label: Option<String>,
    /// Model, in place of the kind's.
    pub model: Option<String>,
}

/// Why a request about workflows failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowError {
    /// Code that SDKs compare.
    pub code: Option<String>,
    /// Message for people.
    pub message: String,
}

impl WorkflowError {
    /// Creates an error with a code that SDKs compare.
    #[must_use]
    pub fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { code: Some(code.to_owned()), message: message.into() }
    }

    /// Creates an error without a code.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into() }
    }

    pub(super) fn not_found(run: &str) -> Self {
        Self::coded("not_found", format!("this session has no run \"{run}\""))
    }

    pub(super) fn not_active(run: &str) -> Self {
        Self::coded("not_active", format!("run \"{run}\" is not executed with this token"))
    }

    pub(super) fn storage(why: String) -> Self {
        Self::coded("factory_storage_unavailable", why)
    }
}
