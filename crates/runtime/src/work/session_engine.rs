//! The engine program of a session: started with the first turn, reused between turns, ended after some idle time or with
//! the session.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use baton_engines::{Engine, EngineThread, Outcome, Report, ResumeToken, ThreadSpec};
use baton_protocol::engine::EngineControl;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::Runtime;

/// How long an idle program stays running. Starting it again takes about a second; it occupies some hundred megabytes.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// Engine program of a session. Empty until the first turn that an engine executes.
#[derive(Default)]
pub(crate) struct SessionEngine {
    open: Mutex<Option<OpenThread>>,
    tag: OnceLock<String>,
    /// Number of runs so far, by which the idle timer recognises that the program was used again.
    runs: AtomicU64,
    /// Program and directory that need no question about trust: the directory has no files that the program acts on, or
    /// it is trusted. A different program or directory is checked again.
    trusted: std::sync::Mutex<Option<(&'static str, PathBuf)>>,
}

/// A conversation with a program, and the settings it was opened with.
struct OpenThread {
    settings: EngineSettings,
    thread: Box<dyn EngineThread>,
}

/// Settings of a conversation with a program. When they change, the conversation is closed, and resumed with the new ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EngineSettings {
    pub(super) engine: &'static str,
    pub(super) model: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) allow_all: bool,
}

/// A prompt for a program, with the channels to it while it runs.
pub(super) struct Run {
    pub(super) prompt: String,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) control: mpsc::UnboundedReceiver<EngineControl>,
    pub(super) interrupt: CancellationToken,
}

impl SessionEngine {
    /// Returns whether the program may be started in the directory without a question about trust.
    pub(super) fn is_trusted(&self, engine: &'static str, cwd: &Path) -> bool {
        let trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        trusted.as_ref().is_some_and(|(program, directory)| *program == engine && directory == cwd)
    }

    /// Remembers that the program may be started in the directory.
    pub(super) fn trust(&self, engine: &'static str, cwd: &Path) {
        let mut trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        *trusted = Some((engine, cwd.to_owned()));
    }

    /// Runs a prompt, after the one that the program is running.
    pub(super) async fn run(
        self: &Arc<Self>,
        engine: &dyn Engine,
        settings: EngineSettings,
        token: Option<String>,
        runtime: &Arc<Runtime>,
        run: Run,
    ) -> Outcome {
        self.runs.fetch_add(1, Ordering::AcqRel);
        let mut open = self.open.lock().await;
        if let Some(mut outdated) = open.take_if(|open| open.settings != settings) {
            outdated.thread.close().await;
        }
        let tag = self.tag(runtime).await;
        let open = open.get_or_insert_with(|| {
            let spec = spec(&settings, token, tag, runtime);
            OpenThread { thread: engine.thread(spec), settings }
        });
        let outcome = open.thread.run(run.prompt, run.reports, run.control, run.interrupt).await;
        self.end_when_idle(runtime);
        outcome
    }

    /// Returns the common prefix of the tags of all processes of the session's engines. It is in the ledger before the first
    /// one starts.
    async fn tag(&self, runtime: &Arc<Runtime>) -> String {
        if let Some(tag) = self.tag.get() {
            return tag.clone();
        }
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let (runtime, prefix) = (runtime.clone(), tag.clone());
        drop(tokio::task::spawn_blocking(move || runtime.ledger.note(&prefix)).await);
        self.tag.get_or_init(|| tag).clone()
    }

    /// Ends the program after the idle time, unless it runs again before. When the server stops, the session closes it.
    fn end_when_idle(self: &Arc<Self>, runtime: &Runtime) {
        let (engine, seen) = (Arc::downgrade(self), self.runs.load(Ordering::Acquire));
        let stopping = runtime.stopping.clone();
        let task = async move {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(IDLE_LIMIT) => {}
            }
            if let Some(engine) = engine.upgrade()
                && engine.runs.load(Ordering::Acquire) == seen
            {
                engine.close().await;
            }
        };
        runtime.tasks.spawn(task.in_current_span());
    }

    /// Ends the program, and waits until it has exited. A run must have been interrupted before.
    pub(crate) async fn close(&self) {
        if let Some(mut open) = self.open.lock().await.take() {
            open.thread.close().await;
        }
    }
}

fn spec(settings: &EngineSettings, token: Option<String>, tag: String, runtime: &Runtime) -> ThreadSpec {
    ThreadSpec {
        cwd: settings.cwd.clone(),
        model: settings.model.clone(),
        reasoning_effort: settings.reasoning_effort.clone(),
        resume: token.map(ResumeToken),
        allow_all: settings.allow_all,
        tag,
        ledger: runtime.ledger.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_limited_to_a_program_and_a_directory() {
        let engine = SessionEngine::default();
        assert!(!engine.is_trusted("claude", Path::new("/a")));
        engine.trust("claude", Path::new("/a"));
        assert!(engine.is_trusted("claude", Path::new("/a")));
        assert!(
            !engine.is_trusted("claude", Path::new("/b")) && !engine.is_trusted("codex", Path::new("/a"))
        );
    }
}
