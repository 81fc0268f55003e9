//! Results of work: model answers, prepared calls, reports of engines.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_protocol::event::{
    AssistantUsage, ExecutionMode, Question, SessionError, SkillInvoked, TokenCounts, ToolRequest,
    UserQuestion,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Json, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::policy::Advice;

/// Result of work. Each variant belongs to the [`Work`](crate::Work) of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkResult {
    /// The prepared prompt.
    PreparePrompt(PreparedPrompt),
    /// Message of a command for the user, if it has one; or why the command failed.
    RunCommand(Result<Option<String>, String>),
    /// Answer of the model.
    CallModel(Box<ModelReply>),
    /// Failure of a model call.
    CallModelFailed(Box<FailedModelCall>),
    /// The prepared call.
    PrepareCall(Prepared),
    /// Result of a call: of a built-in tool, or, for [`Work::FinishCall`](crate::Work::FinishCall), after hooks and
    /// limits.
    RunTool(ToolResult),
    /// Result of a call that loaded a skill, and the skill. For [`Work::RunTool`](crate::Work::RunTool), too.
    RunSkill(Box<(ToolResult, SkillInvoked)>),
    /// The tool is not the one that was approved. Nothing has run; the call is prepared again, as it is now.
    Changed,
    /// Whether a grant for a location was stored, or why not.
    SaveGrant(Result<(), String>),
    /// Whether a held file was moved back or deleted, or why not. For [`Work::RestoreFile`](crate::Work::RestoreFile) and
    /// [`Work::DropFile`](crate::Work::DropFile).
    HeldFile(Result<(), String>),
    /// None if the turn may end; otherwise a message that makes the model continue.
    Review(Option<String>),
    /// End of an engine's work, or its error.
    Drive(Result<(), SessionError>),
    /// A question could not be delivered. It stays open for the next client that can show it.
    Undelivered,
}

/// A prompt, prepared for the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreparedPrompt {
    /// The user's text, or what a hook replaced it with.
    pub content: String,
    /// Text for the model, if it differs.
    pub transformed: Option<String>,
    /// Messages before the prompt, each with its source.
    pub context: Vec<(String, String)>,
    /// Messages after the prompt, each with its source.
    pub reminders: Vec<(String, String)>,
    /// System message, if it differs from the last recorded one.
    pub system: Option<String>,
    /// Engine for the turn; none for Baton's own rounds of model and tools.
    pub engine: Option<String>,
    /// Question whether to trust the workspace, to be answered before the model is called.
    pub trust: Option<Box<TrustQuestion>>,
}

/// Question whether files of the workspace, which start programs, are trusted. It is a call that no model made: pending
/// requests belong to calls, so it is durable, and any client answers it. A refusal does not end the turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustQuestion {
    /// What is trusted: the arguments of the call.
    pub arguments: Json,
    /// The permission request.
    pub wants: PermissionRequest,
}

/// How long something that acts, such as a program of a workspace, is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrustTerm {
    /// While the session is open. Its mode allows everything, or a client does: nobody was shown what is trusted.
    Session,
    /// Until what is trusted changes: it was shown, and approved.
    UntilChanged,
}

/// Name of the tool whose call is a [`TrustQuestion`]. If the answer is yes, it is executed as
/// [`Work::Trust`](crate::Work::Trust).
pub const TRUST_TOOL: &str = "trust_workspace";

/// Progress of an engine.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineReport {
    /// Id that the engine gave the conversation.
    Thread(String),
    /// A message of the assistant.
    Message {
        /// Id of the message, the same as in its streamed parts.
        message_id: String,
        /// The text.
        text: String,
        /// Reasoning before the message.
        reasoning: Option<String>,
        /// Model.
        model: Option<String>,
    },
    /// Start of a tool call.
    CallStarted {
        /// The engine's id of the call.
        call: ToolCallId,
        /// Name of the tool.
        tool: String,
        /// Arguments.
        arguments: Json,
    },
    /// End of a tool call.
    CallFinished {
        /// The call.
        call: ToolCallId,
        /// Its result.
        result: ToolResult,
    },
    /// Call of a tool of the session, which the session executes as it does those of its own model.
    Calls {
        /// The call, with an id of ours.
        request: Box<ToolRequest>,
    },
    /// The engine no longer waits for a call of a tool of the session.
    Abandons {
        /// The call.
        call: ToolCallId,
    },
    /// Request for permission.
    Wants {
        /// The engine's id of the request.
        reference: String,
        /// The call that needs the permission, if it has started.
        call: Option<ToolCallId>,
        /// What permission is asked for.
        wants: Box<PermissionRequest>,
        /// Working directory with its links resolved, if known.
        cwd: Option<PathBuf>,
    },
    /// Question to the user.
    Asks {
        /// The engine's id of the question.
        reference: String,
        /// The question.
        question: UserQuestion,
    },
    /// The engine no longer waits for an answer.
    Withdrawn {
        /// The engine's id of the request or question.
        reference: String,
    },
    /// Usage since the last such report.
    Used {
        /// Model; none means that the engine does not say, and usage counts under the engine's name.
        model: Option<String>,
        /// Tokens.
        tokens: TokenCounts,
    },
    /// A notice for people.
    Note {
        /// Whether it is a warning.
        warning: bool,
        /// The text.
        text: String,
    },
}

/// Reply of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// Id of the message, the same as in its streamed parts.
    pub message_id: String,
    /// Text.
    pub text: String,
    /// Reasoning.
    pub reasoning: Option<String>,
    /// Opaque reasoning state of the provider.
    pub reasoning_opaque: Option<String>,
    /// Citations, in the form for clients.
    pub citations: Option<Json>,
    /// Tool calls.
    pub tool_requests: Vec<ToolRequest>,
    /// Results of calls that end as soon as they start, because the tool does not exist.
    pub refused: BTreeMap<ToolCallId, ToolResult>,
    /// Model.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub api_call_id: Option<String>,
    /// Usage, for clients.
    pub usage: AssistantUsage,
    /// Usage, for the history.
    pub tokens: TokenCounts,
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailedModelCall {
    /// The error.
    pub error: SessionError,
    /// Id and text of the message that was streamed before the failure.
    pub partial: Option<(String, String)>,
    /// Fallback model.
    pub fallback: Option<FallbackModel>,
}

impl From<SessionError> for FailedModelCall {
    fn from(error: SessionError) -> Self {
        Self { error, ..Self::default() }
    }
}

/// Fallback model for one that has reached its rate limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackModel {
    /// Name of the fallback model.
    pub model: String,
    /// Time until the limited model can be called again.
    pub retry_after_seconds: Option<u64>,
}

/// What a call would do, before permission is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// The call can run.
    Runnable {
        /// Where it runs.
        route: Route,
        /// Permission that it needs, if any.
        wants: Option<PermissionRequest>,
        /// What a hook or the tool's declaration says about permission.
        advice: Advice,
        /// Working directory with its links resolved, if known.
        cwd: Option<PathBuf>,
        /// Arguments, if a hook replaced them.
        arguments: Option<Json>,
    },
    /// The call asks the user.
    Question(Question),
    /// The call starts a sub-agent.
    Handoff {
        /// The task.
        task: Box<Handoff>,
        /// Limits on sub-agents.
        limits: AgentLimits,
    },
    /// The call runs as a built-in tool once this sub-agent has ended.
    AfterAgent(AgentId),
    /// The call has ended: unknown tool, invalid arguments, refused by a hook.
    Finished(ToolResult),
}

/// Task for a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// Kind of agent.
    pub kind: String,
    /// Title of the task.
    pub name: String,
    /// Summary of the task.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// System message of the agent.
    pub system: String,
    /// Model; none means the session's.
    pub model: Option<String>,
    /// Whether the main conversation waits for the agent.
    pub mode: ExecutionMode,
}

/// Limits on the sub-agents that the model of a session starts. One answer can have hundreds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Sub-agents that work at the same time.
    pub at_once: usize,
    /// Sub-agents of one turn.
    pub per_turn: usize,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { at_once: 16, per_turn: 100 }
    }
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// In this program.
    BuiltIn,
    /// At a client.
    Client,
}
