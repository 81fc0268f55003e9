//! Asks: what clients can ask of a live session, with typed replies.
//!
//! An ask is a value whose reply type follows from it ([`Ask::Reply`]). Asks and replies hold no channel and borrow nothing:
//! they cross a wire as [`AskMessage`] and [`ReplyMessage`], so a session of another server is asked like any other.
//!
//! Asks are grouped in families by who serves them. Asks of the core become inputs of its state machine
//! ([`baton_core::ask`]). The actor serves [`ActorAsk`]. All others need the session's tools, its model or its files, and
//! are served in tasks beside the actor so that they do not block it: [`BesideAsk`], and those about [`files`], [`mcp`]
//! servers, [`skills`], [`extensions`] and [`workflows`].
//!
//! This crate defines asks and replies. How they are sent is in `baton-handle`, and what they do in
//! `baton-runtime` and `baton-addons`.

mod comparison;
pub mod extensions;
mod family;
pub mod files;
pub mod mcp;
mod measures;
mod rewind;
pub mod skills;
mod texts;
mod view;
pub mod workflows;

use std::path::PathBuf;
use std::time::Duration;

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

pub use self::comparison::{ComparedFile, FileChangeKind};
use self::extensions::{ExtensionsAsk, ExtensionsReply};
use self::family::family;
use self::files::{FilesAsk, FilesReply};
use self::mcp::{McpAsk, McpReply};
pub use self::measures::{CommandRun, CountedMessage, Window};
pub use self::rewind::{RewindOutcome, Rewound};
use self::skills::{SkillsAsk, SkillsReply};
pub use self::texts::Texts;
pub use self::view::View;
use self::workflows::{WorkflowsAsk, WorkflowsReply};

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
            _ => None,
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
    /// About the session's files.
    Files(FilesAsk),
    /// About the session's MCP servers.
    Mcp(McpAsk),
    /// About the session's skills.
    Skills(SkillsAsk),
    /// About the session's extensions.
    Extensions(ExtensionsAsk),
    /// About the session's workflows.
    Workflows(WorkflowsAsk),
}

impl AskMessage {
    /// Returns the name of the ask, for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Core(ask) => ask.name(),
            Self::Actor(ask) => ask.name(),
            Self::Beside(ask) => ask.name(),
            Self::Files(ask) => ask.name(),
            Self::Mcp(ask) => ask.name(),
            Self::Skills(ask) => ask.name(),
            Self::Extensions(ask) => ask.name(),
            Self::Workflows(ask) => ask.name(),
        }
    }

    /// Returns the change of settings that serving the ask makes; none if it makes none. No event records it: the server of
    /// the client remembers it, for the case that the session moves.
    #[must_use]
    pub fn settings_edit(&self) -> Option<SettingsEdit> {
        match self {
            Self::Actor(ActorAsk::Configure(ask)) => Some((*ask.edit).clone()),
            Self::Mcp(ask) => ask.settings_edit(),
            Self::Skills(ask) => ask.settings_edit(),
            _ => None,
        }
    }

    /// Whether asking twice is harmless: it changes nothing, or the second answer says that it is too late.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Core(ask) => match &**ask {
                baton_core::Ask::AnswerRequest(_)
                | baton_core::Ask::Abort(_)
                | baton_core::Ask::HoldQueue(_)
                | baton_core::Ask::RegisterRunner(_) => true,
                // Without a name, it would cancel what runs by then.
                baton_core::Ask::CancelTurn(ask) => ask.turn.is_some(),
                _ => false,
            },
            Self::Actor(ask) => matches!(ask, ActorAsk::Inspect(_) | ActorAsk::Configure(_)),
            Self::Files(ask) => !ask.changes(),
            Self::Workflows(ask) => ask.is_repeatable(),
            Self::Extensions(_) => true,
            Self::Mcp(_) | Self::Skills(_) => false,
            Self::Beside(ask) => matches!(
                ask,
                BesideAsk::ListTools(_)
                    | BesideAsk::ListBackground(_)
                    | BesideAsk::ListTodos(_)
                    | BesideAsk::GitDiff(_)
                    | BesideAsk::ListInstructions(_)
                    | BesideAsk::MeasureContext(_)
            ),
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
    /// Reply about files.
    Files(FilesReply),
    /// Reply about MCP servers.
    Mcp(McpReply),
    /// Reply about skills.
    Skills(SkillsReply),
    /// Reply about extensions.
    Extensions(ExtensionsReply),
    /// Reply about workflows.
    Workflows(WorkflowsReply),
}

/// An ask of any family but that of the core.
pub trait FamilyAsk: Ask {
    /// Wraps a reply in a message.
    fn wrap(reply: Self::Reply) -> ReplyMessage;
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
