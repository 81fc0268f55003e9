//! The database of one session, as the server sees it: a file, and calls of the program that runs SQL in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::worker::{TIME_LIMIT, Task};
use crate::{Dependency, Failure, QueryReply, QueryResult, SqlProgram, Todo, TodosReply};

/// How much later than the worker's own time limit it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Time limit for rolling back what a killed worker had begun.
const RECOVERY_LIMIT: Duration = Duration::from_secs(5);

/// Calls of all sessions that run at the same time: each may use a core, and as much memory as a worker may have.
static SLOTS: Semaphore = Semaphore::const_new(4);

/// The database of one session. Cloning is cheap.
#[derive(Clone)]
pub struct SessionDatabase {
    path: PathBuf,
    program: Option<SqlProgram>,
    todos_changed: Arc<dyn Fn() + Send + Sync>,
    /// Held by a call. SQLite would serialise writers too, but waiting processes cost memory.
    turn: Arc<Mutex<()>>,
}

impl SessionDatabase {
    /// Creates the database in the file `path`, which is made on first use. `todos_changed` is called after each call that
    /// changed `todos` or `todo_deps`. Without a program, calls fail.
    #[must_use]
    pub fn new(
        path: PathBuf,
        program: Option<SqlProgram>,
        todos_changed: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { path, program, todos_changed, turn: Arc::default() }
    }

    /// Runs the statements of `sql`. `cancel` ends the call at once; an open transaction is rolled back.
    pub async fn run(&self, sql: &str, cancel: &CancellationToken) -> QueryResult {
        let replied = self.call::<QueryReply>(Task::Query, sql, cancel).await;
        let changed = match &replied {
            Ok(reply) => reply.todos_changed,
            Err(failure) => failure.may_have_run(),
        };
        if changed {
            (self.todos_changed)();
        }
        replied.map_or_else(
            |failure| QueryResult { text: format!("Error: {failure}."), failed: true },
            |reply| reply.result,
        )
    }

    /// Reads the first todos and dependencies. The tables may be the model's own by now, such as a view without an end: the
    /// limits of its queries apply.
    ///
    /// # Errors
    /// When the file cannot be read, or the model has replaced these tables by others.
    pub async fn todos(&self, cancel: &CancellationToken) -> Result<(Vec<Todo>, Vec<Dependency>), Failure> {
        if matches!(tokio::fs::try_exists(&self.path).await, Ok(false)) {
            return Ok(Default::default());
        }
        self.call::<TodosReply>(Task::Todos, "", cancel).await?.map_err(Failure::Todos)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        task: Task,
        sql: &str,
        cancel: &CancellationToken,
    ) -> Result<T, Failure> {
        let program = self.program.as_ref().ok_or(Failure::NoProgram)?;
        let turn = async { (self.turn.lock().await, SLOTS.acquire().await) };
        let _turn = cancel.run_until_cancelled(turn).await.ok_or(Failure::Cancelled)?;
        let replied = program.call(task, &self.path, sql, TIME_LIMIT + GRACE, cancel).await;
        if replied.as_ref().is_err_and(Failure::may_have_run) {
            self.recover(program).await;
        }
        read(&replied?)
    }

    /// Rolls back what a killed worker had begun. The next call would do that too, but the file may be copied before,
    /// without its journal: to other servers, or into a backup.
    async fn recover(&self, program: &SqlProgram) {
        let never = CancellationToken::new();
        // If this fails, the next call tries again, and reports the reason.
        drop(program.call(Task::Recover, &self.path, "", RECOVERY_LIMIT, &never).await);
    }
}

/// Reads a reply: the last line of the output.
fn read<T: DeserializeOwned>(output: &[u8]) -> Result<T, Failure> {
    let line = output.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    baton_json::from_slice(line).map_err(|error| Failure::Reply(error.to_string()))
}
