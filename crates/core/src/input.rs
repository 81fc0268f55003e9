//! Inputs of a session. Results of its own work are in [`crate::results`], asks of its callers in [`crate::ask`].

use std::collections::BTreeSet;

use baton_protocol::event::{Body, ShutdownType, WorkContext};
use baton_protocol::sandbox::SandboxChoice;
use baton_protocol::tool::{SlashCommand, ToolSpec};
use baton_protocol::{AgentId, Author, ClientId, RequestId};
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, AskId};
use crate::output::WorkId;
use crate::results::{EngineReport, WorkResult};

/// Input of one step.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Creates the session. The first input of a new session, and only of that.
    Create {
        /// Working directory and repository.
        context: WorkContext,
        /// Model; none means the server's default.
        model: Option<String>,
        /// Reasoning effort of the model.
        reasoning_effort: Option<String>,
        /// Version of this program, for the history.
        version: String,
        /// Who creates it, for the history.
        by: Option<Author>,
        /// Sandbox of the session's programs; none means that of the location or the configuration.
        sandbox: Option<Box<SandboxChoice>>,
    },
    /// Attaches a client, or replaces the profile of an attached one.
    Attach {
        /// The client.
        client: ClientId,
        /// What the client offers.
        profile: Profile,
        /// How it attaches.
        arrival: Arrival,
    },
    /// Detaches a client, with everything it offers.
    Detach {
        /// The client.
        client: ClientId,
    },
    /// Asks something of the session. The reply is an [`Output::Reply`](crate::Output::Reply) with the same id, of this
    /// step or a later one.
    Ask {
        /// Id of the ask.
        id: AskId,
        /// The ask.
        ask: Ask,
    },
    /// Records an event that changes no state, such as the call of a hook.
    Note {
        /// The sub-agent it is about; none for the main conversation.
        agent: Option<AgentId>,
        /// The event.
        body: Box<Body>,
    },
    /// Shows an event without recording it.
    Show(Box<Body>),
    /// Closes the session in this process. Running work is cancelled.
    Close {
        /// Why, for the outcome of running prompts.
        reason: String,
        /// Whether the session ends normally or because of a failure.
        shutdown: ShutdownType,
    },
    /// Reports progress of an engine.
    Reported {
        /// The engine's work.
        work: WorkId,
        /// The report.
        report: Box<EngineReport>,
    },
    /// Reports the result of work.
    Finished {
        /// The work.
        work: WorkId,
        /// Its result.
        result: Box<WorkResult>,
    },
}

/// What a client offers to a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Who uses the client, for the history.
    #[serde(default)]
    pub user: Option<Author>,
    /// Client tools.
    pub tools: Vec<ToolSpec>,
    /// Slash commands that it runs.
    pub commands: Vec<SlashCommand>,
    /// Whether it can put questions to the user.
    pub user_input: bool,
    /// Whether it can show forms.
    pub elicitation: bool,
    /// Whether it can put plans to the user.
    pub plan_approval: bool,
    /// Whether it can put offers of a fallback model to the user.
    pub model_switch: bool,
    /// Whether it has hooks.
    pub hooks: bool,
    /// Whether it is an extension: its hooks come on top of those of another client, and approve nothing.
    #[serde(default)]
    pub is_extension: bool,
    /// What it registered while it was attached before, if it attaches again after the loss of a server.
    #[serde(default)]
    pub registered: Registered,
}

/// Registrations of a client that was attached before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Registered {
    /// Its registrations as a runner of queued commands.
    pub runners: BTreeSet<String>,
    /// Its registrations as a listener for offers of a fallback model.
    pub listeners: BTreeSet<String>,
    /// The command that it was asked to run last: it may be running it.
    pub asked_command: Option<RequestId>,
}

/// How a client attaches to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// It created the session.
    Made,
    /// It resumes an existing session.
    Resumed {
        /// Whether to continue work that was pending when the last client detached; none if the client does not say.
        continue_pending_work: Option<bool>,
        /// Whether to record the resume.
        record: bool,
        /// Working directory and repository from now on.
        context: Box<WorkContext>,
        /// Model from now on; none keeps the current one.
        model: Option<String>,
        /// Reasoning effort that goes with the model.
        reasoning_effort: Option<String>,
    },
    /// It watches, and changes nothing.
    Watching,
}
