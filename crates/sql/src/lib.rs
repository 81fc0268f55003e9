//! The database of a session: a file with the model's todo list and any other tables that it creates.
//!
//! The SQL is untrusted: models write it, and no approval is needed. SQLite offers no way to interrupt a function, and
//! memory is limited for a whole process only. So each call runs in a process of its own, the [`worker`], which limits
//! itself and is killed when the call is cancelled or takes too long. [`SessionDatabase`] is the server's side.
//!
//! | limit | value | enforced by |
//! |---|---|---|
//! | time of a call | 10 seconds | the progress handler of SQLite; one second later SIGKILL; without a server `RLIMIT_CPU` |
//! | memory | 48 MB | `hard_heap_limit` of SQLite, `RLIMIT_DATA` for the rest; temporary tables are in memory too |
//! | size of the file | 28 MB | `max_page_count`, `RLIMIT_FSIZE` |
//! | length of a value, of a query | 4 MB, 1 MB | `SQLITE_LIMIT_LENGTH`, `SQLITE_LIMIT_SQL_LENGTH` |
//! | result of a call | 40 KB, 500 rows of a statement | `worker/report.rs`, which collects no more |
//! | calls at the same time | one of a session, four of a server | [`SessionDatabase`] |
//! | reach | the session's file | the authorizer in `worker/confine.rs` |

mod database;
mod program;
pub mod worker;

pub use database::SessionDatabase;
pub use program::{Failure, SqlProgram};

use serde::{Deserialize, Serialize};

/// Length limit of a query, in bytes.
pub const LARGEST_QUERY: usize = 1 << 20;

/// A row of `todos`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the columns of the table")]
pub struct Todo {
    pub id: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub status: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
}

/// A row of `todo_deps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the columns of the table")]
pub struct Dependency {
    pub todo_id: String,
    pub depends_on: String,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryResult {
    /// Results of the statements, for the model.
    pub text: String,
    /// Whether a statement failed, or there was none.
    pub failed: bool,
}

/// The worker's reply to a query.
#[derive(Debug, Serialize, Deserialize)]
struct QueryReply {
    result: QueryResult,
    /// Whether `todos` or `todo_deps` may have changed.
    todos_changed: bool,
}

/// The worker's reply to a request for the todo list, or why it cannot be read.
type TodosReply = Result<(Vec<Todo>, Vec<Dependency>), String>;

#[cfg(test)]
mod tests;
