//! The program that works in a session, where another agent's program does: started when it is needed, kept between
//! turns, ended when it has had nothing to do for a while, at the latest with the session.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use baton_agent::tools::shell::Processes;
use baton_engines::{Control, Engine, Outcome, Report, ResumeToken, Thread, ThreadSpec};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::Server;

/// How long a program that has nothing to do is kept. Starting it again costs a second or so, keeping it some hundred
/// megabytes.
const IDLE: Duration = Duration::from_secs(300);

/// See the module. Empty until an engine is first asked to work.
#[derive(Default)]
pub(crate) struct EngineRoom {
    kept: Mutex<Option<Kept>>,
    tag: OnceLock<String>,
    /// Counts runs, so that whoever looks later can tell whether something has happened since.
    runs: AtomicU64,
    /// The program and the directory that may act on it: nothing in the directory does, or somebody trusts it. Another
    /// program, or another directory, is asked about again.
    trusted: std::sync::Mutex<Option<(&'static str, PathBuf)>>,
}

struct Kept {
    wanted: Wanted,
    thread: Box<dyn Thread>,
}

/// What a conversation was opened with. One that is wanted otherwise is opened anew, with the program's own name of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) engine: &'static str,
    pub(super) model: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) cwd: std::path::PathBuf,
    pub(super) allow_all: bool,
}

/// One prompt for a program, and how to talk to it meanwhile.
pub(super) struct Run {
    pub(super) prompt: String,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) control: mpsc::UnboundedReceiver<Control>,
    pub(super) interrupt: CancellationToken,
}

impl EngineRoom {
    pub(super) fn is_trusted(&self, engine: &'static str, cwd: &Path) -> bool {
        let trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        trusted.as_ref().is_some_and(|(program, directory)| *program == engine && directory == cwd)
    }

    pub(super) fn trust(&self, engine: &'static str, cwd: &Path) {
        let mut trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        *trusted = Some((engine, cwd.to_owned()));
    }

    /// Has the program work on a prompt, after whatever it is working on.
    pub(super) async fn run(
        self: &Arc<Self>,
        engine: &dyn Engine,
        wanted: Wanted,
        token: Option<String>,
        server: &Arc<Server>,
        run: Run,
    ) -> Outcome {
        self.runs.fetch_add(1, Ordering::AcqRel);
        let mut kept = self.kept.lock().await;
        if let Some(other) = kept.take_if(|kept| kept.wanted != wanted) {
            close(other).await;
        }
        let tag = self.tag(server).await;
        let kept = kept.get_or_insert_with(|| {
            let spec = spec(&wanted, token, tag, server);
            Kept { thread: engine.thread(spec), wanted }
        });
        let outcome = kept.thread.run(run.prompt, run.reports, run.control, run.interrupt).await;
        self.end_when_idle();
        outcome
    }

    /// What the tags of all processes of this session's engines begin with. It is in the ledger before anything starts.
    async fn tag(&self, server: &Arc<Server>) -> String {
        if let Some(tag) = self.tag.get() {
            return tag.clone();
        }
        let tag = format!("{}/", uuid::Uuid::new_v4());
        let (server, noted) = (server.clone(), tag.clone());
        drop(tokio::task::spawn_blocking(move || server.ledger.note(&noted)).await);
        self.tag.get_or_init(|| tag).clone()
    }

    fn end_when_idle(self: &Arc<Self>) {
        let (room, seen) = (Arc::downgrade(self), self.runs.load(Ordering::Acquire));
        tokio::spawn(async move {
            tokio::time::sleep(IDLE).await;
            if let Some(room) = room.upgrade()
                && room.runs.load(Ordering::Acquire) == seen
            {
                room.close().await;
            }
        });
    }

    /// Ends the program, and waits for that. A run that goes on must have been interrupted before.
    pub(crate) async fn close(&self) {
        if let Some(kept) = self.kept.lock().await.take() {
            close(kept).await;
        }
    }
}

async fn close(mut kept: Kept) {
    kept.thread.close().await;
}

fn spec(wanted: &Wanted, token: Option<String>, tag: String, server: &Server) -> ThreadSpec {
    ThreadSpec {
        cwd: wanted.cwd.clone(),
        model: wanted.model.clone(),
        reasoning_effort: wanted.reasoning_effort.clone(),
        resume: token.map(ResumeToken),
        allow_all: wanted.allow_all,
        tag,
        processes: Processes(Arc::new(server.ledger.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_one_program_in_one_directory() {
        let room = EngineRoom::default();
        assert!(!room.is_trusted("claude", Path::new("/a")));
        room.trust("claude", Path::new("/a"));
        assert!(room.is_trusted("claude", Path::new("/a")));
        assert!(!room.is_trusted("claude", Path::new("/b")) && !room.is_trusted("codex", Path::new("/a")));
    }
}
