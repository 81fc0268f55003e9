//! What can happen to a session.

use std::collections::BTreeMap;

use baton_protocol::event::{
    AbortReason, AgentMode, AssistantUsage, Body, ExecutionMode, HistoryTruncated, PermissionMode, Prompt,
    Question, SessionError, ShutdownType, SwitchAnswer, TokenCounts, ToolRequest, WorkContext,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::{Command, ToolResult, ToolSpec};
use baton_protocol::{AgentId, ClientId, Json, RequestId, ToolCallId};

use crate::output::{ReplyTo, WorkId};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The session is made.
    Create {
        /// Where it works.
        context: WorkContext,
        /// The model it is to use.
        model: Option<String>,
        /// How hard it should think.
        reasoning_effort: Option<String>,
        /// The version of this program, for the record.
        version: String,
    },
    /// A client comes.
    Attach {
        /// Which.
        client: ClientId,
        /// What it brings. Replaces what the same client brought before.
        profile: Profile,
        /// How it comes.
        arrival: Arrival,
    },
    /// A client goes, with all it brought.
    Detach {
        /// Which.
        client: ClientId,
    },
    /// Somebody sends a prompt.
    Prompt {
        /// Told once it is accepted.
        reply: ReplyTo,
        /// What they send.
        prompt: Prompt,
    },
    /// Somebody takes back prompts that wait and have not been begun with.
    Withdraw {
        /// Told once they are out.
        reply: ReplyTo,
        /// Which.
        which: Withdrawn,
    },
    /// Somebody cancels what runs and what waits.
    Abort {
        /// Told once it is cancelled.
        reply: ReplyTo,
        /// Why.
        reason: AbortReason,
    },
    /// Somebody answers a request.
    Answer {
        /// Told whether the answer counts.
        reply: ReplyTo,
        /// Which request.
        request: RequestId,
        /// The answer.
        answer: Answer,
    },
    /// Somebody asks whoever is attached, and waits for the answer. Not part of any turn, and gone with the asker.
    Ask {
        /// Told what was answered.
        reply: ReplyTo,
        /// What.
        ask: Ask,
    },
    /// Somebody stops all work, to leave the session at rest for whoever comes next.
    Suspend {
        /// Told once it is at rest.
        reply: ReplyTo,
    },
    /// Somebody changes a setting, or notes something.
    Change {
        /// Told once it is changed.
        reply: ReplyTo,
        /// What.
        change: Change,
    },
    /// Somebody starts a sub-agent, in the background.
    StartAgent {
        /// Told its name.
        reply: ReplyTo,
        /// The task.
        task: Box<Delegation>,
    },
    /// Somebody stops one sub-agent.
    StopAgent {
        /// Told whether it was at work.
        reply: ReplyTo,
        /// Which.
        agent: AgentId,
    },
    /// The shell records something that changes nothing here, such as the call of a hook.
    Note {
        /// The sub-agent that it is about.
        agent: Option<AgentId>,
        /// What.
        body: Box<Body>,
    },
    /// Somebody goes back to before an event.
    Truncate {
        /// Whom to tell.
        reply: ReplyTo,
        /// Where to.
        cut: HistoryTruncated,
    },
    /// The shell shows something that is not recorded.
    Show(Box<Body>),
    /// Nobody wants the session to be live any longer.
    Close {
        /// Why, for the outcome of what was running.
        reason: String,
        /// Whether it ends as it should, or because something failed.
        shutdown: ShutdownType,
    },
    /// An engine that works on the turn says what it does.
    Reported {
        /// Which work.
        work: WorkId,
        /// What.
        report: Box<EngineReport>,
    },
    /// Work has come back.
    Finished {
        /// Which.
        work: WorkId,
        /// With what.
        result: Box<WorkResult>,
    },
}

/// Which waiting prompts are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// The one that came last.
    Newest,
    /// All of them.
    All,
}

/// What a client brings to a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Tools it runs.
    pub tools: Vec<ToolSpec>,
    /// Slash commands it runs.
    pub commands: Vec<Command>,
    /// Whether it can be asked questions on the user's behalf.
    pub user_input: bool,
    /// Whether it can show forms.
    pub elicitation: bool,
    /// Whether it can be asked to go on with another model.
    pub model_switch: bool,
    /// Whether it has hooks.
    pub hooks: bool,
}

/// How a client comes to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// It has just made the session.
    Made,
    /// It comes to a session that existed.
    Resumed {
        /// Whether to go on with what was pending when the last client left; `None` when the client did not say.
        continue_pending_work: Option<bool>,
        /// Whether to record that it came.
        record: bool,
        /// Where the session works now.
        context: Box<WorkContext>,
        /// Another model than before.
        model: Option<String>,
        /// Another effort than before.
        reasoning_effort: Option<String>,
    },
    /// It watches: nothing about the session changes.
    Watching,
}

/// What a client, or a tool server, may ask of the clients that are attached.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// To fill in a form.
    Elicitation {
        /// What it is about.
        message: String,
        /// JSON Schema of the form.
        schema: Option<Json>,
        /// Who wants to know.
        source: Option<String>,
    },
    /// To run a slash command.
    Command {
        /// Which.
        name: String,
        /// With what.
        args: String,
    },
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a permission request.
    Permission(Verdict),
    /// To a call of a client's tool.
    Tool(ToolResult),
    /// To a question to the user.
    UserInput {
        /// What the user said.
        answer: String,
        /// Whether they typed it, rather than chose it.
        was_freeform: bool,
    },
    /// To a question to the user, by a client that could not ask them.
    NoUser,
    /// To a form.
    Elicitation(Elicited),
    /// To the offer of another model.
    Switch(SwitchAnswer),
    /// To a command: what went wrong, if anything.
    Command(Option<String>),
}

/// What became of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elicited {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The form as it was filled in.
    pub content: Option<Json>,
}

/// A change of a session's settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Another model, from the next round on.
    Model {
        /// Its name.
        model: String,
        /// The effort that goes with it.
        reasoning_effort: Option<String>,
    },
    /// Another mode.
    Mode(AgentMode),
    /// Whether tools are asked for.
    Permissions(PermissionMode),
    /// Granted permissions are forgotten.
    ForgetApprovals,
    /// Another name.
    Name {
        /// The name.
        name: String,
        /// Whether a person chose it. An automatic name does not replace a person's.
        by_user: bool,
    },
    /// Another place to work.
    Context(WorkContext),
    /// A message for whoever reads the log.
    Log {
        /// How grave.
        level: LogLevel,
        /// The message.
        message: String,
        /// Something to read about it.
        url: Option<String>,
        /// Whether it is shown only, not recorded.
        ephemeral: bool,
    },
    /// A file of the session changed; see the events of that name.
    Noted(Box<Body>),
}

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Good to know.
    Info,
    /// May need attention.
    Warning,
    /// Something failed.
    Error,
}

/// What work comes back with. Each variant answers the [`Work`](crate::Work) of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkResult {
    /// The prompt, ready for the model.
    PreparePrompt(PreparedPrompt),
    /// What the model said.
    Ask(Box<Said>),
    /// The model could not be asked.
    AskFailed(Box<Unanswered>),
    /// What a call would do.
    PrepareCall(Prepared),
    /// What a call gave: of a built-in tool, or of a client's after hooks and limits had their say.
    RunTool(ToolResult),
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
    },
    /// It asks the user.
    Asks {
        /// Its name for the question.
        reference: String,
        /// The question.
        question: Question,
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
        /// What somebody has to allow first, if anything.
        wants: Option<PermissionRequest>,
        /// Whether somebody must decide even if a grant would cover it.
        always_ask: bool,
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
