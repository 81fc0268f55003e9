//! Asks about the workflows of a session. The server that holds the session serves them.
//!
//! The errors of workflows have codes that SDKs compare, so replies are results.

use baton_protocol::workflow::{Limits, Vocabulary};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::family::family;

/// What an ask about workflows replies.
type Reply<T> = Result<T, WorkflowError>;

family! {
    /// Asks about workflows.
    WorkflowsAsk, WorkflowsReply in Workflows;

    /// Starts a run. Replies its state when it is durable, before it has ended.
    StartRun {
        /// Name of the workflow.
        name: String,
        /// Its arguments.
        args: Value,
        /// Limits, in place of the declared ones.
        limits: Limits,
        /// Names of the events that clients are shown.
        events: Vocabulary,
    } -> Reply<RunOutcome>;

    /// Starts a run again that has failed or was interrupted, with its arguments and journal. Replies the name of its workflow
    /// and its state.
    ResumeRun {
        /// The run.
        run: String,
        /// Limits, in place of those that it had.
        limits: Limits,
        /// Names of the events that clients are shown.
        events: Vocabulary,
    } -> Reply<(String, RunOutcome)>;

    /// Returns the state of a run.
    GetRun {
        /// The run.
        run: String,
    } -> Reply<RunOutcome>;

    /// Describes a run with its phases and its newest progress.
    DescribeRun {
        /// The run.
        run: String,
    } -> Reply<RunDetails>;

    /// Returns a page of a run's progress.
    ReadRunProgress {
        /// The run.
        run: String,
        /// The page.
        page: ProgressRange,
    } -> Reply<ProgressPage>;

    /// Lists the newest runs, the newest first.
    ListRuns {
        /// Most runs of the list.
        limit: usize,
    } -> Reply<RunList>;

    /// Cancels a run. Replies its outcome, which may be another if it ended first.
    CancelRun {
        /// The run.
        run: String,
    } -> Reply<RunOutcome>;

    /// Adds lines that the code of a run reports.
    ReportProgress {
        /// The run.
        run: String,
        /// Token of its execution.
        token: String,
        /// The lines.
        lines: Vec<ReportedLine>,
    } -> Reply<()>;

    /// Looks up the result of a step.
    RecallStep {
        /// The run.
        run: String,
        /// Token of its execution.
        token: String,
        /// Name of the step.
        key: String,
    } -> Reply<Option<Value>>;

    /// Records the result of a step.
    RecordStep {
        /// The run.
        run: String,
        /// Token of its execution.
        token: String,
        /// Name of the step.
        key: String,
        /// Its result.
        result: Value,
    } -> Reply<()>;

    /// Runs a sub-agent for the code of a run, and replies its answer. It ends with the execution.
    RunWorkflowAgent {
        /// The run.
        run: String,
        /// Token of its execution.
        token: String,
        /// The task.
        task: AgentTask,
    } -> Reply<String>;

    /// Returns the events of the runs that were interrupted when this server took the session over.
    ListInterruptedRuns {} -> Reply<Vec<(String, Value)>>;
}

impl WorkflowsAsk {
    /// Whether asking twice is harmless.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::GetRun(_)
            | Self::DescribeRun(_)
            | Self::ReadRunProgress(_)
            | Self::ListRuns(_)
            | Self::CancelRun(_)
            | Self::RecallStep(_)
            | Self::ListInterruptedRuns(_) => true,
            Self::StartRun(_)
            | Self::ResumeRun(_)
            | Self::ReportProgress(_)
            | Self::RecordStep(_)
            | Self::RunWorkflowAgent(_) => false,
        }
    }
}

/// Why an ask about workflows failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowError {
    /// Code that SDKs compare.
    pub code: Option<String>,
    /// Message for people.
    pub message: String,
}

impl WorkflowError {
    /// Creates an error with a code that SDKs compare.
    #[must_use]
    pub fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { code: Some(code.to_owned()), message: message.into() }
    }

    /// Creates an error without a code.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into() }
    }
}

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Its code is running.
    Running,
    /// It has a result.
    Completed,
    /// It was interrupted, or reached a limit.
    Halted,
    /// A client cancelled it.
    Cancelled,
    /// Its code failed.
    Error,
}

/// State of a run, with its result if it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    /// Its id.
    pub run_id: String,
    /// Its status.
    pub status: RunStatus,
    /// Result of a completed run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result: Option<Value>,
    /// What else is known of its end.
    #[serde(flatten)]
    pub end: RunEnd,
}

/// How a run has ended, without its result, which can be large.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Why it was interrupted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The limit that it reached.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Value>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// Its id.
    pub run_id: String,
    /// Name of its workflow. SDKs of each generation have a name of their own for the field.
    pub workflow: String,
    /// Purpose of its workflow.
    pub description: String,
    /// Its status.
    pub status: RunStatus,
    /// Number of its changes.
    pub revision: u64,
    /// When it was created, in milliseconds.
    pub created_at: u64,
    /// When it was started last.
    pub started_at: u64,
    /// When it was changed last.
    pub updated_at: u64,
    /// When it ended.
    pub completed_at: Option<u64>,
    /// The phase that it is in.
    pub current_phase: Option<CurrentPhase>,
    /// Number of phases that were declared.
    pub declared_phase_count: usize,
    /// Number of sub-agents that are running, as SDKs read it; zero.
    pub live_agent_count: u32,
    /// Number of sub-agents that it has started.
    pub total_spawned_agent_count: u32,
    /// What it has used.
    pub consumed: Consumption,
    /// Limits that were declared.
    pub declared_limits: Limits,
    /// Limits that apply.
    pub approved: Limits,
    /// Time of the reply.
    pub observed_at: u64,
    /// When the current attempt began, while it runs.
    pub active_segment_started_at: Option<u64>,
    /// How it ended.
    pub terminal: Option<RunEnd>,
}

/// A phase that a run is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentPhase {
    /// Its title.
    pub id: String,
    /// Its position among the declared phases.
    pub ordinal: Option<usize>,
}

/// What a run has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumption {
    /// Sub-agents that it has started.
    pub subagents: u32,
    /// Credits, as SDKs read them; zero.
    pub nano_aiu: u64,
    /// Time of the current or last attempt, in milliseconds.
    pub active_ms: u64,
}

/// A run with its phases and its newest progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunDetails {
    /// The run.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Its phases: the declared ones, then others that it has entered.
    pub phases: Vec<RunPhase>,
    /// Its sub-agents, as SDKs read them; none.
    pub agents: Vec<Value>,
    /// Its newest progress.
    pub progress: ProgressPage,
}

/// A phase of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPhase {
    /// Its title.
    pub id: String,
    /// Its position among the declared phases.
    pub ordinal: Option<usize>,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: PhaseStatus,
    /// Attempt in which it was entered last; zero if it was not.
    pub last_entered_run_attempt: u32,
    /// How often it was entered.
    pub entry_count: u32,
    /// Time in it before it was entered last, in milliseconds.
    pub accumulated_active_ms: u64,
    /// Time in it since then, while the run is in it.
    pub current_active_ms: u64,
    /// Number of its sub-agents, as SDKs read it; zero.
    pub total_agent_count: u32,
    /// Number of them that are running; zero.
    pub live_agent_count: u32,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// When it was entered last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<u64>,
    /// When it was left.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub completed_at: Option<u64>,
}

/// Status of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseStatus {
    /// The run is in it.
    Active,
    /// The run has left it.
    Completed,
    /// The run may still enter it.
    Pending,
    /// The run has ended without it.
    Skipped,
}

/// Runs, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Whether there are newer ones, as SDKs read it; none.
    pub has_more_newer: bool,
    /// Number of older ones.
    pub omitted_older: usize,
}

/// Which lines of progress are wanted: the newest, or those before or after one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressRange {
    /// Only lines of this phase.
    pub phase_id: Option<String>,
    /// Only lines before this one.
    pub before_seq: Option<u64>,
    /// Only lines after this one.
    pub after_seq: Option<u64>,
    /// Most lines.
    pub limit: Option<usize>,
}

/// Lines of progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressPage {
    /// The lines, the oldest first.
    pub records: Vec<ProgressLine>,
    /// Number of the first line.
    pub oldest_seq: Option<u64>,
    /// Number of the last line.
    pub newest_seq: Option<u64>,
    /// Whether there are older lines.
    pub has_more_older: bool,
    /// Whether there are newer lines.
    pub has_more_newer: bool,
    /// Number of changes of the run.
    pub revision: u64,
}

/// A line of progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressLine {
    /// Its number.
    pub seq: u64,
    /// The attempt that reported it.
    pub attempt: u32,
    /// The phase that the run was in.
    pub phase_id: Option<String>,
    /// When it was reported, in milliseconds.
    pub recorded_at: u64,
    /// Its kind.
    pub kind: LineKind,
    /// The line, or the title of the phase that begins.
    pub text: String,
}

/// A line of progress that the code of a run reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedLine {
    /// Its kind.
    pub kind: LineKind,
    /// The line, or the title of the phase that begins.
    pub text: String,
}

/// Kind of a line of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A message.
    Log,
    /// A phase begins.
    Phase,
}

/// A task that the code of a run gives to a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// Kind of the agent.
    pub agent_type: String,
    /// The task.
    pub prompt: String,
    /// Display name.
    pub label: Option<String>,
    /// Model, in place of the kind's.
    pub model: Option<String>,
}
