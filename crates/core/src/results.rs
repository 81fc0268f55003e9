//! What the work of a session comes back with: answers of models, calls that are understood, what engines do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_protocol::event::{
    AssistantUsage, ExecutionMode, Question, SessionError, TokenCounts, ToolRequest, UserQuestion,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Json, ToolCallId};

use crate::policy::Advice;

/// What work comes back with. Each variant answers the [`Work`](crate::Work) of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkResult {
    /// The prompt, ready for the model.
    PreparePrompt(PreparedPrompt),
    /// What a command says to the user, if anything; or why it could not be run.
    RunCommand(Result<Option<String>, String>),
    /// What the model said.
    Ask(Box<Said>),
    /// The model could not be asked.
    AskFailed(Box<Unanswered>),
    /// What a call would do.
    PrepareCall(Prepared),
    /// What a call gave: of a built-in tool, or of a client's after hooks and limits had their say.
    RunTool(ToolResult),
    /// Whether a grant for a location is stored, or why not.
    SaveGrant(Result<(), String>),
    /// Whether the turn may end; otherwise what the model is told to go on with.
    Review(Option<String>),
    /// An engine has done its work, or what kept it from it.
    Drive(Result<(), SessionError>),
    /// A question could not be delivered; it stays open for the next client that can show it.
    Undelivered,
}

/// A prompt, ready for the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreparedPrompt {
    /// What the user wrote, or what a hook made of it.
    pub content: String,
    /// What the model is given.
    pub transformed: Option<String>,
    /// Further messages that go before it, with where they come from.
    pub context: Vec<(String, String)>,
    /// Further messages that go after it, with where they come from.
    pub reminders: Vec<(String, String)>,
    /// The system text, when it differs from the last one recorded.
    pub system: Option<String>,
    /// The engine that is to work on it; none means our own rounds of model and tools.
    pub engine: Option<String>,
}

/// What an engine does, as far as a session is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineReport {
    /// It has named its conversation.
    Thread(String),
    /// It says something.
    Said {
        /// Its name; the same as that of the pieces streamed before.
        message_id: String,
        /// The text.
        text: String,
        /// What was thought before it.
        reasoning: Option<String>,
        /// Which model.
        model: Option<String>,
    },
    /// It begins to do something.
    CallStarted {
        /// Its name for it.
        call: ToolCallId,
        /// What.
        tool: String,
        /// With what.
        arguments: Json,
    },
    /// It is done with it.
    CallFinished {
        /// Which.
        call: ToolCallId,
        /// What came of it.
        result: ToolResult,
    },
    /// It asks whether it may.
    Wants {
        /// Its name for the question.
        reference: String,
        /// The call it is about, if it has begun.
        call: Option<ToolCallId>,
        /// What it wants.
        wants: Box<PermissionRequest>,
        /// The working directory with its links resolved, where that is known.
        cwd: Option<PathBuf>,
    },
    /// It asks the user.
    Asks {
        /// Its name for the question.
        reference: String,
        /// The question.
        question: UserQuestion,
    },
    /// It does not wait for this answer any more.
    Withdrawn {
        /// Its name for the question.
        reference: String,
    },
    /// What it has used since it last said so.
    Used {
        /// Which model; the engine's name where it does not say.
        model: Option<String>,
        /// How much.
        tokens: TokenCounts,
    },
    /// Something worth knowing.
    Note {
        /// Whether it needs attention.
        warning: bool,
        /// In words for people.
        text: String,
    },
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// Its name for the message; the same as that of the pieces streamed before.
    pub message_id: String,
    /// Text.
    pub text: String,
    /// What it thought.
    pub reasoning: Option<String>,
    /// Opaque state of the provider.
    pub reasoning_opaque: Option<String>,
    /// Where it found what it says, in the form for clients.
    pub citations: Option<Json>,
    /// The calls it makes.
    pub tool_requests: Vec<ToolRequest>,
    /// Those of them that are over as soon as they have begun, because there is no such tool and nobody else to ask.
    pub refused: BTreeMap<ToolCallId, ToolResult>,
    /// Which model.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub api_call_id: Option<String>,
    /// What it cost, for clients.
    pub usage: AssistantUsage,
    /// What it cost, for the record.
    pub tokens: TokenCounts,
}

/// What became of a question that a model did not answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unanswered {
    /// Why.
    pub error: SessionError,
    /// What it had said before it failed, with the name under which that was shown.
    pub partial: Option<(String, String)>,
    /// The model that could be asked instead.
    pub instead: Option<Instead>,
}

impl From<SessionError> for Unanswered {
    fn from(error: SessionError) -> Self {
        Self { error, ..Self::default() }
    }
}

/// A model that could be asked instead of one that may not be asked for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instead {
    /// Which.
    pub model: String,
    /// How long the other one cannot be asked.
    pub retry_after_seconds: Option<u64>,
}

/// What a call would do, before anybody is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// It can be run.
    Runnable {
        /// By whom.
        route: Route,
        /// What the policy decides about first, if anything.
        wants: Option<PermissionRequest>,
        /// What a hook or the tool's declaration says about it.
        advice: Advice,
        /// The working directory with its links resolved, where that is known.
        cwd: Option<PathBuf>,
        /// The arguments, where a hook changed them.
        arguments: Option<Json>,
    },
    /// It is a question to the user.
    Question(Question),
    /// It hands a task on to a sub-agent.
    Delegate(Box<Delegation>),
    /// It is to be run once a sub-agent has ended, by this program.
    AfterAgent(AgentId),
    /// It is over already: unknown tool, bad arguments, refused by a hook.
    Finished(ToolResult),
}

/// A task for a sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegation {
    /// What kind of agent.
    pub kind: String,
    /// What the task is called.
    pub name: String,
    /// The task, in a few words.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// The system text that the agent works under.
    pub system: String,
    /// The model that it is asked with; none means the session's.
    pub model: Option<String>,
    /// Whether the main conversation waits for it.
    pub mode: ExecutionMode,
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// This program.
    BuiltIn,
    /// A client.
    Client,
}
