//! Workflows: code of a client or an extension that the session runs by name, with durable runs. Older SDKs call them
//! factories.
//!
//! The code runs in the client that declared it. Here is what outlives it: each run with its arguments, journal, progress
//! and outcome, in `workflows.json` beside the session. A change is durable when it returns. Which runs are executing is
//! known to the door only; a run that is stored as running and executes nowhere was interrupted.

mod definition;
mod run;
mod shown;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_files::json_file::JsonFile;
use serde::{Deserialize, Serialize};

pub use self::definition::{Definition, Limits, Phase};
pub use self::run::{LARGEST_RESULT, LineKind, ReportedLine, Run, Settled, Status};
pub use self::shown::Page;

/// Most runs that are kept of a session. The oldest that have ended are dropped.
const MOST_RUNS: usize = 100;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    /// The oldest first.
    runs: Vec<Run>,
}

/// Runs of a session.
#[derive(Clone)]
pub struct Workflows {
    file: JsonFile,
}

impl Workflows {
    /// Names the file in the directory of a session; nothing is read yet.
    #[must_use]
    pub fn new(session: &Path) -> Self {
        Self { file: JsonFile::new(session, "workflows.json") }
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
        self.file.edit(move |content: &mut Content| content.add(run)).await
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
        self.file.edit(edit).await
    }
}

impl Content {
    fn add(&mut self, run: Run) {
        self.runs.push(run);
        while self.runs.len() > MOST_RUNS {
            let ended = self.runs.iter().position(|run| run.status != Status::Running);
            self.runs.remove(ended.unwrap_or(0));
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

    fn run(id: &str) -> Run {
        Run::new(id.into(), Definition::default(), serde_json::Value::Null, Limits::default(), 1)
    }

    #[tokio::test]
    async fn changes_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let workflows = Workflows::new(dir.path());
        workflows.add(run("a")).await.unwrap();
        workflows.change("a", |run| run.settle(Settled::cancelled(), 2)).await.unwrap().unwrap();
        assert!(workflows.change("b", |_| ()).await.unwrap().is_none());
        let read = Workflows::new(dir.path()).get("a").await.unwrap().unwrap();
        assert_eq!(read.status, Status::Cancelled);
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
}
