//! The database of a session: one file, opened for each call and closed after it, because most sessions use it seldom
//! and an open one takes memory.
//!
//! The SQL is untrusted. It can fill this file and nothing else: no other file is reached, and size, time and results are
//! limited.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection, Statement};
use tokio_util::sync::CancellationToken;

use super::report::Cell;
use crate::tools::text::listed;

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// In pages of 4 KiB.
const LARGEST_FILE: u32 = 64 * 256;
const LARGEST_VALUE: i32 = 4 * 1024 * 1024;
const MOST_ROWS: usize = 500;
const MOST_STATEMENTS: usize = 1000;
/// Rows of `todos` and of `todo_deps` that clients see.
const MOST_TODOS: usize = 1000;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS todos (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        description TEXT,
        status TEXT DEFAULT 'pending' CHECK (status IN ('pending', 'in_progress', 'done', 'blocked')),
        created_at TEXT DEFAULT (datetime('now')),
        updated_at TEXT DEFAULT (datetime('now'))
    );
    CREATE TABLE IF NOT EXISTS todo_deps (
        todo_id TEXT NOT NULL REFERENCES todos (id),
        depends_on TEXT NOT NULL REFERENCES todos (id),
        PRIMARY KEY (todo_id, depends_on)
    );";

/// Read-only pragmas.
const PRAGMAS: &str = "table_info table_xinfo table_list index_list index_info foreign_key_list \
    foreign_key_check quick_check user_version";

/// The database of one session. Cloning is cheap.
#[derive(Clone)]
pub struct SessionDatabase {
    path: PathBuf,
    todos_changed: Arc<dyn Fn() + Send + Sync>,
}

/// A row of `todos`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the fields are the columns of the table")]
pub struct Dependency {
    pub todo_id: String,
    pub depends_on: String,
}

/// The result of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatementResult {
    Inserted { rows: u64, last_id: i64 },
    Updated { rows: u64 },
    Deleted { rows: u64 },
    Rows { columns: Vec<String>, rows: Vec<Vec<Cell>>, more: bool },
    Done,
}

/// A statement that was run: its first word and its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Executed {
    pub(super) verb: String,
    pub(super) outcome: StatementResult,
}

/// The statements of a call in order, up to the first that failed.
#[derive(Debug, Default)]
pub(super) struct BatchResult {
    pub(super) executed: Vec<Executed>,
    pub(super) failure: Option<String>,
}

impl SessionDatabase {
    /// Creates the database in the file `path`, which is made on first use. `todos_changed` is called after each call that
    /// changed `todos` or `todo_deps`.
    #[must_use]
    pub fn new(path: PathBuf, todos_changed: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { path, todos_changed }
    }

    /// Reads the first todos and dependencies. Blocks. The tables may be the model's own by now, such as a view without an
    /// end: time, rows and sizes are limited as in its queries.
    ///
    /// # Errors
    /// When the file cannot be read, or the model has replaced these tables by others.
    pub fn todos(&self) -> rusqlite::Result<(Vec<Todo>, Vec<Dependency>)> {
        if !self.path.exists() {
            return Ok(Default::default());
        }
        let mut connection = self.open()?;
        restrict(&mut connection, CancellationToken::new(), Arc::default())?;
        let todos = connection
            .prepare(&format!(
                "SELECT {}, {}, {}, {}, {}, {} FROM todos NOT INDEXED LIMIT {MOST_TODOS}",
                short("id"),
                short("title"),
                short("description"),
                short("status"),
                short("created_at"),
                short("updated_at"),
            ))?
            .query_map([], |row| {
                Ok(Todo {
                    id: row.get(0)?,
                    title: row.get(1)?,
                    description: row.get(2)?,
                    status: row.get(3)?,
                    created_at: row.get(4)?,
                    updated_at: row.get(5)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let dependencies = connection
            .prepare(&format!(
                "SELECT {}, {} FROM todo_deps NOT INDEXED LIMIT {MOST_TODOS}",
                short("todo_id"),
                short("depends_on"),
            ))?
            .query_map([], |row| Ok(Dependency { todo_id: row.get(0)?, depends_on: row.get(1)? }))?
            .collect::<rusqlite::Result<_>>()?;
        Ok((todos, dependencies))
    }

    /// Runs the statements of `sql`. Blocks.
    pub(super) fn run(&self, sql: &str, cancel: &CancellationToken) -> BatchResult {
        let mut run = BatchResult::default();
        let changed = Arc::new(AtomicBool::new(false));
        if let Err(error) = self.try_run(sql, cancel, &changed, &mut run) {
            run.failure = Some(match error.sqlite_error_code() {
                _ if cancel.is_cancelled() => "the call was cancelled".to_owned(),
                Some(rusqlite::ErrorCode::OperationInterrupted) => {
                    format!("the query took longer than {} seconds and was stopped", TIME_LIMIT.as_secs())
                }
                Some(rusqlite::ErrorCode::AuthorizationForStatementDenied) => {
                    format!("{}: only tables of the session's database can be used here", explain(&error))
                }
                _ => explain(&error),
            });
        }
        if changed.load(Ordering::Relaxed) {
            (self.todos_changed)();
        }
        run
    }

    fn try_run(
        &self,
        sql: &str,
        cancel: &CancellationToken,
        changed: &Arc<AtomicBool>,
        run: &mut BatchResult,
    ) -> rusqlite::Result<()> {
        let mut connection = self.open()?;
        let touches_todos = Arc::new(AtomicBool::new(false));
        restrict(&mut connection, cancel.clone(), Arc::clone(&touches_todos))?;
        let mut batch = Batch::new(&connection, sql);
        while let Some(mut statement) = batch.next()? {
            if run.executed.len() == MOST_STATEMENTS {
                run.failure = Some(format!(
                    "these are the first {MOST_STATEMENTS} statements; send the rest in another call"
                ));
                break;
            }
            let touches = touches_todos.swap(false, Ordering::Relaxed);
            let executed = execute(&connection, &mut statement)?;
            changed.fetch_or(touches, Ordering::Relaxed);
            run.executed.push(executed);
        }
        if !connection.is_autocommit() {
            run.failure.get_or_insert("the transaction was not committed, so it was undone".to_owned());
        }
        Ok(())
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        // The session's directory may not exist yet. If it cannot be created, opening the file fails with the error that is
        // reported. SQLite would make the file readable for others.
        drop(self.path.parent().map(baton_private::create_dir_all));
        drop(baton_private::ensure(&self.path));
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(TIME_LIMIT)?;
        connection.pragma_update(None, "max_page_count", LARGEST_FILE)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.execute_batch(TABLES)?;
        Ok(connection)
    }
}

/// Returns an expression for the beginning of a column.
fn short(column: &str) -> String {
    format!("substr({column}, 1, 10000)")
}

/// Restricts a connection to its file, and limits time and size.
fn restrict(
    connection: &mut Connection,
    cancel: CancellationToken,
    touches_todos: Arc<AtomicBool>,
) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE)?;
    let end = Instant::now() + TIME_LIMIT;
    connection.progress_handler(1000, Some(move || cancel.is_cancelled() || Instant::now() > end))?;
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if let AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::DropTable { table_name } = context.action
            && ["todos", "todo_deps"].iter().any(|table| table.eq_ignore_ascii_case(table_name))
        {
            touches_todos.store(true, Ordering::Relaxed);
        }
        authorize(&context.action)
    }))
}

fn authorize(action: &AuthAction<'_>) -> Authorization {
    match action {
        // VACUUM INTO attaches the file that it writes.
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. } if !listed(PRAGMAS, &pragma_name.to_ascii_lowercase()) => {
            Authorization::Deny
        }
        // `fts3_tokenizer` reveals memory addresses of this process.
        AuthAction::Function { function_name }
            if ["load_extension", "fts3_tokenizer"]
                .iter()
                .any(|name| function_name.eq_ignore_ascii_case(name)) =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

fn execute(connection: &Connection, statement: &mut Statement<'_>) -> rusqlite::Result<Executed> {
    let sql = statement.expanded_sql().unwrap_or_default();
    let verb = first_word(&sql);
    if statement.column_count() > 0 {
        return Ok(Executed { outcome: fetch(statement)?, verb });
    }
    let rows = statement.execute([])? as u64;
    let outcome = match verb.as_str() {
        "INSERT" | "REPLACE" => StatementResult::Inserted { rows, last_id: connection.last_insert_rowid() },
        "UPDATE" => StatementResult::Updated { rows },
        "DELETE" => StatementResult::Deleted { rows },
        // WITH ... INSERT and the like: SQLite reports the number of rows, but not the kind of statement.
        "WITH" => StatementResult::Updated { rows },
        _ => StatementResult::Done,
    };
    Ok(Executed { verb, outcome })
}

fn fetch(statement: &mut Statement<'_>) -> rusqlite::Result<StatementResult> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut all = Vec::new();
    let mut rows = statement.query([])?;
    // Read to the end, even past the limit: INSERT ... RETURNING takes effect row by row.
    let mut more = false;
    while let Some(row) = rows.next()? {
        if all.len() == MOST_ROWS {
            more = true;
            continue;
        }
        all.push(
            (0..columns.len())
                .map(|index| Ok(Cell::of(row.get_ref(index)?)))
                .collect::<rusqlite::Result<_>>()?,
        );
    }
    Ok(StatementResult::Rows { columns, rows: all, more })
}

/// Describes an error without repeating the query, which may be long.
fn explain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, offset, .. } if *offset >= 0 => {
            format!("{msg} (at character {offset})")
        }
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}

/// Returns the first word of a statement in capitals, without comments.
fn first_word(sql: &str) -> String {
    let mut rest = sql.trim_start();
    loop {
        let comment =
            rest.strip_prefix("--").map(|rest| rest.split_once('\n').map_or("", |(_, rest)| rest)).or_else(
                || rest.strip_prefix("/*").map(|rest| rest.split_once("*/").map_or("", |(_, rest)| rest)),
            );
        match comment {
            Some(after) => rest = after.trim_start(),
            None => break,
        }
    }
    rest.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn first_word_skips_comments() {
        for (sql, verb) in [
            ("insert into x", "INSERT"),
            ("  -- why\n /* how */ Select 1", "SELECT"),
            ("/* open", ""),
            ("", ""),
        ] {
            assert_eq!(first_word(sql), verb, "{sql}");
        }
    }
}
