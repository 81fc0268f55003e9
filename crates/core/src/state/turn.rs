//! A turn: the work that a prompt causes, until its outcome.

use std::sync::Arc;

use baton_protocol::event::{AgentMode, SwitchOffered};
use baton_protocol::{AgentId, PromptId};
use serde::{Deserialize, Serialize};

use super::{Call, SubAgent};

/// The running turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The prompt that opened the turn, and those that steered it. Empty for a turn that a client's sub-agent opened.
    pub prompts: Vec<PromptId>,
    /// Id of the turn on the wire.
    pub interaction: String,
    /// The engine that works on the turn; none for Baton's own rounds of model and tools.
    pub engine: Option<String>,
    /// Number of rounds of the main conversation.
    pub rounds: u32,
    /// Stage of the main conversation.
    pub stage: Stage,
    /// Tool calls of the current rounds: of the main conversation and of sub-agents.
    pub calls: Vec<Call>,
    /// Agent mode that the prompts asked for; none means the session's.
    #[serde(default)]
    pub mode: Option<AgentMode>,
    /// Why the turn ends with its current calls, if it does: one was rejected, or a plan was approved for later.
    #[serde(alias = "rejected")]
    pub stop: Option<String>,
    /// Sub-agents that were started in the turn. Shared, because answers can be long and each step copies the state.
    #[serde(default)]
    pub agents: Vec<Arc<SubAgent>>,
    /// Whether a notification was recorded since the last model call: the model is called once more for it.
    #[serde(default, rename = "has_news")]
    pub has_notification: bool,
    /// The pending request whether a fallback model continues the turn.
    #[serde(default, rename = "offer")]
    pub fallback_request: Option<SwitchOffered>,
    /// Whether a fallback model was chosen since the last model answer. There is no second one in a row: if two models
    /// fail, the turn fails.
    #[serde(default)]
    pub switched: bool,
}

impl Turn {
    /// Returns the number of rounds of a conversation: the main one, or a sub-agent's.
    #[must_use]
    pub fn rounds_of(&self, agent: Option<&AgentId>) -> u32 {
        match agent {
            None => self.rounds,
            Some(id) => self.agent(id).map_or(0, |agent| agent.rounds),
        }
    }

    /// Returns the name of the current round of a conversation on the wire.
    #[must_use]
    pub fn round_name(&self, agent: Option<&AgentId>) -> String {
        self.rounds_of(agent).saturating_sub(1).to_string()
    }

    /// Returns the calls that are not done.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| !call.stage.is_done())
    }

    /// Returns the calls of a conversation: the main one, or a sub-agent's.
    pub fn calls_of(&self, agent: Option<&AgentId>) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.agent.as_ref() == agent)
    }

    /// Returns a sub-agent of the turn.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&SubAgent> {
        self.agents.iter().map(|agent| &**agent).find(|agent| agent.id == *id)
    }

    /// Returns the sub-agents that have not ended.
    pub fn working_agents(&self) -> impl Iterator<Item = &SubAgent> {
        self.agents.iter().map(|agent| &**agent).filter(|agent| agent.ending.is_none())
    }
}

/// Stage of a conversation within a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Between rounds: the next round starts, or the turn ends.
    Ready,
    /// A model call is running.
    #[serde(rename = "Asking")]
    CallingModel,
    /// The model has answered, and its calls are being worked on.
    Acting,
}
