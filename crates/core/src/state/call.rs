//! Tool calls of a turn.

use baton_protocol::event::{Question, ToolStart};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::{AgentId, Json, RequestId, ToolCallId};
use serde::{Deserialize, Serialize};

/// Identifies a call. Call ids alone are ambiguous: models of different conversations may choose the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The calling sub-agent; none for the main conversation.
    pub agent: Option<AgentId>,
    /// Id that the model gave the call.
    pub id: ToolCallId,
}

impl From<ToolCallId> for CallKey {
    /// Returns the key of a call of the main conversation.
    fn from(id: ToolCallId) -> Self {
        Self { agent: None, id }
    }
}

/// A tool call of the current round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The calling sub-agent; none for the main conversation.
    #[serde(default)]
    pub agent: Option<AgentId>,
    /// Id that the model gave the call.
    pub id: ToolCallId,
    /// Name of the tool.
    pub tool: String,
    /// Arguments from the model, or from a hook that replaced them.
    pub arguments: Option<Json>,
    /// Stage.
    pub stage: CallStage,
}

impl Call {
    /// Returns a call of the main conversation that has just started.
    pub(crate) fn started(start: &ToolStart) -> Self {
        Self {
            agent: None,
            id: start.tool_call_id.clone(),
            tool: start.tool_name.clone(),
            arguments: start.arguments.clone(),
            stage: CallStage::Started,
        }
    }

    /// Returns the key of the call.
    #[must_use]
    pub fn key(&self) -> CallKey {
        CallKey { agent: self.agent.clone(), id: self.id.clone() }
    }
}

/// Stage of a tool call, as far as it is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallStage {
    /// Started. The history does not say whether the tool was running, so after a crash the call is interrupted (P4).
    Started,
    /// Waits for permission. The tool has not run.
    AwaitingPermission {
        /// The request.
        request: RequestId,
        /// What permission is asked for.
        wants: Box<PermissionRequest>,
        /// Whether a hook requires a user to decide.
        #[serde(default)]
        requires_user: bool,
    },
    /// Waits for a client to run its tool.
    AwaitingClient {
        /// The request.
        request: RequestId,
    },
    /// Waits for the user to answer a question.
    AwaitingAnswer {
        /// The request.
        request: RequestId,
        /// The question.
        question: Question,
    },
    /// Ended.
    Done {
        /// Whether the call succeeded.
        success: bool,
    },
}

impl CallStage {
    /// Returns the pending request of the call.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        match self {
            Self::AwaitingPermission { request, .. }
            | Self::AwaitingClient { request }
            | Self::AwaitingAnswer { request, .. } => Some(request),
            Self::Started | Self::Done { .. } => None,
        }
    }

    /// Whether the call has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}
