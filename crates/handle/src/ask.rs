//! Asks of doors to a live session.
//!
//! An ask is a value whose reply type follows from it ([`Ask::Reply`]); [`Handle::ask`](super::Handle::ask) sends it. There
//! are three families: asks of the core, which become inputs of its state machine ([`baton_core::ask`]); asks that the actor
//! serves ([`ActorAsk`]); and asks that need the session's tools or model ([`BesideAsk`]), served in a task beside the actor
//! so that they do not block it.
//!
//! [`AskMessage`] and [`ReplyMessage`] hold no channel and borrow nothing: they can cross a wire.

use std::path::PathBuf;
use std::time::Duration;

use baton_addons::extensions::ExtensionRequest;
use baton_addons::mcp::McpRequest;
use baton_addons::skills::SkillsRequest;
use baton_addons::workflows::{WorkflowError, WorkflowRequest};
use baton_agent::prompt::instructions::Instruction;
use baton_agent::tools::shell::Background;
use baton_agent::tools::sql::{Dependency, Todo};
use baton_core::Asking;
use baton_core::ask::AgentReport;
use baton_protocol::event::{CompactionComplete, CompactionTrigger, ShutdownType};
use baton_protocol::tool::ToolSpec;
use baton_protocol::{AgentId, Author, ClientId};
use baton_settings::SettingsEdit;
use serde::{Deserialize, Serialize};

use super::file_requests::{FileReply, FileRequest};
use super::measures::{CommandRun, Window};
use super::rewind::Rewound;
use super::view::View;

/// An ask of any family, with the type of its reply.
pub trait Ask: Send + 'static {
    /// Reply of the session.
    type Reply: Send + 'static;

    /// Wraps the ask in a message.
    fn into_message(self) -> AskMessage;

    /// Unwraps a reply; none if it belongs to another kind of ask.
    fn read(reply: ReplyMessage) -> Option<Self::Reply>;
}

impl<A: Asking> Ask for A {
    type Reply = A::Reply;

    fn into_message(self) -> AskMessage {
        AskMessage::Core(Box::new(self.into()))
    }

    fn read(reply: ReplyMessage) -> Option<A::Reply> {
        match reply {
            ReplyMessage::Core(reply) => A::of(*reply),
            ReplyMessage::Actor(_) | ReplyMessage::Beside(_) => None,
        }
    }
}

/// Message with an ask of any family.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskMessage {
    /// Becomes an input of the core.
    Core(Box<baton_core::Ask>),
    /// Served by the actor.
    Actor(ActorAsk),
    /// Served in a task beside the actor.
    Beside(BesideAsk),
}

impl AskMessage {
    /// Returns the name of the ask, for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Core(ask) => ask.name(),
            Self::Actor(ask) => ask.name(),
            Self::Beside(ask) => ask.name(),
        }
    }
}

/// Message with a reply of any family.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyMessage {
    /// Reply of the core.
    Core(Box<baton_core::Reply>),
    /// Reply of the actor.
    Actor(ActorReply),
    /// Reply of a task beside the actor.
    Beside(BesideReply),
}

/// An ask of the actor's family or of the family beside it.
pub trait FamilyAsk: Ask {
    /// Wraps a reply in a message.
    fn wrap(reply: Self::Reply) -> ReplyMessage;
}

/// Generates a family from a list of `Name { fields } -> Reply`: a struct for each ask, the enums of asks and replies, and
/// the conversions between them.
macro_rules! family {
    (
        $(#[$family_doc:meta])*
        $family:ident, $replies:ident in $message:ident;
        $(
            $(#[$doc:meta])*
            $name:ident { $( $(#[$attribute:meta])* $field:ident: $type:ty ),* $(,)? } -> $reply:ty;
        )*
    ) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Serialize, Deserialize)]
            pub struct $name {
                $( $(#[$attribute])* pub $field: $type, )*
            }

            impl Ask for $name {
                type Reply = $reply;

                fn into_message(self) -> AskMessage {
                    AskMessage::$message($family::$name(self))
                }

                fn read(reply: ReplyMessage) -> Option<$reply> {
                    match reply {
                        ReplyMessage::$message($replies::$name(reply)) => Some(*reply),
                        _ => None,
                    }
                }
            }

            impl FamilyAsk for $name {
                fn wrap(reply: $reply) -> ReplyMessage {
                    ReplyMessage::$message($replies::$name(Box::new(reply)))
                }
            }
        )*

        $(#[$family_doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $family {
            $( $(#[$doc])* $name($name), )*
        }

        impl $family {
            /// Returns the name of the ask, for logs.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => stringify!($name), )*
                }
            }
        }

        /// Replies of the family. Each variant replies to the ask of the same name. Boxed: they differ much in size.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each reply is documented at its ask")]
        pub enum $replies {
            $( $name(Box<$reply>), )*
        }
    };
}

family! {
    /// Asks that the actor serves.
    ActorAsk, ActorReply in Actor;

    /// Copies the state of the session after everything that was sent before.
    Inspect {} -> View;

    /// Changes settings that are not part of the history.
    Configure {
        /// The change.
        edit: Box<SettingsEdit>,
    } -> ();

    /// Detaches a client, and closes the session if no other client is attached.
    Close {
        /// The client.
        client: ClientId,
    } -> ();

    /// Ends the session for all attached clients.
    ShutDown {
        /// Whether it ends normally or because of a failure.
        how: ShutdownType,
        /// Reason, for the history.
        reason: String,
    } -> ();

    /// Rewinds the conversation to before an event. Replies how many public events were removed.
    TruncateAt {
        /// Id of the event.
        event: String,
        /// Who rewinds, for the history.
        #[serde(default)]
        by: Option<Author>,
    } -> u64;

    /// Rewinds to before a prompt, with or without files.
    Rewind {
        /// Id of the prompt's event.
        event: String,
        /// Whether files are restored.
        with_files: bool,
        /// Who rewinds, for the history.
        #[serde(default)]
        by: Option<Author>,
    } -> Rewound;

    /// Cancels compaction. Replies whether a matching one was running.
    StopCompaction {
        /// Whether to cancel a compaction that a client started, rather than an automatic one.
        manual: bool,
    } -> bool;
}

family! {
    /// Asks that need the session's tools or model. Served in a task beside the actor.
    BesideAsk, BesideReply in Beside;

    /// Serves a request about the session's MCP servers.
    Mcp {
        /// The request.
        request: Box<McpRequest>,
    } -> serde_json::Value;

    /// Serves a request about the session's skills.
    Skills {
        /// The request.
        request: Box<SkillsRequest>,
    } -> serde_json::Value;

    /// Serves a request about the session's extensions. The inner error says why it failed.
    UseExtensions {
        /// The request.
        request: Box<ExtensionRequest>,
    } -> Result<serde_json::Value, String>;

    /// Serves a request about the session's workflows. The inner error is for the client.
    UseWorkflows {
        /// The request.
        request: Box<WorkflowRequest>,
    } -> Result<serde_json::Value, WorkflowError>;

    /// Lists the tools that the model is offered.
    ListTools {} -> Vec<ToolSpec>;

    /// Records a shell command of the user and starts it, and does not wait for its end. Refused if the directory does not
    /// exist.
    StartCommand {
        /// Name for [`EndCommand`].
        name: String,
        /// Working directory; none means the session's.
        cwd: Option<PathBuf>,
        /// The command line.
        command: String,
        /// Time limit.
        limit: Option<Duration>,
        /// Who starts it, for the history.
        #[serde(default)]
        by: Option<Author>,
    } -> ();

    /// Runs a shell command for the user to its end, and records it. Replies `None` if one of that name is running.
    RunCommand {
        /// Name for [`EndCommand`].
        name: String,
        /// The command line.
        command: String,
        /// Who runs it, for the history.
        #[serde(default)]
        by: Option<Author>,
    } -> Option<CommandRun>;

    /// Ends a shell command of the user. Replies whether it was running.
    EndCommand {
        /// Its name.
        name: String,
    } -> bool;

    /// Lists the background commands of the model.
    ListBackground {} -> Vec<Background>;

    /// Ends a background command. Replies whether it was running.
    EndBackground {
        /// Its id.
        id: String,
    } -> bool;

    /// Forgets a background command that has ended. Replies whether it was known.
    ForgetBackground {
        /// Its id.
        id: String,
    } -> bool;

    /// Reads the model's to-do list, with the dependencies between its items.
    ListTodos {} -> (Vec<Todo>, Vec<Dependency>);

    /// Serves a request about the session's files. The inner error says why it failed.
    UseFiles {
        /// The request.
        request: Box<FileRequest>,
    } -> Result<FileReply, String>;

    /// Compares the working directory with git's index, or with the commit where the branch forked. Replies the name of the
    /// branch that it forked from, if there is one, and git's text.
    GitDiff {
        /// Whether to compare with the commit where the branch forked.
        from_fork: bool,
        /// Whether changes of white space are ignored.
        ignore_whitespace: bool,
    } -> (Option<String>, String);

    /// Lists the instruction files that are part of the system prompt.
    ListInstructions {} -> Vec<Instruction>;

    /// Measures the context that the model would be given now. Replies `None` if an engine manages its own context.
    MeasureContext {} -> Option<Window>;

    /// Asks the model a question outside the conversation.
    AskAside {
        /// The question.
        question: String,
    } -> String;

    /// Makes the model summarise the conversation for a user who continues it elsewhere. Empty if there is no conversation.
    SummariseForHandoff {} -> String;

    /// Compacts the conversation now. Replies `None` if there is nothing to compact.
    CompactNow {
        /// Options of the compaction.
        options: CompactionOptions,
    } -> Option<CompactionComplete>;

    /// Starts a sub-agent of a kind in the background.
    StartTask {
        /// The task.
        task: Box<NewTask>,
    } -> AgentId;

    /// Starts a sub-agent of a kind, and waits for its end.
    RunTask {
        /// The task.
        task: Box<NewTask>,
        /// Name by which it is stopped.
        key: String,
    } -> AgentReport;

    /// Reveals the model endpoint that the session uses, with its credentials.
    RevealEndpoint {
        /// The model; none means the current one.
        model: Option<String>,
    } -> serde_json::Value;
}

/// Options of a compaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionOptions {
    /// Instructions of the user for the summary.
    pub custom_instructions: Option<String>,
    /// Size of the context window, in place of the catalogue's.
    pub token_limit: Option<u64>,
    /// What triggered the compaction, for the history.
    pub trigger: Option<CompactionTrigger>,
}

/// A task for a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTask {
    /// Kind of the agent.
    pub agent_type: String,
    /// The task.
    pub prompt: String,
    /// Display name of the agent.
    pub name: Option<String>,
    /// Display text of the task.
    pub description: Option<String>,
    /// Model, in place of the kind's.
    pub model: Option<String>,
}
