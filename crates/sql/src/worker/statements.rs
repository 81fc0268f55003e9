//! Running the statements of a query.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, ErrorCode, Statement};

use super::report::{Room, Table, clip, result};
use super::{MEMORY_LIMIT, TIME_LIMIT, confine};
use crate::QueryReply;

const MOST_ROWS: usize = 500;
const MOST_STATEMENTS: usize = 1000;
/// Length limit of a message of SQLite, which may quote the query.
const LONGEST_MESSAGE: usize = 2000;

/// The result of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatementResult {
    Inserted { rows: u64, last_id: i64 },
    Updated { rows: u64 },
    Deleted { rows: u64 },
    Rows(Table),
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
    pub(super) room: Room,
    pub(super) failure: Option<String>,
}

/// Runs the statements of `sql`.
pub(super) fn run(path: &Path, sql: &str) -> QueryReply {
    let (mut run, mut todos_changed) = (BatchResult::default(), false);
    if let Err(error) = try_run(path, sql, &mut todos_changed, &mut run) {
        run.failure = Some(explain(&error));
    }
    QueryReply { result: result(&run), todos_changed }
}

fn try_run(path: &Path, sql: &str, todos_changed: &mut bool, run: &mut BatchResult) -> rusqlite::Result<()> {
    let touches_todos = Arc::new(AtomicBool::new(false));
    let connection = confine::open(path, &touches_todos)?;
    let mut batch = Batch::new(&connection, sql);
    while let Some(mut statement) = batch.next()? {
        if run.executed.len() == MOST_STATEMENTS {
            run.failure = Some(format!(
                "these are the first {MOST_STATEMENTS} statements; send the rest in another call"
            ));
            break;
        }
        let touches = touches_todos.swap(false, Ordering::Relaxed);
        let executed = execute(&connection, &mut statement, &mut run.room)?;
        *todos_changed |= touches;
        run.executed.push(executed);
    }
    if !connection.is_autocommit() {
        run.failure.get_or_insert("the transaction was not committed, so it was undone".to_owned());
    }
    Ok(())
}

fn execute(
    connection: &Connection,
    statement: &mut Statement<'_>,
    room: &mut Room,
) -> rusqlite::Result<Executed> {
    let sql = statement.expanded_sql().unwrap_or_default();
    let verb = first_word(&sql);
    if statement.column_count() > 0 {
        return Ok(Executed { outcome: StatementResult::Rows(fetch(statement, room)?), verb });
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

fn fetch(statement: &mut Statement<'_>, room: &mut Room) -> rusqlite::Result<Table> {
    let mut table = Table::new(statement.column_names(), room);
    let (columns, only_reads) = (statement.column_count(), statement.readonly());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if table.len() < MOST_ROWS && !room.is_full() {
            table.add((0..columns).map(|index| row.get_ref(index)), room)?;
            continue;
        }
        table.more = true;
        // INSERT ... RETURNING and the like are read to the end, so that all their rows take effect.
        if only_reads {
            break;
        }
    }
    Ok(table)
}

/// Describes an error, without repeating a long query.
fn explain(error: &rusqlite::Error) -> String {
    let message = match error {
        rusqlite::Error::SqlInputError { msg, offset, .. } if *offset >= 0 => {
            format!("{} (at character {offset})", clip(msg, LONGEST_MESSAGE))
        }
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    };
    let message = clip(&message, LONGEST_MESSAGE + 100);
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            format!("the query took longer than {} seconds and was stopped", TIME_LIMIT.as_secs())
        }
        Some(ErrorCode::OutOfMemory) => {
            format!("the query needs more than {} MB of memory; select less", MEMORY_LIMIT >> 20)
        }
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            format!("{message}: only tables of the session's database can be used here")
        }
        _ => message.to_owned(),
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
