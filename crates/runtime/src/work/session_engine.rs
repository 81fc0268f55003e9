//! The engine program of a session: started with the first turn, reused between turns, ended after some idle time or with
//! the session.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use baton_engines::{Engine, EngineConversation, Placing, Report, ResumeToken, RunOutcome, ThreadSpec};
use baton_protocol::engine::EngineControl;
use baton_protocol::sandbox::SandboxLevel;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::engine_tools::{EngineTools, Request};
use super::sandbox::SessionSandbox;
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
    /// Name of the server through which the program calls the session's own tools.
    tool_server: std::sync::Mutex<Option<String>>,
    /// Program and directory that need no question about trust: the directory has no files that the program acts on, or
    /// it is trusted. A different program or directory is checked again.
    trusted: std::sync::Mutex<Option<(&'static str, PathBuf)>>,
}

/// A conversation with a program, and the settings it was opened with.
struct OpenThread {
    settings: EngineSettings,
    thread: Box<dyn EngineConversation>,
    /// The tools of the session, if the program is offered any.
    tools: Option<EngineTools>,
}

/// Settings of a conversation with a program. When they change, the conversation is closed, and resumed with the new ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EngineSettings {
    pub(super) engine: &'static str,
    pub(super) model: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) allow_all: bool,
    /// Whether there are tools to offer.
    pub(super) has_tools: bool,
    /// The level of the sandbox that somebody chose for the session.
    pub(super) sandbox: Option<SandboxLevel>,
}

/// A prompt for a program, with the channels to it while it runs.
pub(super) struct Run {
    pub(super) prompt: String,
    /// Tools of the session for the turn, as entries of `tools/list`, and where its calls go.
    pub(super) tools: Vec<Value>,
    pub(super) requests: mpsc::UnboundedSender<Request>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) control: mpsc::UnboundedReceiver<EngineControl>,
    pub(super) interrupt: CancellationToken,
    /// The sandbox of the session.
    pub(super) sandbox: Arc<SessionSandbox>,
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

    /// Whether a tool that the program names is one of the session's own, through the server that it was given.
    pub(super) fn is_own_tool(&self, tool: &str) -> bool {
        self.lock_tool_server().as_ref().is_some_and(|server| tool.contains(server))
    }

    fn lock_tool_server(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.tool_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a prompt, after the one that the program is running.
    pub(super) async fn run(
        self: &Arc<Self>,
        engine: &dyn Engine,
        settings: EngineSettings,
        token: Option<String>,
        runtime: &Arc<Runtime>,
        run: Run,
    ) -> RunOutcome {
        self.runs.fetch_add(1, Ordering::AcqRel);
        let mut open = self.open.lock().await;
        if let Some(mut outdated) = open.take_if(|open| open.settings != settings) {
            outdated.thread.close().await;
        }
        let tag = self.tag(runtime).await;
        let open = match &mut *open {
            Some(open) => open,
            slot => {
                let tools = tools(&settings, runtime, &run.reports).await;
                let mut spec = spec(&settings, token, tag, runtime);
                spec.placing = Some(placing(&run.sandbox));
                spec.tools = tools.as_ref().map(|tools| tools.server().clone());
                slot.insert(OpenThread { thread: engine.thread(spec), settings, tools })
            }
        };
        *self.lock_tool_server() = open.tools.as_ref().map(|tools| tools.server().name.clone());
        if let Some(tools) = &open.tools {
            tools.begin(run.tools, run.requests);
        }
        let outcome = open.thread.run(run.prompt, run.reports, run.control, run.interrupt).await;
        if let Some(tools) = &open.tools {
            tools.end();
        }
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

/// Opens a server for the tools of the session, if there are any. A failure is reported, and costs the tools only.
async fn tools(
    settings: &EngineSettings,
    runtime: &Arc<Runtime>,
    reports: &mpsc::UnboundedSender<Report>,
) -> Option<EngineTools> {
    let program = runtime.options.program.as_deref().filter(|_| settings.has_tools)?;
    match EngineTools::open(runtime, program).await {
        Ok(tools) => Some(tools),
        Err(text) => {
            // The turn has ended.
            drop(reports.send(Report::Note { warning: true, text }));
            None
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
        tools: None,
        tag,
        ledger: runtime.ledger.clone(),
        sandbox: settings.sandbox,
        placing: None,
    }
}

/// Places a program in the sandbox of the session.
fn placing(sandbox: &Arc<SessionSandbox>) -> Placing {
    let sandbox = sandbox.clone();
    Placing(Arc::new(move |state| {
        let sandbox = sandbox.clone();
        Box::pin(async move { sandbox.place(&state).await })
    }))
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
