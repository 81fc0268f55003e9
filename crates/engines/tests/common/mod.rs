//! What all tests of engines need: an engine, a conversation with it, and somebody who listens.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_engines::{
    Control, Engine, EngineSettings, Outcome, Registry, Report, ResumeToken, Surroundings, Thread, ThreadSpec,
};
use baton_protocol::permission::Verdict;
use baton_testkit::processes::Marker;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a test waits for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// An engine in a directory of its own.
pub(crate) struct Bench {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) marker: Marker,
    pub(crate) engine: Arc<dyn Engine>,
}

impl Bench {
    /// `settings` may use the directory. Every process carries the marker.
    pub(crate) fn new(name: &str, settings: impl FnOnce(&Path) -> EngineSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let marker = Marker::new();
        let mut settings = settings(directory.path());
        settings.environment.insert("BATON_TEST_MARKER".into(), marker.word().into());
        let surroundings = Surroundings {
            environment: vec![
                ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
                ("HOME".into(), OsString::from(directory.path())),
            ],
            scratch: directory.path().join("scratch"),
        };
        let registry = Registry::new(BTreeMap::from([(name.to_owned(), settings)]), surroundings);
        let engine = Arc::clone(registry.get(name).unwrap());
        Self { directory, marker, engine }
    }

    /// Where agents work.
    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(crate) fn spec(&self) -> ThreadSpec {
        ThreadSpec {
            cwd: self.work(),
            model: None,
            reasoning_effort: None,
            resume: None,
            allow_all: false,
            tag: format!("{}/", self.marker.word()),
            processes: Default::default(),
        }
    }

    pub(crate) fn thread(&self) -> Box<dyn Thread> {
        self.engine.thread(self.spec())
    }

    /// A conversation that goes on with another.
    pub(crate) fn resumed(&self, token: &ResumeToken) -> Box<dyn Thread> {
        self.engine.thread(ThreadSpec { resume: Some(token.clone()), ..self.spec() })
    }

    /// Whether nothing that the engine started runs any more.
    pub(crate) async fn nothing_is_left(&self, after: &str) {
        self.marker.until_gone(after).await;
    }
}

/// A run that came to its end.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) reports: Vec<Report>,
    pub(crate) outcome: Outcome,
}

/// What a test can do while a run goes on.
pub(crate) struct Desk {
    control: mpsc::UnboundedSender<Control>,
    pub(crate) interrupt: CancellationToken,
}

impl Desk {
    pub(crate) fn decide(&self, reference: &str, verdict: Verdict) {
        let _ = self.control.send(Control::Decide { reference: reference.to_owned(), verdict });
    }

    pub(crate) fn answer(&self, reference: &str, answer: &str) {
        let (reference, answer) = (reference.to_owned(), answer.to_owned());
        let _ = self.control.send(Control::Answer { reference, answer, was_freeform: false });
    }

    pub(crate) fn steer(&self, text: &str) {
        let _ = self.control.send(Control::Steer(text.to_owned()));
    }
}

/// Runs a prompt to its end. `listen` hears every report and may act on it.
pub(crate) async fn run(
    thread: &mut dyn Thread,
    prompt: &str,
    mut listen: impl FnMut(&Report, &Desk),
) -> Told {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (control, controlled) = mpsc::unbounded_channel();
    let interrupt = CancellationToken::new();
    let desk = Desk { control, interrupt: interrupt.clone() };
    let mut reports = Vec::new();
    let running = thread.run(prompt.to_owned(), sender, controlled, interrupt);
    let listening = async {
        while let Some(report) = receiver.recv().await {
            listen(&report, &desk);
            reports.push(report);
        }
    };
    let both = async { tokio::join!(running, listening).0 };
    let Ok(outcome) = tokio::time::timeout(LIMIT, both).await else {
        panic!("the run did not end within {LIMIT:?}; reports: {reports:#?}")
    };
    Told { reports, outcome }
}

/// Runs a prompt with nobody to ask.
pub(crate) async fn say(thread: &mut dyn Thread, prompt: &str) -> Told {
    run(thread, prompt, |_, _| {}).await
}

/// Runs a prompt and decides all that is wanted in the same way.
pub(crate) async fn say_and_decide(thread: &mut dyn Thread, prompt: &str, verdict: &Verdict) -> Told {
    run(thread, prompt, |report, desk| {
        if let Report::Wants { reference, .. } = report {
            desk.decide(reference, verdict.clone());
        }
    })
    .await
}

impl Told {
    pub(crate) fn token(&self) -> ResumeToken {
        let token = self.reports.iter().find_map(|report| match report {
            Report::Started { token, .. } => Some(token.clone()),
            _ => None,
        });
        token.unwrap_or_else(|| panic!("it never started: {self:#?}"))
    }

    /// The last message of the agent.
    pub(crate) fn answer(&self) -> &str {
        let answer = self.reports.iter().rev().find_map(|report| match report {
            Report::Message { text, .. } => Some(text.as_str()),
            _ => None,
        });
        answer.unwrap_or_else(|| panic!("there is no answer: {self:#?}"))
    }

    /// Everything that was streamed of answers.
    pub(crate) fn streamed(&self) -> String {
        let deltas = self.reports.iter().filter_map(|report| match report {
            Report::TextDelta(text) => Some(text.as_str()),
            _ => None,
        });
        deltas.collect()
    }

    pub(crate) fn notes(&self) -> Vec<(bool, &str)> {
        let notes = self.reports.iter().filter_map(|report| match report {
            Report::Note { warning, text } => Some((*warning, text.as_str())),
            _ => None,
        });
        notes.collect()
    }

    /// Tools that were called, with their results.
    pub(crate) fn calls(&self) -> Vec<(&str, &baton_protocol::tool::ToolResult)> {
        let result = |wanted: &str| {
            let found = self.reports.iter().find_map(|report| match report {
                Report::CallFinished { id, result } if id == wanted => Some(result),
                _ => None,
            });
            found.unwrap_or_else(|| panic!("{wanted} never ended: {self:#?}"))
        };
        let calls = self.reports.iter().filter_map(|report| match report {
            Report::CallStarted { id, tool, .. } => Some((tool.as_str(), result(id))),
            _ => None,
        });
        calls.collect()
    }

    pub(crate) fn failure(&self) -> &str {
        match &self.outcome {
            Outcome::Failed { message, .. } => message,
            other => panic!("it did not fail, but: {other:?}: {self:#?}"),
        }
    }

    pub(crate) fn diagnostics(&self) -> &str {
        match &self.outcome {
            Outcome::Failed { diagnostics: Some(text), .. } => text,
            other => panic!("no diagnostics: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn completed(self) -> Self {
        assert_eq!(self.outcome, Outcome::Completed, "{self:#?}");
        self
    }
}
