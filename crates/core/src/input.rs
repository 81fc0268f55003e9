//! What can happen to a session. What its own work comes back with is in [`crate::results`].

use baton_protocol::event::{
    AbortReason, AgentMode, Body, HistoryTruncated, PermissionMode, PlanAnswer, Prompt, ShutdownType,
    SwitchAnswer, WorkContext,
};
use baton_protocol::permission::Verdict;
use baton_protocol::rules::RulesEdit;
use baton_protocol::tool::{Command, ToolResult, ToolSpec};
use baton_protocol::{AgentId, Author, ClientId, EventId, Json, PromptId, RequestId};

use crate::output::{ReplyTo, WorkId};
use crate::results::{Delegation, EngineReport, WorkResult};

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
    /// Somebody has a slash command wait for its turn among the prompts.
    Enqueue {
        /// Told once it is accepted.
        reply: ReplyTo,
        /// The command as it is typed, with its slash.
        command: String,
    },
    /// Somebody rearranges what waits.
    Arrange {
        /// Told what came of it.
        reply: ReplyTo,
        /// How.
        how: Box<Arrangement>,
    },
    /// A client runs whatever commands come to their turn, or does not any more.
    Host {
        /// Which client.
        client: ClientId,
        /// Its name for the offer: it may make several, and takes them back one by one.
        handle: String,
        /// Whether it makes the offer.
        offers: bool,
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
    /// A client sees to offers of another model by itself, when the events tell it of one, and wants nobody to be asked
    /// directly.
    Listen {
        /// Told the name of this wish.
        reply: ReplyTo,
        /// Which.
        client: ClientId,
    },
    /// It does not any more.
    StopListening {
        /// Told whether there was such a wish.
        reply: ReplyTo,
        /// Its name.
        listener: String,
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

/// A change of what waits. What has been begun with, and what steers a turn, is not waiting any more.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrangement {
    /// Another place for one; a place behind the last is the last.
    Move(PromptId, usize),
    /// One more prompt, at a place.
    Insert(Prompt, usize),
    /// The same once more, right behind it.
    Duplicate(PromptId),
    /// Other words for one.
    Reword {
        /// Which.
        prompt: PromptId,
        /// What the model is given.
        text: String,
        /// What people are shown instead.
        display: Option<String>,
    },
    /// One joins the running turn instead.
    Steer(PromptId),
    /// All of it is held back, or goes on.
    Hold(bool),
}

/// Which waiting prompts are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// The one that came last.
    Newest,
    /// This one.
    One(PromptId),
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
    /// Whether it can be asked to approve a plan.
    pub plan_approval: bool,
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
    /// To a permission request, and who gives it.
    Permission(Verdict, Author),
    /// To a permission request, by a client that was told to approve whatever comes: counts where allow-all would.
    ApproveUnattended,
    /// To a call of a client's tool.
    Tool(ToolResult),
    /// To a question to the user.
    UserInput {
        /// What the user said.
        answer: String,
        /// Whether they typed it, rather than chose it.
        was_freeform: bool,
    },
    /// To whatever the user is asked, by a client that could not ask them.
    NoUser,
    /// To a form.
    Elicitation(Elicited),
    /// To a plan.
    Plan(PlanAnswer),
    /// To the offer of another model.
    Switch(SwitchAnswer),
    /// To a command.
    Command {
        /// Who says so: SDKs answer for commands that they do not have, too.
        by: ClientId,
        /// What went wrong, if anything.
        error: Option<String>,
    },
    /// To a command that had waited for its turn, and whether what waits behind it is to go on waiting.
    QueuedCommand {
        /// Whether it was run.
        handled: bool,
        /// Whether nothing more is begun with before somebody sends something.
        stop: bool,
    },
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
    /// The standing rules change.
    Rules {
        /// How.
        edit: Box<RulesEdit>,
        /// Who changes them.
        by: Author,
    },
    /// Grants are revoked.
    Revoke {
        /// Which; none means all.
        grant: Option<EventId>,
        /// Who revokes them.
        by: Author,
    },
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
