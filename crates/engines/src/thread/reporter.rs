//! The laws of reports, kept whatever a program says: a conversation is named once, before anything but notes; every call
//! begins once and ends once.

use std::collections::HashSet;

use baton_protocol::tool::ToolResult;
use tokio::sync::mpsc;

use crate::process::Line;
use crate::{Report, ResumeToken};

/// So many lines that are no JSON are shown in one run.
const MOST_UNREADABLE: usize = 5;

pub(super) struct Reporter {
    program: &'static str,
    reports: mpsc::UnboundedSender<Report>,
    has_started: bool,
    /// All calls of this run.
    begun: HashSet<String>,
    /// Those that have not ended, oldest first.
    open: Vec<String>,
    unreadable: usize,
}

impl Reporter {
    pub(super) fn new(program: &'static str, reports: mpsc::UnboundedSender<Report>) -> Self {
        Self { program, reports, has_started: false, begun: HashSet::new(), open: Vec::new(), unreadable: 0 }
    }

    /// Waits until nobody listens any more.
    pub(super) async fn abandoned(&self) {
        self.reports.closed().await;
    }

    pub(super) fn started(&mut self, token: ResumeToken, model: Option<String>) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.send(Report::Started { token, model });
        }
    }

    /// Whether the conversation has been named.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    pub(super) fn report(&mut self, report: Report) {
        let lawful = match &report {
            Report::Note { .. } => true,
            Report::Started { .. } => false,
            _ if !self.has_started => false,
            Report::Message { text, reasoning } => !text.is_empty() || reasoning.is_some(),
            Report::CallStarted { id, .. } if id.is_empty() => false,
            Report::CallStarted { id, .. } => {
                let is_new = self.begun.insert(id.clone());
                if is_new {
                    self.open.push(id.clone());
                }
                is_new
            }
            Report::CallOutput { id, output } => !output.is_empty() && self.open.contains(id),
            Report::CallFinished { id, .. } => {
                let was_open = self.open.contains(id);
                self.open.retain(|open| open != id);
                was_open
            }
            Report::TextDelta(text) | Report::ReasoningDelta(text) => !text.is_empty(),
            _ => true,
        };
        if lawful {
            self.send(report);
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        self.send(Report::Note { warning: true, text });
    }

    /// A line that is no use to anybody.
    pub(super) fn unreadable(&mut self, line: &Line) {
        self.unreadable += 1;
        let program = self.program;
        match line {
            _ if self.unreadable > MOST_UNREADABLE + 1 => {}
            _ if self.unreadable > MOST_UNREADABLE => {
                self.warn(format!("{program} printed more lines that are no JSON. They are not shown."));
            }
            Line::Garbage(text) => {
                self.warn(format!("{program} printed a line that is no JSON, which was skipped: {text}"));
            }
            Line::TooLong(length) => self.warn(format!(
                "{program} printed a line of {length} bytes, which is too long and was skipped."
            )),
            Line::Json(_) => {}
        }
    }

    /// The run is over, and with it every call of it.
    pub(super) fn close(&mut self, why: &str) {
        for id in std::mem::take(&mut self.open) {
            self.send(Report::CallFinished { id, result: ToolResult::failure(why) });
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

    fn collected(tell: impl FnOnce(&mut Reporter)) -> Vec<Report> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut reporter = Reporter::new("codex", sender);
        tell(&mut reporter);
        drop(reporter);
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    fn begin(id: &str) -> Report {
        Report::CallStarted { id: id.into(), tool: "bash".into(), arguments: Json::null() }
    }

    fn finish(id: &str) -> Report {
        Report::CallFinished { id: id.into(), result: ToolResult::success("") }
    }

    #[test]
    fn a_conversation_is_named_once() {
        let token = || ResumeToken("t".into());
        let told = collected(|reporter| {
            reporter.started(token(), None);
            reporter.started(token(), None);
        });
        assert_eq!(told, [Report::Started { token: token(), model: None }]);
    }

    #[test]
    fn before_it_is_named_there_are_only_notes() {
        let told = collected(|reporter| {
            reporter.report(begin("a"));
            reporter.report(Report::TextDelta("x".into()));
            reporter.warn("careful".into());
        });
        assert_eq!(told, [Report::Note { warning: true, text: "careful".into() }]);
    }

    #[test]
    fn a_flood_of_garbage_is_cut_short() {
        let told = collected(|reporter| {
            (0..1000).for_each(|n| reporter.unreadable(&Line::Garbage(format!("x{n}"))));
        });
        assert_eq!(told.len(), MOST_UNREADABLE + 1);
        let Some(Report::Note { warning: true, text }) = told.last() else { panic!("{told:?}") };
        assert!(text.ends_with("They are not shown."), "{text}");
    }

    proptest! {
        #[test]
        fn every_call_begins_once_and_ends_once(script in prop::collection::vec((0..4usize, 0..3u8), 0..40)) {
            let told = collected(|reporter| {
                reporter.started(ResumeToken("t".into()), None);
                for (call, what) in &script {
                    let id = call.to_string();
                    reporter.report(match what {
                        0 => begin(&id),
                        1 => Report::CallOutput { id, output: "o".into() },
                        _ => finish(&id),
                    });
                }
                reporter.close("over");
            });
            for call in 0..4usize {
                let id = call.to_string();
                let of_call: Vec<u8> = told.iter().filter_map(|report| match report {
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
