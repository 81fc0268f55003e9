//! Other agents' programs as engines: codex, claude, opencode, pi, and whatever speaks ACP.
//!
//! An [`Engine`] is a program that can be installed; a [`Thread`] is one conversation with it, bound to a directory and,
//! once it has begun, to the program's own id for it. A thread runs one prompt at a time and reports what the program does
//! in one vocabulary, [`Report`], whatever the program prints. It never talks to clients and never writes history: what a
//! report means for a session is `baton-core`'s business.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod acp;
mod claude;
mod codex;
mod dialect;
mod json;
mod limits;
mod locks;
mod opencode;
mod pi;
mod probe;
mod process;
mod program;
mod registry;
mod thread;
mod wants;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use baton_agent::tools::shell::Processes;
use baton_protocol::Json;
use baton_protocol::event::{AssistantUsage, UserQuestion};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ToolResult;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use limits::Limits;
pub use program::ACP_PREFIX;
pub use registry::{Registry, Surroundings};

/// The program's own id of a conversation, with which it can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResumeToken(pub String);

/// What a conversation needs to know before it begins.
#[derive(Debug, Clone)]
pub struct ThreadSpec {
    /// Where it works.
    pub cwd: PathBuf,
    /// Which model, in the program's own words; none means its default.
    pub model: Option<String>,
    /// How hard to think, in the program's own words.
    pub reasoning_effort: Option<String>,
    /// The conversation to go on with; none begins a new one.
    pub resume: Option<ResumeToken>,
    /// Whether the program may do everything without asking.
    pub allow_all: bool,
    /// What the tags of its processes begin with, such as `<uuid>/`. The variable is
    /// [`TAG_VARIABLE`](baton_agent::tools::shell::TAG_VARIABLE); whoever gives the tag can end whatever still carries
    /// it, even after this process was killed.
    pub tag: String,
    /// Is told of its processes, for the case that this one is killed.
    pub processes: Processes,
}

/// What happens during a run, in the order in which it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The program has named the conversation. Once only, in a run that gets that far; before it come at most notes.
    Started {
        /// Its name.
        token: ResumeToken,
        /// The model that answers, where the program says so.
        model: Option<String>,
    },
    /// More text of the answer.
    TextDelta(String),
    /// More thinking.
    ReasoningDelta(String),
    /// A whole message of the agent. The last one of a run is its answer.
    Message {
        /// Its text.
        text: String,
        /// What was thought before it.
        reasoning: Option<String>,
    },
    /// The agent begins to do something.
    CallStarted {
        /// The program's id, stable between start and end.
        id: String,
        /// What: `bash`, `edit`, `web_search`, a tool's name.
        tool: String,
        /// With what.
        arguments: Json,
    },
    /// New output of what it does.
    CallOutput {
        /// Which.
        id: String,
        /// More output.
        output: String,
    },
    /// It is done. Every `CallStarted` has exactly one.
    CallFinished {
        /// Which.
        id: String,
        /// What came of it.
        result: ToolResult,
    },
    /// The program asks whether it may; it waits for [`Control::Decide`] with the same reference.
    Wants {
        /// To be repeated with the answer.
        reference: String,
        /// The call it is about, if it has begun.
        call: Option<String>,
        /// What it wants.
        wants: Box<PermissionRequest>,
    },
    /// The program asks the user; it waits for [`Control::Answer`] with the same reference.
    Asks {
        /// To be repeated with the answer.
        reference: String,
        /// The question.
        question: UserQuestion,
    },
    /// The program does not wait for this decision or answer any more.
    Withdrawn {
        /// Which.
        reference: String,
    },
    /// What was used since the last such report.
    Usage(Box<AssistantUsage>),
    /// Something worth knowing: a retry, a warning, a plan.
    Note {
        /// Whether it needs attention.
        warning: bool,
        /// In words for people.
        text: String,
    },
}

/// What can be said to a run while it goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    /// The answer to [`Report::Wants`].
    Decide {
        /// Which.
        reference: String,
        /// The decision.
        verdict: Verdict,
    },
    /// The answer to [`Report::Asks`].
    Answer {
        /// Which.
        reference: String,
        /// What the user said.
        answer: String,
        /// Whether they typed it, rather than chose it.
        was_freeform: bool,
    },
    /// Another prompt that should reach the agent as soon as possible. An engine that cannot steer runs it afterwards,
    /// within the same run.
    Steer(String),
}

/// How a run ended. Exactly one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The agent has answered.
    Completed,
    /// It could not be done: what happened, what to do. The tail of the program's stderr, if it says more.
    Failed {
        /// For people.
        message: String,
        /// The end of what the program wrote to stderr.
        diagnostics: Option<String>,
    },
    /// It was interrupted as asked.
    Interrupted,
    /// The program does not know the conversation that it was to go on with, and has done nothing. The next run begins a
    /// new one: whoever knows what was said so far can say it again.
    Forgotten,
}

/// An outcome, to be awaited. Dropping it ends the run and every process of it.
pub type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// One conversation with a program.
pub trait Thread: Send {
    /// Runs one prompt to its end. `interrupt` asks for an early end; the program is given a chance to stop by itself
    /// before it is ended by force.
    fn run<'a>(
        &'a mut self,
        prompt: String,
        reports: mpsc::UnboundedSender<Report>,
        control: mpsc::UnboundedReceiver<Control>,
        interrupt: CancellationToken,
    ) -> Running<'a>;

    /// Ends the program, if it is kept between runs. The conversation can be opened again with its token.
    fn close<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// Whether a program is there, and in what state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Where it is.
    pub path: Option<PathBuf>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// What is missing, for people; none if it can be used.
    pub problem: Option<String>,
}

/// A program that can be driven.
pub trait Engine: Send + Sync {
    /// Its name, such as `codex`: what sessions choose as their model, alone or before a slash.
    fn name(&self) -> &'static str;

    /// Looks whether it is installed. Cheap enough to be asked now and then; never runs an agent.
    fn probe<'a>(&'a self) -> Pin<Box<dyn Future<Output = Probe> + Send + 'a>>;

    /// A conversation. Starts nothing yet.
    fn thread(&self, spec: ThreadSpec) -> Box<dyn Thread>;
}

/// How a program is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One process for a conversation, which is asked and answered: deltas, approvals, questions, steering, interrupts.
    /// Where a program does not offer it, as [`Mode::Exec`].
    #[default]
    Interactive,
    /// One process for a prompt. Nobody can be asked anything. Where a program does not offer it, as
    /// [`Mode::Interactive`].
    Exec,
}

/// Settings of one engine, from the configuration file.
#[derive(Debug, Clone, Default)]
pub struct EngineSettings {
    /// The program, if it is not the usual name on the PATH.
    pub program: Option<PathBuf>,
    /// Further arguments.
    pub extra_args: Vec<String>,
    /// Further variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// How it is spoken to.
    pub mode: Mode,
    /// How long it may take.
    pub limits: Limits,
    /// The sandbox for its commands, in the program's own words, where it has one (codex: `read-only`,
    /// `workspace-write`, `danger-full-access`).
    pub sandbox: Option<String>,
}
