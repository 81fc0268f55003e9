//! Events: the history of a session, and its live stream to clients.
//!
//! The vocabulary is that of the official SDKs, so that the stored history *is* what clients read: nothing is
//! translated between disk and wire. What that vocabulary cannot express, such as the acceptance of a prompt,
//! is recorded in events whose type starts with `baton.`; they are part of the same sequence, and not sent to
//! SDK clients.
//!
//! An event type is either *durable* (in the sequence, on disk) or *ephemeral* (streamed, not stored).
//! [`Body`] knows which. Events of unknown type are passed through unchanged.

mod agent;
mod baton;
mod files;
mod parse;
mod plan;
mod request;
mod session;
mod skill;
mod tool;
mod turn;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use self::agent::*;
pub use self::baton::*;
pub use self::files::*;
pub use self::parse::InvalidEvent;
pub use self::plan::*;
pub use self::request::*;
pub use self::session::*;
pub use self::skill::*;
pub use self::tool::*;
pub use self::turn::*;
use crate::ids::{AgentId, EventId};
use crate::json::Json;
use crate::time::Timestamp;

/// An event of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its id, globally unique.
    pub id: EventId,
    /// Time of the event.
    pub timestamp: Timestamp,
    /// The previous durable event in the history that clients see; `None` for the first.
    pub parent_id: Option<EventId>,
    /// The sub-agent that it belongs to; `None` for the main conversation.
    pub agent_id: Option<AgentId>,
    /// Whether the event is streamed but not stored. True for all events of an ephemeral type, and for single
    /// events of a durable type at a client's request.
    pub ephemeral: bool,
    /// The type and data.
    pub body: Body,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 5 + usize::from(self.agent_id.is_some()) + usize::from(self.ephemeral);
        let mut out = serializer.serialize_struct("Event", fields)?;
        out.serialize_field("type", self.body.kind())?;
        out.serialize_field("data", &DataOf(&self.body))?;
        out.serialize_field("id", &self.id)?;
        out.serialize_field("timestamp", &self.timestamp)?;
        out.serialize_field("parentId", &self.parent_id)?;
        if let Some(agent) = &self.agent_id {
            out.serialize_field("agentId", agent)?;
        }
        if self.ephemeral {
            out.serialize_field("ephemeral", &true)?;
        }
        out.end()
    }
}

/// As in an event: `type` and `data`.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Body", 2)?;
        out.serialize_field("type", self.kind())?;
        out.serialize_field("data", &DataOf(self))?;
        out.end()
    }
}

/// The `data` field of an event.
struct DataOf<'a>(&'a Body);

impl Serialize for DataOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_data(serializer)
    }
}

macro_rules! vocabulary {
    ($( $durability:ident { $( $variant:ident = $kind:literal ),* $(,)? } )*) => {
        /// The type and data of an event. One variant for each type that Baton produces or interprets.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is documented at its data type")]
        pub enum Body {
            $($( $variant($variant), )*)*
            /// An event of a type that this version does not know. Stored and forwarded, never interpreted.
            Unknown {
                kind: String,
                data: Json,
            },
        }

        impl Body {
            /// Returns the type on the wire.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $($( Self::$variant(_) => $kind, )*)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Whether events of this type are streamed but not stored.
            #[must_use]
            pub fn is_ephemeral(&self) -> bool {
                match self {
                    $($( Self::$variant(_) => vocabulary!(@ephemeral $durability), )*)*
                    Self::Unknown { .. } => false,
                }
            }

            fn serialize_data<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $($( Self::$variant(data) => data.serialize(serializer), )*)*
                    Self::Unknown { data, .. } => data.serialize(serializer),
                }
            }

            /// Parses the data of a known type. Returns `None` for an unknown type.
            fn parse_known(kind: &str, data: &Json) -> Option<serde_json::Result<Self>> {
                match kind {
                    $($( $kind => Some(data.parse().map(Self::$variant)), )*)*
                    _ => None,
                }
            }
        }

        $($(
            impl From<$variant> for Body {
                fn from(data: $variant) -> Self {
                    Self::$variant(data)
                }
            }
        )*)*
    };
    (@ephemeral durable) => { false };
    (@ephemeral ephemeral) => { true };
}

vocabulary! {
    durable {
        SessionStart = "session.start",
        SessionResume = "session.resume",
        SessionShutdown = "session.shutdown",
        SessionInfo = "session.info",
        SessionWarning = "session.warning",
        SessionError = "session.error",
        ModelChange = "session.model_change",
        ModeChanged = "session.mode_changed",
        PermissionsChanged = "session.permissions_changed",
        PlanChanged = "session.plan_changed",
        WorkspaceFileChanged = "session.workspace_file_changed",
        ContextChanged = "session.context_changed",
        CompactionStart = "session.compaction_start",
        CompactionComplete = "session.compaction_complete",
        UserMessage = "user.message",
        SystemMessage = "system.message",
        SystemNotification = "system.notification",
        TurnStart = "assistant.turn_start",
        Reasoning = "assistant.reasoning",
        AssistantMessage = "assistant.message",
        TurnEnd = "assistant.turn_end",
        Abort = "abort",
        ToolStart = "tool.execution_start",
        ToolComplete = "tool.execution_complete",
        PermissionRequested = "permission.requested",
        PermissionCompleted = "permission.completed",
        ExternalToolRequested = "external_tool.requested",
        ExternalToolCompleted = "external_tool.completed",
        SubagentStarted = "subagent.started",
        SubagentCompleted = "subagent.completed",
        SubagentFailed = "subagent.failed",
        SubagentSelected = "subagent.selected",
        SubagentDeselected = "subagent.deselected",
        SkillInvoked = "skill.invoked",
        HookStart = "hook.start",
        HookEnd = "hook.end",
        PromptAccepted = "baton.prompt_accepted",
        PromptMoved = "baton.prompt_moved",
        PromptAmended = "baton.prompt_amended",
        QueueHeld = "baton.queue_held",
        PromptsHeld = "baton.prompts_held",
        TurnOpened = "baton.turn_opened",
        TurnSettled = "baton.turn_settled",
        AgentForgotten = "baton.agent_forgotten",
        RequestOpened = "baton.request_opened",
        SwitchOffered = "baton.switch_offered",
        LoginRequested = "baton.login_requested",
        RequestClosed = "baton.request_closed",
        EngineTurn = "baton.engine_turn",
        EngineThread = "baton.engine_thread",
        EngineUsage = "baton.engine_usage",
        CallAmended = "baton.call_amended",
        ContextAdded = "baton.context_added",
        ApprovalsChanged = "baton.approvals_changed",
        RulesChanged = "baton.rules_changed",
        SandboxChanged = "baton.sandbox_changed",
        ShellRun = "baton.shell_run",
        ShellStarted = "baton.shell_started",
        Renamed = "baton.renamed",
        HistoryTruncated = "baton.history_truncated",
        FileTrackingBegun = "baton.file_tracking_begun",
        FilesKept = "baton.files_kept",
        FilesChanged = "baton.files_changed",
    }
    ephemeral {
        SessionIdle = "session.idle",
        AssistantIdle = "assistant.idle",
        PendingMessagesModified = "pending_messages.modified",
        TitleChanged = "session.title_changed",
        SnapshotRewind = "session.snapshot_rewind",
        UsageInfo = "session.usage_info",
        AssistantUsage = "assistant.usage",
        MessageStart = "assistant.message_start",
        MessageDelta = "assistant.message_delta",
        ReasoningDelta = "assistant.reasoning_delta",
        StreamingDelta = "assistant.streaming_delta",
        ToolCallDelta = "assistant.tool_call_delta",
        ModelCallFailure = "model.call_failure",
        StreamSoFar = "baton.stream_so_far",
        ToolPartialResult = "tool.execution_partial_result",
        ToolProgress = "tool.execution_progress",
        ToolsUpdated = "session.tools_updated",
        TodosChanged = "session.todos_changed",
        UserInputRequested = "user_input.requested",
        UserInputCompleted = "user_input.completed",
        ElicitationRequested = "elicitation.requested",
        ElicitationCompleted = "elicitation.completed",
        SamplingRequested = "sampling.requested",
        SamplingCompleted = "sampling.completed",
        ExitPlanModeRequested = "exit_plan_mode.requested",
        ExitPlanModeCompleted = "exit_plan_mode.completed",
        AutoModeSwitchRequested = "auto_mode_switch.requested",
        AutoModeSwitchCompleted = "auto_mode_switch.completed",
        CapabilitiesChanged = "capabilities.changed",
        CommandsChanged = "commands.changed",
        CommandQueued = "command.queued",
        CommandExecute = "command.execute",
        CommandCompleted = "command.completed",
    }
}

impl Body {
    /// Whether SDK clients receive events of this type. `baton.` events are for Baton's own APIs.
    #[must_use]
    pub fn is_public(&self) -> bool {
        is_public(self.kind())
    }
}

/// Whether SDK clients receive events of type `kind`.
#[must_use]
pub fn is_public(kind: &str) -> bool {
    !kind.starts_with("baton.")
}

#[cfg(test)]
mod tests;
