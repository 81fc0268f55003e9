//! Fixture of the engine tests: an engine in a temporary directory, and a driver for its runs.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_engines::{
    Engine, EngineConversation, EngineRegistry, EngineResources, EngineSettings, Report, ResumeToken,
    RunOutcome, ThreadSpec,
};
use baton_protocol::engine::EngineControl;
use baton_protocol::permission::Verdict;
use baton_testkit::processes::Marker;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a test waits for any event.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// An engine in a temporary directory.
pub(crate) struct Fixture {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) marker: Marker,
    pub(crate) engine: Arc<dyn Engine>,
}

impl Fixture {
    /// Creates an engine with settings that may refer to the directory. Every process carries the marker.
    pub(crate) fn new(name: &str, settings: impl FnOnce(&Path) -> EngineSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let marker = Marker::new();
        let mut settings = settings(directory.path());
        settings.environment.insert("BATON_TEST_MARKER".into(), marker.word().into());
        let resources = EngineResources {
            environment: vec![
                ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
                ("HOME".into(), OsString::from(directory.path())),
                // Programs are logged in.
                ("OPENAI_API_KEY".into(), "x".into()),
                ("CODEX_API_KEY".into(), "x".into()),
                ("ANTHROPIC_API_KEY".into(), "x".into()),
                ("GEMINI_API_KEY".into(), "x".into()),
            ],
            scratch: directory.path().join("scratch"),
        };
        let registry = EngineRegistry::new(BTreeMap::from([(name.to_owned(), settings)]), resources);
        let engine = Arc::clone(registry.get(name).unwrap());
        Self { directory, marker, engine }
    }

    /// The working directory of agents.
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
            tools: None,
            tag: format!("{}/", self.marker.word()),
            ledger: Default::default(),
            sandbox: None,
            placing: None,
        }
    }

    pub(crate) fn thread(&self) -> Box<dyn EngineConversation> {
        self.engine.thread(self.spec())
    }

    /// A conversation that resumes an earlier one.
    pub(crate) fn resumed(&self, token: &ResumeToken) -> Box<dyn EngineConversation> {
        self.engine.thread(ThreadSpec { resume: Some(token.clone()), ..self.spec() })
    }

    /// Waits until no process of the engine is left.
    pub(crate) async fn assert_no_processes(&self, after: &str) {
        self.marker.until_gone(after).await;
    }
}

/// The reports and the outcome of a run.
#[derive(Debug)]
pub(crate) struct RunRecord {
    pub(crate) reports: Vec<Report>,
    pub(crate) outcome: RunOutcome,
}

/// Controls a run from a test.
pub(crate) struct RunHandle {
    control: mpsc::UnboundedSender<EngineControl>,
    pub(crate) interrupt: CancellationToken,
}

impl RunHandle {
    pub(crate) fn decide(&self, reference: &str, verdict: Verdict) {
        let _ = self.control.send(EngineControl::Decide { reference: reference.to_owned(), verdict });
    }

    pub(crate) fn answer(&self, reference: &str, answer: &str) {
        let (reference, answer) = (reference.to_owned(), answer.to_owned());
        let _ = self.control.send(EngineControl::Answer { reference, answer, was_freeform: false });
    }

    pub(crate) fn steer(&self, text: &str) {
        let _ = self.control.send(EngineControl::Steer(text.to_owned()));
    }
}

/// Runs a prompt to its end. `listen` is called with every report and may act on it.
pub(crate) async fn run(
    thread: &mut dyn EngineConversation,
    prompt: &str,
    mut listen: impl FnMut(&Report, &RunHandle),
) -> RunRecord {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (control, controlled) = mpsc::unbounded_channel();
    let interrupt = CancellationToken::new();
    let handle = RunHandle { control, interrupt: interrupt.clone() };
    let mut reports = Vec::new();
    let running = thread.run(prompt.to_owned(), sender, controlled, interrupt);
    let listening = async {
        while let Some(report) = receiver.recv().await {
            listen(&report, &handle);
            reports.push(report);
        }
    };
    let both = async { tokio::join!(running, listening).0 };
    let Ok(outcome) = tokio::time::timeout(LIMIT, both).await else {
        panic!("the run did not end within {LIMIT:?}; reports: {reports:#?}")
    };
    RunRecord { reports, outcome }
}

/// Runs a prompt without answering requests.
pub(crate) async fn run_prompt(thread: &mut dyn EngineConversation, prompt: &str) -> RunRecord {
    run(thread, prompt, |_, _| {}).await
}

/// Runs a prompt and gives the same verdict on every permission request.
pub(crate) async fn run_prompt_with_verdict(
    thread: &mut dyn EngineConversation,
    prompt: &str,
    verdict: &Verdict,
) -> RunRecord {
    run(thread, prompt, |report, handle| {
        if let Report::Wants { reference, .. } = report {
            handle.decide(reference, verdict.clone());
        }
    })
    .await
}

impl RunRecord {
    pub(crate) fn token(&self) -> ResumeToken {
        let token = self.reports.iter().find_map(|report| match report {
            Report::Started { token, .. } => Some(token.clone()),
            _ => None,
        });
        token.unwrap_or_else(|| panic!("the run never started: {self:#?}"))
    }

    /// The last message of the agent.
    pub(crate) fn answer(&self) -> &str {
        let answer = self.reports.iter().rev().find_map(|report| match report {
            Report::Message { text, .. } => Some(text.as_str()),
            _ => None,
        });
        answer.unwrap_or_else(|| panic!("no answer: {self:#?}"))
    }

    /// The streamed text.
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
            Report::StandingWarning(text) => Some((true, text.as_str())),
            _ => None,
        });
        notes.collect()
    }

    /// The failed model calls that the program repeated: message, HTTP status and pause in milliseconds.
    pub(crate) fn retries(&self) -> Vec<(&str, Option<u16>, Option<u64>)> {
        let retries = self.reports.iter().filter_map(|report| match report {
            Report::Retries(failure) => {
                Some((failure.error_message.as_deref()?, failure.status_code, failure.retry_in_ms))
            }
            _ => None,
        });
        retries.collect()
    }

    /// The called tools with their results.
    pub(crate) fn calls(&self) -> Vec<(&str, &baton_protocol::tool::ToolResult)> {
        let result = |call: &str| {
            let found = self.reports.iter().find_map(|report| match report {
                Report::CallFinished { id, result } if id == call => Some(result),
                _ => None,
            });
            found.unwrap_or_else(|| panic!("{call} never finished: {self:#?}"))
        };
        let calls = self.reports.iter().filter_map(|report| match report {
            Report::CallStarted { id, tool, .. } => Some((tool.as_str(), result(id))),
            _ => None,
        });
        calls.collect()
    }

    pub(crate) fn failure(&self) -> &str {
        match &self.outcome {
            RunOutcome::Failed { message, .. } => message,
            other => panic!("expected a failure, got {other:?}: {self:#?}"),
        }
    }

    pub(crate) fn diagnostics(&self) -> &str {
        match &self.outcome {
            RunOutcome::Failed { diagnostics: Some(text), .. } => text,
            other => panic!("no diagnostics: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn completed(self) -> Self {
        assert_eq!(self.outcome, RunOutcome::Completed, "{self:#?}");
        self
    }
}
