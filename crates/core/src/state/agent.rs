//! Sub-agents.

use baton_protocol::event::ExecutionMode;
use baton_protocol::{AgentId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};

use super::Stage;

/// A sub-agent: a conversation inside a turn that works on a task of the main one. It ends with the turn at the latest,
/// and does not survive the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubAgent {
    /// Its id, never used again.
    pub id: AgentId,
    /// The call of the main conversation that started it.
    pub call: ToolCallId,
    /// Kind of agent.
    pub kind: String,
    /// Title of the task.
    pub name: String,
    /// Summary of the task.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Model; none means the session's.
    pub model: Option<String>,
    /// Whether the main conversation waits for it.
    pub mode: ExecutionMode,
    /// Number of rounds.
    pub rounds: u32,
    /// Stage of its conversation.
    pub stage: Stage,
    /// Number of tool calls.
    pub calls_made: u64,
    /// Its latest message.
    pub answer: String,
    /// Start time.
    pub started: Timestamp,
    /// Its end; none while it works.
    pub ending: Option<AgentEnding>,
}

/// End of a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentEnding {
    /// Time of the end.
    pub at: Timestamp,
    /// Outcome.
    pub outcome: AgentOutcome,
}

/// Outcome of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentOutcome {
    /// The task is done.
    Completed,
    /// The sub-agent was stopped.
    Cancelled,
    /// The task failed, and why.
    Failed(String),
}
