//! The protocol of a program, as a state machine without I/O: lines of the program go in, steps to execute come out.
//!
//! There is one adapter for each program and mode. All of them are driven by [`thread`](crate::thread), which knows
//! processes, time limits, locks and the rules for reports, but no program.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use baton_protocol::Json;
use baton_protocol::permission::Verdict;
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::Value;

use crate::{EngineSettings, Report, ResumeToken, ThreadSpec};

/// Information that an adapter needs to start its program.
pub(crate) struct LaunchContext<'a> {
    pub(crate) spec: &'a ThreadSpec,
    pub(crate) settings: &'a EngineSettings,
    /// The conversation to resume.
    pub(crate) token: Option<&'a ResumeToken>,
    /// Directory for files that the program reads.
    pub(crate) scratch: &'a Path,
}

impl LaunchContext<'_> {
    /// Returns the arguments for the conversation, the model and the reasoning effort, each under the option that the
    /// program has for it, then the extra arguments of the settings.
    pub(crate) fn args(&self, conversation: &str, model: &str, effort: &str) -> Vec<String> {
        let options = [
            (conversation, self.token.map(|token| &token.0)),
            (model, self.spec.model.as_ref()),
            (effort, self.spec.reasoning_effort.as_ref()),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?.clone()]));
        options.flatten().chain(self.settings.extra_args.iter().cloned()).collect()
    }
}

/// How to start a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) args: Vec<String>,
    /// Environment variables that it needs. The settings can override them.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// A file that must exist, with its content.
    pub(crate) file: Option<(PathBuf, &'static str)>,
}

/// The protocol of a program.
pub(crate) trait Adapter: Send {
    /// Returns the name in messages to the user, such as `codex exec`.
    fn name(&self) -> &'static str;

    /// Resets the state machine and returns how to start the program.
    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch;

    /// Sends a prompt to the program, which was just started or is idle after an earlier prompt.
    fn prompt(&mut self, prompt: &str, steps: &mut Steps);

    /// Handles a line of the program. A line that arrives between prompts has no effect on the next one.
    fn receive(&mut self, line: &Value, steps: &mut Steps);

    /// Handles a line of the program's stderr, without terminal sequences.
    fn receive_diagnostic(&mut self, _line: &str, _steps: &mut Steps) {}

    /// Answers a permission request.
    fn decide(&mut self, _reference: &str, _verdict: Verdict, _steps: &mut Steps) {}

    /// Answers a question to the user.
    fn answer(&mut self, _reference: &str, _answer: &str, _steps: &mut Steps) {}

    /// Sends a message in the middle of a run. Returns false if the program cannot take it now; it is then sent as a
    /// prompt after the current one.
    fn steer(&mut self, _text: &str, _steps: &mut Steps) -> bool {
        false
    }

    /// Asks the program to stop its work without exiting. Returns false if the protocol has no way to ask.
    fn interrupt(&mut self, _steps: &mut Steps) -> bool {
        false
    }

    /// Whether the process serves several prompts.
    fn is_persistent(&self) -> bool {
        false
    }

    /// Whether the program prints nothing before its model answers, which may take long.
    fn starts_silently(&self) -> bool {
        false
    }

    /// Whether the program tells by itself, with its first output, that it is not logged in.
    fn reports_login(&self) -> bool {
        false
    }

    /// Whether the conversation survives its process.
    fn is_resumable(&self) -> bool {
        true
    }

    /// Whether an error means that the program does not know the conversation it was asked to resume. Some programs
    /// save it only after they have answered, and may have been killed before that.
    fn is_unknown_conversation(&self, _error: &str) -> bool {
        false
    }

    /// Returns how a run ended whose process exited successfully without reporting a result.
    fn ending_at_exit(&self) -> RunEnding {
        RunEnding::Failed(format!("{} ended without a result.", self.name()))
    }
}

/// How a run ended, according to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunEnding {
    Completed,
    Interrupted,
    /// With the reason.
    Failed(String),
}

/// An action that an adapter requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Write a line to the program.
    Send(String),
    /// Write a text as it is, then close the program's stdin.
    SendAndClose(String),
    /// The id of the conversation, as the program prints it. May be repeated.
    Identified { token: ResumeToken, model: Option<String> },
    /// Send a report.
    Report(Report),
    /// The program did not accept this message during the run; send it as the next prompt.
    Defer(String),
    /// The run has ended.
    End(RunEnding),
}

/// Steps in the order in which they are executed.
#[derive(Debug, Default)]
pub(crate) struct Steps(VecDeque<Step>);

impl Steps {
    pub(crate) fn pop(&mut self) -> Option<Step> {
        self.0.pop_front()
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.0.push_back(step);
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.push(Step::Send(message.to_string()));
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.push(Step::Report(report));
    }

    pub(crate) fn identified(&mut self, token: &str, model: Option<&str>) {
        self.push(Step::Identified { token: ResumeToken(token.to_owned()), model: model.map(str::to_owned) });
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.report(Report::Note { warning: false, text: text.into() });
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.report(Report::Note { warning: true, text: text.into() });
    }

    pub(crate) fn call_started(&mut self, id: &str, tool: &str, arguments: Value) {
        let arguments = Json::from(arguments);
        self.report(Report::CallStarted { id: id.to_owned(), tool: tool.to_owned(), arguments });
    }

    pub(crate) fn call_finished(&mut self, id: &str, result: ToolResult) {
        self.report(Report::CallFinished { id: id.to_owned(), result });
    }

    pub(crate) fn end(&mut self, ending: RunEnding) {
        self.push(Step::End(ending));
    }

    pub(crate) fn fail(&mut self, reason: impl Into<String>) {
        self.end(RunEnding::Failed(reason.into()));
    }
}

/// Warning about an answer that was cut off.
pub(crate) const OUTPUT_LIMIT: &str = "The answer was cut off: the model reached its output limit.";

/// Returns the result of a call whose output is `text`.
pub(crate) fn tool_result(text: String, result_type: ResultType) -> ToolResult {
    ToolResult { text_result_for_llm: text, result_type, ..ToolResult::default() }
}

/// Returns the type of a result. Programs report a denied call as a failed one.
pub(crate) fn result_type(was_denied: bool, has_failed: bool) -> ResultType {
    match (was_denied, has_failed) {
        (true, _) => ResultType::Denied,
        (false, true) => ResultType::Failure,
        (false, false) => ResultType::Success,
    }
}
