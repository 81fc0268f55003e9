//! What a session is: the half that survives, and the half that does not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use baton_protocol::event::{
    AgentMode, ExecutionMode, Hold, PermissionMode, Prompt, Question, SendMode, SwitchOffered, TokenCounts,
    WorkContext,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::rules::Rules;
use baton_protocol::{
    AgentId, ClientId, EventId, Json, PromptId, RequestId, SessionId, Timestamp, ToolCallId,
};
use rpds::QueueSync;
use serde::{Deserialize, Serialize};

use crate::input::{Ask, Profile};
use crate::output::{ReplyTo, Work, WorkId};
use crate::policy::Grant;
use crate::policy::territory::Territory;
use crate::removed::Removed;

/// A session. See the crate's documentation.
///
/// Whoever makes a step durable keeps a copy from before it, to go back to. So a copy must be cheap: what can grow long
/// or large is shared between copies.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What survives.
    pub durable: Durable,
    /// What does not.
    pub live: Live,
}

impl Durable {
    /// The sub-agents that are known: those of the running turn last.
    pub fn known_agents(&self) -> impl DoubleEndedIterator<Item = &Delegate> {
        let now = self.turn.iter().flat_map(|turn| &turn.agents);
        self.agents.iter().chain(now).map(|agent| &**agent)
    }

    /// Which files grants reach, for a working directory whose links are resolved; as it is named, if that is not known.
    #[must_use]
    pub fn territory(&self, live: &Live, resolved: Option<&Path>) -> Territory {
        let cwd = resolved.unwrap_or_else(|| Path::new(&self.facts.context.cwd)).to_owned();
        let owned = |path: &Option<Arc<Path>>| path.as_deref().map(Path::to_owned);
        Territory { cwd, home: owned(&live.home), workspace: owned(&live.workspace) }
    }

    /// How much the agent may do on its own at this moment.
    #[must_use]
    pub fn mode(&self) -> AgentMode {
        self.turn.as_ref().and_then(|turn| turn.mode).unwrap_or(self.facts.mode)
    }
}

impl Session {
    /// A session whose events are about to be folded, or recorded for the first time.
    #[must_use]
    pub fn new(id: SessionId) -> Self {
        Self { id, durable: Durable::default(), live: Live::default() }
    }

    /// A session read back from its history. Nothing runs; what becomes of work that was under way is decided when the
    /// first client comes.
    #[must_use]
    pub fn recovered(id: SessionId, durable: Durable) -> Self {
        let mut session = Self { id, durable, live: Live::default() };
        session.live.is_recovered = session.is_busy();
        session
    }

    /// Whether anything runs or waits: a turn, or a prompt that has not had its turn.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.durable.turn.is_some() || !self.durable.inbox.is_empty()
    }

    /// What waits for its turn, in order: neither what has been begun with, nor what steers a turn.
    pub fn waiting(&self) -> impl Iterator<Item = &Accepted> {
        let queued = |waiting: &&Accepted| waiting.prompt.mode != SendMode::Immediate;
        self.durable.inbox.iter().filter(queued).filter(|waiting| !self.has_begun(waiting.id))
    }

    /// Whether something in the inbox has been begun with.
    #[must_use]
    pub fn has_begun(&self, id: PromptId) -> bool {
        let mut work = self.live.work.values();
        self.live.command == Some(id)
            || work.any(|work| match work {
                Work::PreparePrompt { prompt, .. } => *prompt == id,
                Work::RunCommand { command } => *command == id,
                _ => false,
            })
    }

    /// Whether a slash command is being run.
    #[must_use]
    pub fn is_running_command(&self) -> bool {
        let mut work = self.live.work.values();
        self.live.command.is_some() || work.any(|work| matches!(work, Work::RunCommand { .. }))
    }
}

/// What folding the recorded events gives. It is small whatever the length of the history, and a snapshot of it is
/// stored from time to time, so that opening a session costs what its recent part costs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Durable {
    /// How many events were folded; the sequence number of the last.
    pub seq: u64,
    /// The last event that SDK clients see: the parent of the next one.
    pub last_public: Option<EventId>,
    /// When the session was made.
    pub started: Timestamp,
    /// Settings that survive.
    pub facts: Facts,
    /// Prompts that were accepted and have not had their turn, in the order in which they are to have it.
    pub inbox: QueueSync<Accepted>,
    /// Whether they have it.
    pub hold: Hold,
    /// What is being worked on.
    pub turn: Option<Turn>,
    /// Sub-agents of turns that are over, newest last: a few, so that what came of them can still be asked for.
    pub agents: VecDeque<Arc<Delegate>>,
    /// Keys that senders gave their prompts, with the prompts, newest last.
    pub keys: QueueSync<(String, PromptId)>,
    /// Grants that people gave, oldest first.
    #[serde(alias = "approvals")]
    pub grants: Vec<Grant>,
    /// Standing rules that clients set. Durable, because a deny rule that a crash forgets denies nothing.
    pub rules: Arc<Rules>,
    /// What was used so far.
    pub totals: Totals,
    /// The parts of the history that were taken back.
    pub removed: Removed,
}

/// Settings of a session that survive it being closed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The chosen model; none means the default of the day.
    pub model: Option<String>,
    /// How hard it should think.
    pub reasoning_effort: Option<String>,
    /// How much the agent may do on its own.
    pub mode: AgentMode,
    /// Whether tools are asked for.
    pub permissions: PermissionMode,
    /// A name that somebody gave.
    pub name: Option<String>,
    /// Whether that was a person.
    pub named_by_user: bool,
    /// The beginning of the first prompt: what lists show when there is no name.
    pub title: Option<String>,
    /// Where it works.
    pub context: WorkContext,
    /// Whether turns go on with another model without anybody being asked, when one may not be asked for a while.
    pub switches_always: bool,
    /// Engines' own names of this conversation, by engine.
    pub threads: BTreeMap<String, String>,
    /// How many times the conversation was summarised.
    pub summaries: u32,
    /// Whether what files were is kept before they are changed.
    pub tracks_files: bool,
}

/// A prompt in the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its name.
    pub id: PromptId,
    /// What was sent.
    pub prompt: Arc<Prompt>,
}

/// What one prompt, and those that joined it, cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The prompt that opened it, and those that steered it.
    pub prompts: Vec<PromptId>,
    /// Its name on the wire.
    pub interaction: String,
    /// The engine that works on it; none means our own rounds of model and tools.
    pub engine: Option<String>,
    /// How many times the model has been asked.
    pub rounds: u32,
    /// Where it stands.
    pub stage: Stage,
    /// The tool calls of this round, and of the rounds that sub-agents are in.
    pub calls: Vec<Call>,
    /// The mode that its prompts asked for; none means the session's.
    #[serde(default)]
    pub mode: Option<AgentMode>,
    /// Why the turn must end once its calls are over: somebody rejected one of them, or approved a plan for later.
    #[serde(alias = "rejected")]
    pub stop: Option<String>,
    /// The sub-agents that were started in it. Shared, because answers can be long and a state is copied with every step.
    #[serde(default)]
    pub agents: Vec<Arc<Delegate>>,
    /// Whether the model has yet to be told something that happened while it was not asked.
    #[serde(default)]
    pub has_news: bool,
    /// Another model that somebody is to agree to, before it is asked.
    #[serde(default)]
    pub offer: Option<SwitchOffered>,
    /// Whether another model was taken since the last answer. A second one is not: if two cannot be asked, it is time to
    /// say so.
    #[serde(default)]
    pub switched: bool,
}

impl Turn {
    /// How many times the model of a conversation has been asked: of the main one, or of a sub-agent's.
    #[must_use]
    pub fn rounds_of(&self, agent: Option<&AgentId>) -> u32 {
        match agent {
            None => self.rounds,
            Some(id) => self.agent(id).map_or(0, |agent| agent.rounds),
        }
    }

    /// The wire's name of the current round of a conversation.
    #[must_use]
    pub fn round_name(&self, agent: Option<&AgentId>) -> String {
        self.rounds_of(agent).saturating_sub(1).to_string()
    }

    /// The calls that are not over.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| !call.stage.is_done())
    }

    /// The calls of one conversation: the main one, or a sub-agent's.
    pub fn calls_of(&self, agent: Option<&AgentId>) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.agent.as_ref() == agent)
    }

    /// A sub-agent of this turn.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Delegate> {
        self.agents.iter().map(|agent| &**agent).find(|agent| agent.id == *id)
    }

    /// The sub-agents that have not ended.
    pub fn working_agents(&self) -> impl Iterator<Item = &Delegate> {
        self.agents.iter().map(|agent| &**agent).filter(|agent| agent.ending.is_none())
    }
}

/// A sub-agent: a conversation of its own that works on a task of the main one. It lives no longer than the turn that it
/// was started in, and does not survive the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delegate {
    /// Its name, unique for ever.
    pub id: AgentId,
    /// The call of the main conversation that it works for.
    pub call: ToolCallId,
    /// What kind of agent it is.
    pub kind: String,
    /// What its task is called.
    pub name: String,
    /// Its task, in a few words.
    pub description: String,
    /// Its task.
    pub prompt: String,
    /// The model that it is asked with; none means the session's.
    pub model: Option<String>,
    /// Whether the main conversation waits for it.
    pub mode: ExecutionMode,
    /// How many times its model has been asked.
    pub rounds: u32,
    /// Where it stands.
    pub stage: Stage,
    /// How many calls it has made.
    pub calls_made: u64,
    /// What it said last.
    pub answer: String,
    /// When it began.
    pub started: Timestamp,
    /// How it ended, if it has.
    pub ending: Option<Ending>,
}

/// How a sub-agent ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// When.
    pub at: Timestamp,
    /// How.
    pub outcome: AgentOutcome,
}

/// What became of a sub-agent's task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentOutcome {
    /// It is done.
    Completed,
    /// Somebody stopped it.
    Cancelled,
    /// It could not be done, and why.
    Failed(String),
}

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Between rounds: the model is to be asked next, or the turn is to end.
    Ready,
    /// The model is being asked.
    Asking,
    /// The model has answered; its calls are being worked on.
    Acting,
}

/// Which call is meant. Models of different conversations give their calls the same names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// The sub-agent that makes it; none for the main conversation.
    pub agent: Option<AgentId>,
    /// The model's name for it.
    pub id: ToolCallId,
}

impl From<ToolCallId> for CallKey {
    /// A call of the main conversation.
    fn from(id: ToolCallId) -> Self {
        Self { agent: None, id }
    }
}

/// A tool call of the current round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The sub-agent that makes it; none for the main conversation.
    #[serde(default)]
    pub agent: Option<AgentId>,
    /// The model's name for it.
    pub id: ToolCallId,
    /// Which tool.
    pub tool: String,
    /// What the model gave it, or what a hook made of that.
    pub arguments: Option<Json>,
    /// Where it stands.
    pub stage: CallStage,
}

impl Call {
    /// Which call this is.
    #[must_use]
    pub fn key(&self) -> CallKey {
        CallKey { agent: self.agent.clone(), id: self.id.clone() }
    }
}

/// Where a tool call stands, as far as that is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallStage {
    /// It has begun. Whether its tool is running cannot be told from the history, so after a crash it counts as
    /// interrupted (P4).
    Started,
    /// Somebody must allow it. Nothing of it has run.
    AwaitingPermission {
        /// The request.
        request: RequestId,
        /// What it wants.
        wants: Box<PermissionRequest>,
    },
    /// A client must run it.
    AwaitingClient {
        /// The request.
        request: RequestId,
    },
    /// Somebody must answer a question.
    AwaitingAnswer {
        /// The request.
        request: RequestId,
        /// The question.
        question: Question,
    },
    /// It is over.
    Done {
        /// Whether it went well.
        success: bool,
    },
}

impl CallStage {
    /// The request that this call waits for, if it does.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        match self {
            Self::AwaitingPermission { request, .. }
            | Self::AwaitingClient { request }
            | Self::AwaitingAnswer { request, .. } => Some(request),
            Self::Started | Self::Done { .. } => None,
        }
    }

    /// Whether the call is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// What a session has used so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Prompts that have had their outcome.
    pub prompts: u64,
    /// By model: how often it was asked, and what that took.
    pub models: BTreeMap<String, (u64, TokenCounts)>,
}

impl Totals {
    /// How long models have been asked, in milliseconds.
    #[must_use]
    pub fn model_time_ms(&self) -> u64 {
        self.models.values().fold(0, |sum, (_, tokens)| sum.saturating_add(tokens.duration_ms))
    }
}

/// What exists only while the server does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Live {
    /// Who is attached, and what they bring.
    pub clients: BTreeMap<ClientId, Arc<Profile>>,
    /// Work that was started and has not come back. A result of work that is not listed here is ignored.
    pub work: BTreeMap<WorkId, Work>,
    /// Clients that run whatever commands come to their turn, by their names for that offer.
    pub hosts: BTreeMap<String, ClientId>,
    /// The command of the inbox that clients have been asked to run.
    pub command: Option<PromptId>,
    /// Who has been asked to run it.
    pub runners: BTreeSet<ClientId>,
    /// Requests whose answer has been taken and is being processed, with the caller who waits to hear that it counts.
    pub claimed: BTreeMap<RequestId, ReplyTo>,
    /// What clients have asked each other and nobody has answered, with those who wait for it.
    pub asks: BTreeMap<RequestId, (ReplyTo, Ask)>,
    /// Clients that see to offers of another model by themselves, by the names of these wishes.
    pub listeners: BTreeMap<String, ClientId>,
    /// Requests that were answered or closed not long ago, so that a late answer can be told apart from a wrong one.
    pub settled: BTreeSet<RequestId>,
    /// Requests that an engine waits for, with its own names for them.
    pub references: BTreeMap<RequestId, String>,
    /// Calls that stand for a question of an engine, and for nothing that it does.
    pub stand_ins: BTreeSet<ToolCallId>,
    /// Calls that wait for a sub-agent to end.
    pub awaiting_agents: BTreeMap<CallKey, AgentId>,
    /// Tools that left with their client since the model was last told.
    pub tools_gone: BTreeSet<String>,
    /// Whether the durable half was read back with a turn in it that nobody works on yet.
    pub is_recovered: bool,
    /// The last work id given out.
    pub last_work: u64,
    /// Whether the server was started to allow everything that no deny rule stands against.
    pub allow_all: bool,
    /// Baton's home: no grant reaches it.
    pub home: Option<Arc<Path>>,
    /// The session's own files in it, which grants do reach.
    pub workspace: Option<Arc<Path>>,
}

impl Live {
    /// Whether anybody is there to agree to another model: who can be asked, or who listens for such an offer.
    #[must_use]
    pub fn can_agree_to_switch(&self) -> bool {
        !self.listeners.is_empty() || self.clients.values().any(|client| client.model_switch)
    }

    /// The client that offers a tool, looked up at the moment of the call: the newest one that does.
    #[must_use]
    pub fn owner_of(&self, tool: &str) -> Option<ClientId> {
        self.clients.iter().rev().find(|(_, p)| p.tools.iter().any(|t| t.name == tool)).map(|(id, _)| *id)
    }
}
