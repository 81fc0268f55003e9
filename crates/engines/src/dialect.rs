//! How a program is spoken to, as a state machine without I/O: what it says goes in, steps to take come out.
//!
//! There is one dialect for each program and mode. All of them are driven by the same [`thread`](crate::thread), which
//! knows processes, clocks, locks and the laws of reports, and no program.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use baton_protocol::Json;
use baton_protocol::permission::Verdict;
use baton_protocol::tool::ToolResult;
use serde_json::Value;

use crate::{EngineSettings, Report, ResumeToken, ThreadSpec};

/// What a dialect needs to know to start its program.
pub(crate) struct Opening<'a> {
    pub(crate) spec: &'a ThreadSpec,
    pub(crate) settings: &'a EngineSettings,
    /// The conversation to go on with.
    pub(crate) token: Option<&'a ResumeToken>,
    /// Where files may be left for the program.
    pub(crate) scratch: &'a Path,
}

/// How to start a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) args: Vec<String>,
    /// Variables that it needs, which the settings may replace.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// A file that must be there.
    pub(crate) file: Option<(PathBuf, &'static str)>,
}

/// How a program is spoken to.
pub(crate) trait Dialect: Send {
    /// What it is called in messages for people, such as `codex exec`.
    fn name(&self) -> &'static str;

    /// How to start the program. Whatever was known of an earlier process is forgotten.
    fn launch(&mut self, opening: &Opening<'_>) -> Launch;

    /// Gives a prompt to the program, which has just been started or waits after an earlier one.
    fn prompt(&mut self, prompt: &str, steps: &mut Steps);

    /// The program has said this. Between prompts, nothing that it says counts for the next.
    fn hear(&mut self, line: &Value, steps: &mut Steps);

    /// Somebody has decided what was wanted.
    fn decide(&mut self, _reference: &str, _verdict: Verdict, _steps: &mut Steps) {}

    /// Somebody has answered what was asked.
    fn answer(&mut self, _reference: &str, _answer: &str, _steps: &mut Steps) {}

    /// Says something in the middle of a run. False: the program cannot be told now, and will be prompted afterwards.
    fn steer(&mut self, _text: &str, _steps: &mut Steps) -> bool {
        false
    }

    /// Asks the program to stop what it does, and stay. False: it cannot be asked.
    fn interrupt(&mut self, _steps: &mut Steps) -> bool {
        false
    }

    /// Whether the process stays for the next prompt.
    fn stays(&self) -> bool {
        false
    }

    /// Whether the program says nothing before its model does, which may take long.
    fn starts_silently(&self) -> bool {
        false
    }

    /// Whether the conversation outlives the process.
    fn can_be_resumed(&self) -> bool {
        true
    }

    /// Whether a failure means that the program does not know the conversation that it was to go on with. Some write it
    /// down only after they have answered, and may have been killed before that.
    fn has_forgotten(&self, _why: &str) -> bool {
        false
    }

    /// How a run went whose process has ended properly, but without having said so.
    fn at_exit(&self) -> Ending {
        Ending::Failed(format!("{} ended without a result.", self.name()))
    }
}

/// How a run went, as the program sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    Interrupted,
    /// Why.
    Failed(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Say this line.
    Say(String),
    /// Say this as it stands, and nothing more, ever.
    SayAll(String),
    /// The program has named the conversation, again or for the first time.
    Named { token: ResumeToken, model: Option<String> },
    /// Tell this.
    Report(Report),
    /// The program did not take this in the middle of the run; prompt it afterwards.
    Later(String),
    /// The run has ended.
    End(Ending),
}

/// What is to be done, in this order.
#[derive(Debug, Default)]
pub(crate) struct Steps(VecDeque<Step>);

impl Steps {
    pub(crate) fn pop(&mut self) -> Option<Step> {
        self.0.pop_front()
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.0.push_back(step);
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.push(Step::Say(message.to_string()));
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.push(Step::Report(report));
    }

    pub(crate) fn named(&mut self, token: &str, model: Option<&str>) {
        self.push(Step::Named { token: ResumeToken(token.to_owned()), model: model.map(str::to_owned) });
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

    pub(crate) fn end(&mut self, ending: Ending) {
        self.push(Step::End(ending));
    }

    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.end(Ending::Failed(why.into()));
    }
}
