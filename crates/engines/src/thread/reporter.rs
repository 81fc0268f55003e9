//! Enforces the rules for reports, whatever the program prints: `Started` is sent once, and only notes and retries precede it;
//! every call starts once and finishes once.

use std::collections::HashSet;

use baton_protocol::tool::ToolResult;
use tokio::sync::mpsc;

use crate::process::OutputLine;
use crate::{Report, ResumeToken};

/// How many lines that are not JSON are reported in one run.
const MAX_UNREADABLE: usize = 5;

/// Sends the reports of one run.
pub(super) struct Reporter {
    program: &'static str,
    reports: mpsc::UnboundedSender<Report>,
    has_started: bool,
    /// All calls of the run.
    started_calls: HashSet<String>,
    /// The running calls, oldest first.
    open_calls: Vec<String>,
    unreadable: usize,
}

impl Reporter {
    pub(super) fn new(program: &'static str, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self {
            program,
            reports,
            has_started: false,
            started_calls: HashSet::new(),
            open_calls: Vec::new(),
            unreadable: 0,
        }
    }

    /// Waits until the receiver of the reports is dropped.
    pub(super) async fn abandoned(&self) {
        self.reports.closed().await;
    }

    pub(super) fn started(&mut self, token: ResumeToken, model: Option<String>) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.send(Report::Started { token, model });
        }
    }

    /// Whether `Started` was sent.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Sends a report if the rules allow it.
    pub(super) fn report(&mut self, report: Report) {
        let is_valid = match &report {
            Report::Note { .. } | Report::StandingWarning(_) | Report::Retries(_) => true,
            Report::Started { .. } => false,
            _ if !self.has_started => false,
            Report::Message { text, reasoning } => !text.is_empty() || reasoning.is_some(),
            Report::CallStarted { id, .. } if id.is_empty() => false,
            Report::CallStarted { id, .. } => {
                let is_new = self.started_calls.insert(id.clone());
                if is_new {
                    self.open_calls.push(id.clone());
                }
                is_new
            }
            Report::CallOutput { id, output } => !output.is_empty() && self.open_calls.contains(id),
            Report::CallFinished { id, .. } => {
                let was_open = self.open_calls.contains(id);
                self.open_calls.retain(|open| open != id);
                was_open
            }
            Report::TextDelta(text) | Report::ReasoningDelta(text) => !text.is_empty(),
            _ => true,
        };
        if is_valid {
            self.send(report);
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        self.send(Report::Note { warning: true, text });
    }

    /// Warns about a line that is not JSON or too long.
    pub(super) fn unreadable(&mut self, line: &OutputLine) {
        self.unreadable += 1;
        let program = self.program;
        match line {
            _ if self.unreadable > MAX_UNREADABLE + 1 => {}
            _ if self.unreadable > MAX_UNREADABLE => {
                self.warn(format!("{program} printed more lines that are not JSON. They are not shown."));
            }
            OutputLine::Garbage(text) => {
                self.warn(format!("{program} printed a line that is not JSON, which was skipped: {text}"));
            }
            OutputLine::TooLong(length) => self.warn(format!(
                "{program} printed a line of {length} bytes, which is too long and was skipped."
            )),
            OutputLine::Json(_) | OutputLine::Diagnostic(_) => {}
        }
    }

    /// Ends the run: every running call finishes with a failure.
    pub(super) fn close(&mut self, reason: &str) {
        for id in std::mem::take(&mut self.open_calls) {
            self.send(Report::CallFinished { id, result: ToolResult::failure(reason) });
        }
    }

    fn send(&self, report: Report) {
        let _ = self.reports.send(report);
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Json;
    use proptest::prelude::*;

    use super::*;

    fn collected(send: impl FnOnce(&mut Reporter)) -> Vec<Report> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut reporter = Reporter::new("codex", sender);
        send(&mut reporter);
        drop(reporter);
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    fn start(id: &str) -> Report {
        Report::CallStarted { id: id.into(), tool: "bash".into(), arguments: Json::null() }
    }

    fn finish(id: &str) -> Report {
        Report::CallFinished { id: id.into(), result: ToolResult::success("") }
    }

    #[test]
    fn started_is_sent_once() {
        let token = || ResumeToken("t".into());
        let reports = collected(|reporter| {
            reporter.started(token(), None);
            reporter.started(token(), None);
        });
        assert_eq!(reports, [Report::Started { token: token(), model: None }]);
    }

    #[test]
    fn only_notes_precede_started() {
        let reports = collected(|reporter| {
            reporter.report(start("a"));
            reporter.report(Report::TextDelta("x".into()));
            reporter.warn("careful".into());
        });
        assert_eq!(reports, [Report::Note { warning: true, text: "careful".into() }]);
    }

    #[test]
    fn warnings_about_unreadable_lines_are_limited() {
        let reports = collected(|reporter| {
            (0..1000).for_each(|n| reporter.unreadable(&OutputLine::Garbage(format!("x{n}"))));
        });
        assert_eq!(reports.len(), MAX_UNREADABLE + 1);
        let Some(Report::Note { warning: true, text }) = reports.last() else { panic!("{reports:?}") };
        assert!(text.ends_with("They are not shown."), "{text}");
    }

    proptest! {
        #[test]
        fn every_call_starts_once_and_finishes_once(script in prop::collection::vec((0..4usize, 0..3u8), 0..40)) {
            let reports = collected(|reporter| {
                reporter.started(ResumeToken("t".into()), None);
                for (call, what) in &script {
                    let id = call.to_string();
                    reporter.report(match what {
                        0 => start(&id),
                        1 => Report::CallOutput { id, output: "o".into() },
                        _ => finish(&id),
                    });
                }
                reporter.close("over");
            });
            for call in 0..4usize {
                let id = call.to_string();
                let of_call: Vec<u8> = reports.iter().filter_map(|report| match report {
                    Report::CallStarted { id: i, .. } if *i == id => Some(0),
                    Report::CallOutput { id: i, .. } if *i == id => Some(1),
                    Report::CallFinished { id: i, .. } if *i == id => Some(2),
                    _ => None,
                }).collect();
                let well_formed = of_call.is_empty()
                    || (of_call.first() == Some(&0)
                        && of_call.last() == Some(&2)
                        && of_call[1..of_call.len() - 1].iter().all(|what| *what == 1));
                prop_assert!(well_formed, "{of_call:?}");
            }
        }
    }
}
