//! Events: the history of a session, and what its clients see of it as it happens.
//!
//! The vocabulary is the one the official SDKs know, so that the stored history *is* what clients read: nothing is
//! translated between the disk and the wire. What their vocabulary has no word for, such as the acceptance of a prompt,
//! is said in events whose type starts with `baton.`; they are part of the same sequence, and not shown to SDKs.
//!
//! An event type is either *durable* (in the sequence, on disk) or *ephemeral* (streamed, forgotten). [`Body`] knows
//! which; an event nobody has heard of is carried along untouched.

mod agent;
mod baton;
mod parse;
mod plan;
mod request;
mod session;
mod tool;
mod turn;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use self::agent::*;
pub use self::baton::*;
pub use self::parse::InvalidEvent;
pub use self::plan::*;
pub use self::request::*;
pub use self::session::*;
pub use self::tool::*;
pub use self::turn::*;
use crate::ids::{AgentId, EventId};
use crate::json::Json;
use crate::time::Timestamp;

/// One event of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name, unique for ever.
    pub id: EventId,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The durable event before it, as clients see the history; none for the first.
    pub parent_id: Option<EventId>,
    /// The sub-agent it belongs to; none for the main conversation.
    pub agent_id: Option<AgentId>,
    /// Whether it is streamed and forgotten. True for all events of an ephemeral type, and for single events of a
    /// durable type where a client asked for that.
    pub ephemeral: bool,
    /// What happened.
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

/// The `data` part of an event.
struct DataOf<'a>(&'a Body);

impl Serialize for DataOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_data(serializer)
    }
}

macro_rules! vocabulary {
    ($( $durability:ident { $( $variant:ident = $kind:literal ),* $(,)? } )*) => {
        /// What happened. One variant for each type that Baton itself produces or understands.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is documented at its data type")]
        pub enum Body {
            $($( $variant($variant), )*)*
            /// An event of a type that this version does not know. Kept, shown, never interpreted.
            Unknown {
                kind: String,
                data: Json,
            },
        }

        impl Body {
            /// The type as written on the wire.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $($( Self::$variant(_) => $kind, )*)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Whether events of this type are streamed and forgotten.
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

            /// Reads the data of a known type; `None` for a type that is not known.
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
        HookStart = "hook.start",
        HookEnd = "hook.end",
        PromptAccepted = "baton.prompt_accepted",
        PromptMoved = "baton.prompt_moved",
        PromptAmended = "baton.prompt_amended",
        QueueHeld = "baton.queue_held",
        TurnOpened = "baton.turn_opened",
        TurnSettled = "baton.turn_settled",
        AgentForgotten = "baton.agent_forgotten",
        RequestOpened = "baton.request_opened",
        SwitchOffered = "baton.switch_offered",
        RequestClosed = "baton.request_closed",
        EngineTurn = "baton.engine_turn",
        EngineThread = "baton.engine_thread",
        EngineUsage = "baton.engine_usage",
        CallAmended = "baton.call_amended",
        ContextAdded = "baton.context_added",
        ApprovalsChanged = "baton.approvals_changed",
        RulesChanged = "baton.rules_changed",
        ShellRun = "baton.shell_run",
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
        ToolPartialResult = "tool.execution_partial_result",
        ToolProgress = "tool.execution_progress",
        ToolsUpdated = "session.tools_updated",
        TodosChanged = "session.todos_changed",
        UserInputRequested = "user_input.requested",
        UserInputCompleted = "user_input.completed",
        ElicitationRequested = "elicitation.requested",
        ElicitationCompleted = "elicitation.completed",
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
    /// Whether SDK clients are shown events of this type. `baton.` events are for Baton's own doors.
    #[must_use]
    pub fn is_public(&self) -> bool {
        is_public(self.kind())
    }
}

/// Whether SDK clients are shown events of the type `kind`.
#[must_use]
pub fn is_public(kind: &str) -> bool {
    !kind.starts_with("baton.")
}

#[cfg(test)]
mod tests;
