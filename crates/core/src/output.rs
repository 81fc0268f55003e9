//! What a session does about what happens.

use baton_protocol::permission::{Approval, Verdict};
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Author, ClientId, Event, EventId, PromptId, RequestId};

use crate::input::Elicited;
use crate::state::CallKey;

/// One consequence of a step. The shell first makes all recorded events of a step durable, in one write; then it acts
/// on all outputs in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// An event for the history; shown to clients once it is durable.
    Record(Event),
    /// An event that is shown and forgotten.
    Show(Event),
    /// The answer to a caller.
    Reply(ReplyTo, Reply),
    /// Work to start.
    Start(WorkId, Work),
    /// Something to say to an engine that works.
    Tell(WorkId, EngineControl),
    /// Work to stop, with all its processes. Its result, if it still comes, is ignored.
    Stop(WorkId),
}

/// A caller who waits for an answer. What is behind the number is the shell's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// An answer to a caller. Once it is given, what it says is durable (P1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The prompt is accepted.
    Accepted(PromptId),
    /// What ran and waited is cancelled; `false` if there was nothing.
    Aborted {
        /// Whether there was anything to cancel.
        had_work: bool,
    },
    /// The sub-agent has begun.
    AgentStarted(AgentId),
    /// The client listens, by this name.
    Listening(String),
    /// Whether it has until now.
    StoppedListening(bool),
    /// Whether what waits is another now.
    Arranged(bool),
    /// So many prompts were taken back.
    Withdrew(usize),
    /// The answer counts.
    Counted,
    /// The answer comes too late: the request was answered by somebody else, or is not waited for any more.
    TooLate,
    /// There is no such request, now or lately.
    NoSuchRequest,
    /// The answer does not fit the request.
    Mismatch,
    /// The grant was not offered, and why; the request is still open.
    NotOffered(String),
    /// What became of a form.
    Elicited(Elicited),
    /// A command was run; what went wrong, if anything.
    CommandDone(Option<String>),
    /// The newest part of the history is taken back: so many events that SDK clients had seen.
    Truncated(u64),
    /// It cannot be done, and why.
    Refused(String),
    /// Done; the event that says so, if there is one.
    Done(Option<EventId>),
}

/// The name of a piece of work, unique in a session's life in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// Work that a session wants done. It comes back as [`Input::Finished`](crate::Input::Finished).
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Make a prompt ready for the model: attachments, date, hooks.
    PreparePrompt {
        /// Which.
        prompt: PromptId,
        /// Tools that left with their client since the last prompt; the model is told.
        tools_gone: Vec<String>,
    },
    /// Run one of the server's own commands.
    RunCommand {
        /// The command, as it waits in the inbox.
        command: PromptId,
    },
    /// Ask the model.
    Ask {
        /// For the sub-agent; none for the main conversation.
        agent: Option<AgentId>,
    },
    /// Find out what a call would do: hooks, arguments, permission.
    PrepareCall {
        /// Which.
        call: CallKey,
    },
    /// Run a built-in tool.
    RunTool {
        /// Which call.
        call: CallKey,
    },
    /// Give a result that was made elsewhere to hooks and limits before it counts.
    FinishCall {
        /// Which call.
        call: CallKey,
        /// The request that a client answered with it; none for the result of a sub-agent.
        request: Option<RequestId>,
        /// The result.
        result: ToolResult,
    },
    /// Put a question to a client that can show it.
    DeliverQuestion {
        /// To whom.
        client: ClientId,
        /// Which.
        request: RequestId,
    },
    /// Store a grant for a location, before the answer that gives it counts.
    SaveGrant {
        /// The request that is answered.
        request: RequestId,
        /// The location, as the client named it.
        location_key: String,
        /// The grant.
        approval: Approval,
        /// Who gives it.
        by: Author,
    },
    /// Ask hooks whether the turn may end.
    Review,
    /// Have an engine work on the turn.
    Drive {
        /// Which.
        engine: String,
        /// The prompt, in the form for it.
        prompt: String,
        /// Its own name of the conversation, if there is one.
        token: Option<String>,
    },
}

impl Work {
    /// The sub-agent that it is for; none for the main conversation.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Ask { agent } => agent.as_ref(),
            Self::PrepareCall { call } | Self::RunTool { call } | Self::FinishCall { call, .. } => {
                call.agent.as_ref()
            }
            Self::PreparePrompt { .. }
            | Self::RunCommand { .. }
            | Self::DeliverQuestion { .. }
            | Self::SaveGrant { .. }
            | Self::Review
            | Self::Drive { .. } => None,
        }
    }
}

/// What is said to an engine while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineControl {
    /// What was decided about what it wants.
    Decide {
        /// Its name for the question.
        reference: String,
        /// The decision.
        verdict: Verdict,
    },
    /// What the user answered.
    Answer {
        /// Its name for the question.
        reference: String,
        /// The answer.
        answer: String,
        /// Whether it was typed, rather than chosen.
        was_freeform: bool,
    },
    /// Another prompt for the turn that runs.
    Steer(String),
}

/// What the model is told about a call that did not get to its end.
pub const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// What the model and people are told when a person said no.
pub(crate) fn denial(verdict: &Verdict) -> ToolResult {
    use baton_protocol::tool::ResultType;
    match verdict {
        Verdict::Reject { feedback: None } => ToolResult {
            result_type: ResultType::Rejected,
            ..ToolResult::failure("The user rejected this tool call.")
        },
        Verdict::Reject { feedback: Some(feedback) } => ToolResult {
            result_type: ResultType::Denied,
            ..ToolResult::failure(format!("The user rejected this tool call. User feedback: {feedback}"))
        },
        Verdict::DeniedByRules => ToolResult {
            result_type: ResultType::Denied,
            ..ToolResult::failure("Permission denied by a rule")
        },
        _ => ToolResult {
            result_type: ResultType::Denied,
            ..ToolResult::failure("Permission denied and could not request permission from user")
        },
    }
}
