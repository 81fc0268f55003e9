//! Workflows: code of a client or an extension that the session runs by name, with durable runs. Older SDKs call them
//! factories.
//!
//! The code runs in the client that declared it. State that outlives the client is in `workflows.json` beside the session
//! ([`Workflows`]): each run with its arguments, journal, progress and outcome. A change is durable when it returns. State
//! that ends with the process is in [`SessionWorkflows`], which only the server that holds the session has: who declared
//! what, and which runs are executing. A run that is stored as running and does not execute there was interrupted.

mod execution;
mod run;
mod session;
mod shown;

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_ask::workflows::RunStatus;
use baton_files::json_file::JsonFile;
pub use baton_protocol::workflow::{Definition, Limits, Phase, Vocabulary};
use serde::{Deserialize, Serialize};

pub use self::execution::Execution;
pub use self::run::{LARGEST_RESULT, Run, Settled};
pub use self::session::SessionWorkflows;
use crate::Awaited;

/// Most runs that are kept of a session. The oldest that have ended are dropped.
const MOST_RUNS: usize = 100;
/// Size of all runs of a session, in bytes of JSON, above which the oldest that have ended are dropped. Servers share smaller
/// files only.
const LARGEST: usize = 24 << 20;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    /// The oldest first.
    runs: Vec<Run>,
}

/// Shares the files of a session with other servers. Fails with a message if that is not possible, or the session was lost.
pub type ShareFiles = Arc<dyn Fn() -> Awaited<Result<(), String>> + Send + Sync>;

/// Runs of a session. Changes are shared before they return.
#[derive(Clone)]
pub struct Workflows {
    file: JsonFile,
    share: ShareFiles,
}

impl Workflows {
    /// Names the file in the directory of a session; nothing is read yet.
    #[must_use]
    pub fn new(session: &Path, share: ShareFiles) -> Self {
        Self { file: JsonFile::new(session, "workflows.json"), share }
    }

    /// Returns all runs, the oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self) -> Result<Vec<Run>, String> {
        Ok(self.file.read::<Content>().await?.runs)
    }

    /// Returns a run.
    ///
    /// # Errors
    /// When the runs cannot be read.
    pub async fn get(&self, id: &str) -> Result<Option<Run>, String> {
        Ok(self.list().await?.into_iter().find(|run| run.id == id))
    }

    /// Adds a run.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn add(&self, run: Run) -> Result<(), String> {
        self.file.edit(move |content: &mut Content| content.add(run)).await?;
        (self.share)().await
    }

    /// Changes a run. Returns the result, and the run as it is stored now; none if there is no such run.
    ///
    /// # Errors
    /// When the change cannot be stored.
    pub async fn change<R: Send + 'static>(
        &self,
        id: &str,
        change: impl FnOnce(&mut Run) -> R + Clone + Send + 'static,
    ) -> Result<Option<(R, Run)>, String> {
        let id = id.to_owned();
        let edit = move |content: &mut Content| {
            let run = content.runs.iter_mut().find(|run| run.id == id)?;
            let result = change(run);
            Some((result, run.clone()))
        };
        let changed = self.file.edit(edit).await?;
        (self.share)().await?;
        Ok(changed)
    }
}

impl Content {
    fn add(&mut self, run: Run) {
        self.runs.push(run);
        self.trim(LARGEST);
    }

    /// Drops the oldest runs that have ended, until the others are few and small enough.
    fn trim(&mut self, largest: usize) {
        let size = |run: &Run| serde_json::to_vec(run).map_or(0, |bytes| bytes.len());
        let mut used: usize = self.runs.iter().map(size).sum();
        while self.runs.len() > MOST_RUNS || used > largest {
            let ended = self.runs.iter().position(|run| run.status != RunStatus::Running);
            let Some(dropped) = ended.or((self.runs.len() > MOST_RUNS).then_some(0)) else { break };
            used = used.saturating_sub(size(&self.runs.remove(dropped)));
        }
    }
}

/// Returns the time, in milliseconds.
#[must_use]
pub fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> ShareFiles {
        Arc::new(|| Box::pin(async { Ok(()) }))
    }

    fn run(id: &str) -> Run {
        Run::new(id.into(), Definition::default(), serde_json::Value::Null, Limits::default(), 1)
    }

    #[tokio::test]
    async fn changes_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let workflows = Workflows::new(dir.path(), shared());
        workflows.add(run("a")).await.unwrap();
        workflows.change("a", |run| run.settle(Settled::cancelled(), 2)).await.unwrap().unwrap();
        assert!(workflows.change("b", |_| ()).await.unwrap().is_none());
        let read = Workflows::new(dir.path(), shared()).get("a").await.unwrap().unwrap();
        assert_eq!(read.status, RunStatus::Cancelled);
    }

    #[test]
    fn old_runs_that_have_ended_are_dropped_first() {
        let mut content = Content::default();
        content.add(run("running"));
        for n in 0..MOST_RUNS {
            let mut ended = run(&n.to_string());
            ended.settle(Settled::cancelled(), 2);
            content.add(ended);
        }
        assert_eq!(content.runs.len(), MOST_RUNS);
        assert_eq!((content.runs[0].id.as_str(), content.runs[1].id.as_str()), ("running", "1"));
    }

    #[test]
    fn large_runs_that_have_ended_are_dropped_first() {
        let large = |id: &str| Run { args: serde_json::json!("x".repeat(10_000)), ..run(id) };
        let mut content = Content { runs: vec![large("running")] };
        for n in 0..5 {
            let mut ended = large(&n.to_string());
            ended.settle(Settled::cancelled(), 2);
            content.add(ended);
        }
        content.trim(35_000);
        let ids: Vec<&str> = content.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["running", "3", "4"]);
        content.trim(5_000);
        assert_eq!(content.runs.len(), 1, "what runs stays");
    }
}
