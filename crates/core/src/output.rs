//! Outputs of a step.

use baton_protocol::engine::EngineControl;
use baton_protocol::permission::{Approval, Verdict};
use baton_protocol::sandbox::Placed;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Author, ClientId, Event, PromptId, RequestId};
use serde::{Deserialize, Serialize};

use crate::ask::{AskId, Refusal, Reply};
use crate::results::TrustTerm;
use crate::state::CallKey;

/// One effect of a step. The shell first makes all recorded events of a step durable, in one write; then it acts on all
/// outputs in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Records an event; clients see it once it is durable.
    Record(Event),
    /// Shows an event without recording it.
    Show(Event),
    /// Replies to an ask; the reply is of the ask's kind ([`Asking::of`](crate::Asking::of)).
    Reply(AskId, Result<Reply, Refusal>),
    /// Starts work.
    Start(WorkId, Work),
    /// Sends a message to the engine that executes this work.
    Tell(WorkId, EngineControl),
    /// Stops work, with all its processes. A result that still arrives is ignored.
    Stop(WorkId),
}

/// Id of a piece of work, unique for a session in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkId(pub u64);

/// Work for the shell. Its result arrives as [`Input::Finished`](crate::Input::Finished).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Prepares a prompt for the model: attachments, date, hooks.
    PreparePrompt {
        /// The prompt.
        prompt: PromptId,
        /// Client tools that were removed since the last prompt. The prompt informs the model of them.
        tools_gone: Vec<String>,
    },
    /// Runs a command of the server.
    RunCommand {
        /// The command, in the inbox.
        command: PromptId,
    },
    /// Calls the model.
    CallModel {
        /// The sub-agent; none for the main conversation.
        agent: Option<AgentId>,
    },
    /// Prepares a call: hooks, arguments, the permission that it needs.
    PrepareCall {
        /// The call.
        call: CallKey,
    },
    /// Runs a built-in tool.
    RunTool {
        /// The call.
        call: CallKey,
        /// Digest of what was approved, if a user approved a call of an MCP server's tool. If the tool is another one by
        /// now, the result is [`WorkResult::Changed`](crate::WorkResult::Changed).
        binding: Option<String>,
        /// Where the call's command runs, as it was decided; none for a call that could not be in a sandbox.
        placed: Option<Placed>,
    },
    /// Trusts what a [`TrustQuestion`](crate::TrustQuestion) was about.
    Trust {
        /// The call, whose arguments say what is trusted.
        call: CallKey,
        /// How long.
        term: TrustTerm,
    },
    /// Passes the result of a client or sub-agent through hooks and limits before it counts.
    FinishCall {
        /// The call.
        call: CallKey,
        /// The request that a client answered with the result; none for a sub-agent.
        request: Option<RequestId>,
        /// The result.
        result: ToolResult,
    },
    /// Puts a question to a client that can show it.
    DeliverQuestion {
        /// The client.
        client: ClientId,
        /// The request.
        request: RequestId,
    },
    /// Stores a grant for a location. The answer that gives the grant counts once it is stored.
    SaveGrant {
        /// The answered request.
        request: RequestId,
        /// Key of the location, as the client named it.
        location_key: String,
        /// The grant.
        approval: Approval,
        /// Author of the grant.
        by: Author,
        /// Digests of the MCP server and tool that the user was shown. None for other grants.
        binding: Option<String>,
    },
    /// Moves a held file back to its path. The answer that approves it counts once the file is there.
    RestoreFile {
        /// The answered request, and the author of the answer; none if nobody was asked.
        approved: Option<(RequestId, Author)>,
        /// Path of the file, relative to the working directory.
        path: String,
        /// Name of the file among the held files of the session.
        kept: String,
    },
    /// Deletes a held file.
    DropFile {
        /// Name of the file among the held files of the session.
        kept: String,
    },
    /// Asks hooks whether the turn may end.
    Review,
    /// Runs the turn with an engine.
    Drive {
        /// Name of the engine.
        engine: String,
        /// The prompt, prepared for the engine.
        prompt: String,
        /// The engine's id of the conversation, if it has one.
        token: Option<String>,
    },
}

impl Work {
    /// Returns the sub-agent that the work is for; none for the main conversation.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::CallModel { agent } => agent.as_ref(),
            Self::PrepareCall { call }
            | Self::RunTool { call, .. }
            | Self::Trust { call, .. }
            | Self::FinishCall { call, .. } => call.agent.as_ref(),
            Self::PreparePrompt { .. }
            | Self::RunCommand { .. }
            | Self::DeliverQuestion { .. }
            | Self::SaveGrant { .. }
            | Self::RestoreFile { .. }
            | Self::DropFile { .. }
            | Self::Review
            | Self::Drive { .. } => None,
        }
    }
}

/// Result of a call that was interrupted, for the model.
pub const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// Returns the result of a call that was not approved, for the model and for people.
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
