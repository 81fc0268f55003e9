//! Values inside asks and replies.

use baton_protocol::event::{AgentMode, Body, PermissionMode, PlanAnswer, SwitchAnswer, WorkContext};
use baton_protocol::permission::Verdict;
use baton_protocol::rules::RulesEdit;
use baton_protocol::sandbox::SandboxChoice;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, ClientId, EventId, Json, PromptId};
use serde::{Deserialize, Serialize};

/// Queued items to withdraw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawn {
    /// The last one of the queue.
    Newest,
    /// This one. A command that was started can be withdrawn, too, once all its runners have disconnected.
    One(PromptId),
    /// The whole queue.
    All,
}

/// An answer to a pending request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestAnswer {
    /// Answers a permission request; with the author of the verdict.
    Permission(Verdict, Author),
    /// Answers a permission request for a client that approves everything; with the person whose client it is, if known.
    /// Counts where allow-all mode would allow the request.
    ApproveUnattended(Author),
    /// Answers a call of a client tool.
    Tool(ToolResult),
    /// Answers a question to the user.
    UserInput {
        /// The user's answer.
        answer: String,
        /// Whether the user typed it, rather than chose it.
        was_freeform: bool,
    },
    /// Answers a question, plan or request for a fallback model for a client that could not reach the user.
    NoUser,
    /// Answers a form.
    Elicitation(Elicited),
    /// Answers an MCP server's request for an answer of the model; none declines it.
    Sampling(Option<Json>),
    /// Declines a login.
    NoLogin,
    /// Answers a plan.
    Plan(PlanAnswer),
    /// Answers the request whether a fallback model continues the turn.
    Switch(SwitchAnswer),
    /// Reports the result of a client's slash command.
    Command {
        /// The reporting client. SDKs report commands that they do not have, too.
        by: ClientId,
        /// Error of the command, if it failed.
        error: Option<String>,
    },
    /// Reports the result of a queued command.
    QueuedCommand {
        /// Whether the command was run.
        handled: bool,
        /// Whether to pause the queue until the next prompt.
        stop: bool,
    },
}

/// Whether an answer counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// The answer counts.
    Counted,
    /// The request was answered or closed before.
    TooLate,
    /// The request does not exist, and was not closed recently.
    NoSuchRequest,
    /// The answer is of another kind than the request.
    Mismatch,
    /// The answer names a grant that was not offered, and why it was not. The request is still open.
    NotOffered(String),
    /// The answer was not accepted, and why. The request is still open.
    Refused(String),
}

/// Result of a sub-agent that a client's code has awaited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Its last message.
    pub answer: String,
    /// Why it did not complete its task.
    pub error: Option<String>,
}

/// Whether a program in the sandbox may connect to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    /// It may.
    Allowed,
    /// It may not, and why.
    Denied {
        /// The reason, for the model and for people.
        reason: String,
    },
}

/// What happens to a file that was moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileVerdict {
    /// A person is asked.
    Asked,
    /// It is moved back.
    Restored,
    /// It is deleted: a deny rule names it.
    Dropped,
}

/// Result of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elicited {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The values of the form.
    pub content: Option<Json>,
}

impl Elicited {
    /// Returns the result of a form that no attached client can show any more.
    #[must_use]
    pub fn cancelled() -> Self {
        Self { action: "cancel".into(), content: None }
    }
}

/// A change of a session's settings, or a note for its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Sets the model, from the next round on.
    Model {
        /// Name of the model.
        model: String,
        /// Its reasoning effort.
        reasoning_effort: Option<String>,
    },
    /// Sets the agent mode.
    Mode(AgentMode),
    /// Sets whether tools need permission.
    Permissions(PermissionMode),
    /// Sets the sandbox of the session's programs, from the next call on; none returns to that of the location or the
    /// configuration.
    Sandbox(Option<Box<SandboxChoice>>),
    /// Edits the standing rules.
    Rules {
        /// The edit.
        edit: Box<RulesEdit>,
        /// Its author.
        by: Author,
    },
    /// Revokes grants.
    Revoke {
        /// The grant, by the event that gave it; none means all.
        grant: Option<EventId>,
        /// The author of the change.
        by: Author,
    },
    /// Renames the session.
    Name {
        /// The name.
        name: String,
        /// Whether a user chose it. A generated name does not replace a user's.
        by_user: bool,
    },
    /// Sets the working directory and what belongs to it.
    Context(WorkContext),
    /// Logs a message to the session.
    Log {
        /// Severity.
        level: LogLevel,
        /// The message.
        message: String,
        /// Link to further information.
        url: Option<String>,
        /// Whether to show the message without recording it.
        ephemeral: bool,
    },
    /// Records an event made outside the session, such as a change of its plan file.
    Noted(Box<Body>),
    /// Shows such an event without recording it.
    Shown(Box<Body>),
}

/// Severity of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Information.
    Info,
    /// May need attention.
    Warning,
    /// A failure.
    Error,
}
