//! Engines that are other agents' programs: codex, claude, opencode, pi, and every program that speaks ACP.
//!
//! An [`Engine`] is a program that can be installed. An [`EngineConversation`] is one conversation with it, bound to a directory
//! and, once it is known, to the program's id of the conversation. A thread runs one prompt at a time and reports the
//! program's actions as [`Report`]s, the same for all programs. It never talks to clients and never writes history:
//! `baton-core` decides what a report means for a session.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod acp;
mod adapter;
mod fragments;
mod json;
mod limits;
mod locks;
mod login;
mod pending;
mod permission;
mod probe;
mod process;
mod program;
mod programs;
mod registry;
mod retry;
mod thread;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use baton_process::Ledger;
use baton_protocol::Json;
use baton_protocol::engine::EngineControl;
use baton_protocol::event::{AssistantUsage, ModelCallFailure, UserQuestion};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::sandbox::SandboxLevel;
use baton_protocol::tool::ToolResult;
use baton_sandbox::Preparing;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use limits::TimeLimits;
pub use program::ACP_PREFIX;
pub use programs::{guarded_files, names};
pub use registry::{EngineRegistry, EngineResources};

/// The program's id of a conversation. The program can resume the conversation with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResumeToken(pub String);

/// Parameters of a conversation.
#[derive(Debug, Clone)]
pub struct ThreadSpec {
    /// The working directory.
    pub cwd: PathBuf,
    /// The program's name of the model. None means its default.
    pub model: Option<String>,
    /// The program's name of the reasoning effort. None means its default.
    pub reasoning_effort: Option<String>,
    /// The conversation to resume. None starts a new one.
    pub resume: Option<ResumeToken>,
    /// Whether the program may act without asking.
    pub allow_all: bool,
    /// Prefix of the tags of its processes, such as `<uuid>/`. The tag is in the environment variable
    /// [`TAG_VARIABLE`](baton_process::TAG_VARIABLE): a later server can find and end processes that still carry it after
    /// this server was killed.
    pub tag: String,
    /// The tools of the session, for a program that can use MCP servers.
    pub tools: Option<ToolServer>,
    /// Records its processes, so that a later server can end them if this one is killed.
    pub ledger: Ledger,
    /// The level of the sandbox that somebody chose for the session. A program with a sandbox of its own uses it there.
    pub sandbox: Option<SandboxLevel>,
    /// Places the whole program in the sandbox of the session, if its settings say so.
    pub placing: Option<Placing>,
}

/// Returns where a program runs that also writes these files and directories of the user.
#[derive(Clone)]
pub struct Placing(pub Arc<PlaceProgram>);

/// A function of [`Placing`]. The error is a message to the user.
pub type PlaceProgram = dyn Fn(Vec<PathBuf>) -> Preparing + Send + Sync;

impl fmt::Debug for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placing")
    }
}

/// An MCP server that offers the tools of the session. It asks for permissions itself: a program need not ask before it
/// calls one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    /// Its name, which nobody can guess: no file of a project can declare a server of that name.
    pub name: String,
    /// The program that the engine starts.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// An event of a run. Reports are sent in the order of the events.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The run has started and its conversation has an id. At most once in a run; only notes and retries can
    /// precede it.
    Started {
        /// The id.
        token: ResumeToken,
        /// The model that answers, if it is known.
        model: Option<String>,
    },
    /// A streamed piece of the answer.
    TextDelta(String),
    /// A streamed piece of reasoning.
    ReasoningDelta(String),
    /// A complete message of the agent. The last one of a run is its answer.
    Message {
        /// The text.
        text: String,
        /// The reasoning before it.
        reasoning: Option<String>,
    },
    /// The agent has started a tool call.
    CallStarted {
        /// The program's id of the call.
        id: String,
        /// The tool: `bash`, `edit`, `web_search`, or the program's name of it.
        tool: String,
        /// The arguments.
        arguments: Json,
    },
    /// A running call has produced output.
    CallOutput {
        /// The call.
        id: String,
        /// The new part of the output.
        output: String,
    },
    /// A call has finished. Every `CallStarted` is followed by exactly one.
    CallFinished {
        /// The call.
        id: String,
        /// The result.
        result: ToolResult,
    },
    /// The program requests a permission, and waits for [`EngineControl::Decide`] with the same reference.
    Wants {
        /// Identifies the request in the decision.
        reference: String,
        /// The call that needs the permission, if it has started.
        call: Option<String>,
        /// The request.
        wants: Box<PermissionRequest>,
    },
    /// The program asks the user, and waits for [`EngineControl::Answer`] with the same reference.
    Asks {
        /// Identifies the question in the answer.
        reference: String,
        /// The question.
        question: UserQuestion,
    },
    /// The program no longer waits for a decision or an answer.
    Withdrawn {
        /// The request or question.
        reference: String,
    },
    /// Usage since the previous report of this kind.
    Usage(Box<AssistantUsage>),
    /// A call of the program's model failed, and the program repeats it.
    Retries(Box<ModelCallFailure>),
    /// Information for the user: a warning, a plan.
    Note {
        /// Whether it needs attention.
        warning: bool,
        /// The text.
        text: String,
    },
    /// A warning about the program's own configuration, which is the same in each run.
    StandingWarning(String),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// The agent has answered.
    Completed,
    /// The run failed.
    Failed {
        /// What happened and what to do, for the user.
        message: String,
        /// The end of the program's stderr.
        diagnostics: Option<String>,
    },
    /// The run was interrupted on request.
    Interrupted,
    /// The program does not know the conversation that it was asked to resume, and has done nothing. The next run
    /// starts a new conversation; the caller can repeat the history in its prompt.
    Forgotten,
}

/// A running prompt. Dropping it ends the run and all its processes.
pub type Running<'a> = Pin<Box<dyn Future<Output = RunOutcome> + Send + 'a>>;

/// One conversation with a program.
pub trait EngineConversation: Send {
    /// Runs one prompt to its end. `interrupt` stops it early; the program gets a chance to stop by itself before it is
    /// killed.
    fn run<'a>(
        &'a mut self,
        prompt: String,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<EngineControl>,
        interrupt: CancellationToken,
    ) -> Running<'a>;

    /// Ends a process that stays between runs. The conversation can be resumed with its token.
    fn close<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// The state of a program's installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The executable, if there is one.
    pub path: Option<PathBuf>,
    /// The version that it prints.
    pub version: Option<String>,
    /// What is missing, for the user. None if the program can be used.
    pub problem: Option<String>,
}

/// A program that can work on turns.
pub trait Engine: Send + Sync {
    /// Returns the name, such as `codex`. Sessions select the engine with it as their model, alone or before a slash.
    fn name(&self) -> &'static str;

    /// Returns the names of files and directories from which the program runs something when it is started in their
    /// directory, or in one below it: hooks, servers, plugins, scripts that variables name. For a program that only the
    /// settings describe these are the files of all other programs.
    fn active_files(&self) -> Vec<&'static str>;

    /// Checks whether the program is installed. The version is cached; no agent is started.
    fn probe<'a>(&'a self) -> Pin<Box<dyn Future<Output = Installation> + Send + 'a>>;

    /// Creates a conversation. No process is started yet.
    fn thread(&self, spec: ThreadSpec) -> Box<dyn EngineConversation>;
}

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One process for each conversation, with streaming, permission requests, questions, steering and interrupts.
    /// A program that does not support it runs as [`Mode::Exec`].
    #[default]
    Interactive,
    /// One process for each prompt. The program cannot ask anything. A program that does not support it runs as
    /// [`Mode::Interactive`].
    Exec,
}

/// Settings of one engine, from the configuration file.
#[derive(Debug, Clone, Default)]
pub struct EngineSettings {
    /// The executable, if it is not the usual name on the PATH.
    pub program: Option<PathBuf>,
    /// Additional arguments.
    pub extra_args: Vec<String>,
    /// Additional environment variables.
    pub environment: BTreeMap<String, String>,
    /// How the program is run.
    pub mode: Mode,
    /// Time limits.
    pub limits: TimeLimits,
    /// The program's name of the sandbox for its commands, where it has one (codex: `read-only`,
    /// `workspace-write`, `danger-full-access`).
    pub sandbox: Option<String>,
    /// Whether the whole program runs in the sandbox of the session.
    pub inside: bool,
}
