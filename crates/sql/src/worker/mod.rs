//! The process that runs SQL: one task, then it ends. It has no threads, no async runtime and no logs, and may block.
//!
//! The statements come from stdin. The reply is the last line of stdout, as JSON; a program may print lines before it, as
//! the binary of a test does.

mod confine;
mod report;
mod statements;
mod todos;

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub(crate) use confine::MEMORY_LIMIT;

use crate::LARGEST_QUERY;

/// Name of the program's command that runs this.
pub const COMMAND: &str = "internal-sql";

/// Time limit of a call.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Runs statements.
    Query,
    /// Reads the todo list.
    Todos,
    /// Opens the database, which rolls back an interrupted transaction.
    Recover,
}

impl Task {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Todos => "todos",
            Self::Recover => "recover",
        }
    }

    fn named(name: &OsStr) -> Option<Self> {
        [Self::Query, Self::Todos, Self::Recover].into_iter().find(|task| task.name() == name)
    }
}

/// Limits this process for good, runs the task that `arguments` name, and writes the reply.
///
/// # Errors
/// When the arguments are not a task and a path, the limits cannot be set, or a pipe fails.
pub fn run(arguments: &[impl AsRef<OsStr>], input: impl Read, output: &mut impl Write) -> io::Result<()> {
    let [task, path] = arguments else {
        return Err(io::Error::other("expected a task and the path of a database"));
    };
    let task = Task::named(task.as_ref()).ok_or_else(|| io::Error::other("unknown task"))?;
    let path = Path::new(path.as_ref());
    confine::limit_process()?;
    match task {
        Task::Query => {
            let mut sql = String::new();
            input.take(LARGEST_QUERY as u64 + 1).read_to_string(&mut sql)?;
            reply(output, &statements::run(path, &sql))
        }
        Task::Todos => reply(output, &todos::read(path).map_err(|error| error.to_string())),
        Task::Recover => {
            let opened = confine::open(path, &Arc::default()).map(drop);
            reply(output, &opened.map_err(|error| error.to_string()))
        }
    }
}

fn reply(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(value).map_err(io::Error::other)?;
    write!(output, "\n{line}")?;
    output.flush()
}
