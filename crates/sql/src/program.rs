//! The program that runs SQL, and its supervision.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use baton_process::{Ledger, Pipes, Start, Supervised};
use baton_sandbox::{Place, Preparing, Ready};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::worker::{MEMORY_LIMIT, TIME_LIMIT, Task};

/// Size limit of a reply. The worker's own limits are lower, but its process may be in the hands of a hostile database.
const LARGEST_REPLY: u64 = 8 << 20;

/// The program that runs SQL: one that calls [`worker::run`](crate::worker::run).
#[derive(Clone)]
pub struct SqlProgram {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its first arguments. The task and the path of the database follow.
    pub args: Vec<OsString>,
    /// The ledger that records its processes.
    pub ledger: Ledger,
    /// Places it in the sandbox of the session, which is a wall behind the worker's own.
    pub placing: Arc<dyn Fn() -> Preparing + Send + Sync>,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server was started without a program for SQL.
    #[error("this server cannot run SQL, because it does not know its own program")]
    NoProgram,
    /// The process cannot be started.
    #[error("cannot start the process that runs SQL: {0}")]
    Start(io::Error),
    /// The session has a sandbox that cannot be enforced.
    #[error("SQL was not run, because it has to run in a sandbox: {0}")]
    NoSandbox(String),
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// The process was killed at the time limit.
    #[error(
        "the query took longer than {} seconds and was stopped; statements before the last one may have \
         taken effect",
        TIME_LIMIT.as_secs()
    )]
    TooLong,
    /// The process ended without a reply.
    #[error(
        "SQLite stopped ({status}), probably because the query needs more than {limit} MB of memory; select less",
        limit = MEMORY_LIMIT >> 20
    )]
    Died {
        /// How it ended.
        status: ExitStatus,
    },
    /// The reply is unusable.
    #[error("the process that runs SQL sent no usable reply: {0}")]
    Reply(String),
    /// The todo list is unreadable, for example because the model has replaced the tables.
    #[error("{0}")]
    Todos(String),
}

impl Failure {
    /// Whether statements may have taken effect.
    pub(crate) fn may_have_run(&self) -> bool {
        !matches!(self, Self::NoProgram | Self::Start(_) | Self::NoSandbox(_))
    }
}

impl SqlProgram {
    /// Runs a task in a new process, and returns its reply. No process is left afterwards.
    pub(crate) async fn call(
        &self,
        task: Task,
        database: &Path,
        sql: &str,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, Failure> {
        let sandbox = match (self.placing)().await.map_err(Failure::NoSandbox)? {
            Place::Inside(ready) => Some(ready),
            Place::Outside => None,
        };
        let (mut process, pipes) = self.start(task, database, sandbox).map_err(Failure::Start)?;
        let talked = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Failure::Cancelled),
            talked = timeout(limit, talk(&mut process, pipes, sql)) => match talked {
                Err(_) => Err(Failure::TooLong),
                Ok(Err(error)) => Err(Failure::Reply(error.to_string())),
                Ok(Ok((status, _))) if !status.success() => Err(Failure::Died { status }),
                Ok(Ok((_, reply))) => Ok(reply),
            },
        };
        if talked.is_err() || process.has_leftovers(false) {
            // No grace period: SQLite has no cleanup that its journal does not do.
            process.end(Duration::ZERO).await;
        }
        talked
    }

    fn start(
        &self,
        task: Task,
        database: &Path,
        sandbox: Option<Arc<Ready>>,
    ) -> io::Result<(Supervised, Pipes)> {
        let mut args = self.args.clone();
        args.extend([task.name().into(), database.into()]);
        let start = Start {
            program: self.program.clone().into(),
            args,
            environment: Vec::new(),
            cwd: "/".into(),
            tag: format!("{}/", uuid::Uuid::new_v4()),
            ledger: self.ledger.clone(),
            sandbox,
        };
        start.start()
    }
}

async fn talk(process: &mut Supervised, pipes: Pipes, sql: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    // Nothing is read from stderr: the exit status says enough.
    let Pipes { mut stdin, stdout, stderr: _ } = pipes;
    let send = async move {
        // If the process has died, its status tells.
        drop(stdin.write_all(sql.as_bytes()).await);
    };
    let receive = async move {
        let mut reply = Vec::new();
        stdout.take(LARGEST_REPLY).read_to_end(&mut reply).await.map(|_| reply)
    };
    let ((), reply) = tokio::join!(send, receive);
    Ok((process.wait().await?, reply?))
}
