//! Results of statements as text for the model.

use baton_protocol::tool::{ResultType, ToolResult};
use rusqlite::types::ValueRef;

use super::database::{BatchResult, Executed, StatementResult};
use crate::tools::text::{clip, readable, size};

/// Below the limit above which outputs are stored in a file.
const MOST_BYTES: usize = 40 * 1024;
const LONGEST_CELL: usize = 2000;

/// A rendered value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell(String);

impl Cell {
    pub(super) fn of(value: ValueRef<'_>) -> Self {
        Self(match value {
            ValueRef::Null => "NULL".to_owned(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Blob(bytes) => format!("<{} of binary data>", size(bytes.len() as u64)),
            ValueRef::Text(bytes) => {
                let text = readable(&bytes[..bytes.len().min(LONGEST_CELL)]);
                let rest = bytes.len().saturating_sub(LONGEST_CELL);
                // Rows are lines, and columns are separated by bars.
                let text =
                    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('|', "\\|");
                if rest > 0 { format!("{text} [{rest} more bytes]") } else { text }
            }
        })
    }
}

// The wording for inserts, for schema changes and for several statements is compared byte for byte by the replay suite
// of the SDKs.
pub(super) fn result(query: &str, run: &BatchResult) -> ToolResult {
    let mut text = match run.executed.as_slice() {
        [] if run.failure.is_none() => "The query contains no statement.".to_owned(),
        [] => String::new(),
        [only] if run.failure.is_none() => outcome(&only.outcome),
        several => format!("Executed {} statement(s):\n\n{}", several.len(), numbered(several)),
    };
    if text.len() > MOST_BYTES {
        let shown = clip(&text, MOST_BYTES);
        text = format!(
            "{shown}\n[The result has {} more. Select less.]",
            size((text.len() - shown.len()) as u64)
        );
    }
    if let Some(failure) = &run.failure {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text += &format!("{gap}Error: {failure}.");
    }
    let failed = run.failure.is_some() || run.executed.is_empty();
    ToolResult {
        result_type: if failed { ResultType::Failure } else { ResultType::Success },
        session_log: Some(format!("SQL: {}\n\n{text}", clip(query, MOST_BYTES))),
        ..ToolResult::success(text)
    }
}

fn numbered(executed: &[Executed]) -> String {
    let entries: Vec<String> = (1..)
        .zip(executed)
        .map(|(number, one)| {
            format!("{number}. {}\n   {}", one.verb, outcome(&one.outcome).replace('\n', "\n   "))
        })
        .collect();
    entries.join("\n\n")
}

fn outcome(outcome: &StatementResult) -> String {
    match outcome {
        StatementResult::Inserted { rows, last_id } => {
            format!("{rows} row(s) inserted. Last inserted row ID: {last_id}.")
        }
        StatementResult::Updated { rows } => format!("{rows} row(s) updated."),
        StatementResult::Deleted { rows } => format!("{rows} row(s) deleted."),
        StatementResult::Rows { columns, rows, more } => table(columns, rows, *more),
        StatementResult::Done => "Schema operation completed successfully.".to_owned(),
    }
}

fn table(columns: &[String], rows: &[Vec<Cell>], more: bool) -> String {
    let line =
        |cells: &mut dyn Iterator<Item = &str>| format!("| {} |", cells.collect::<Vec<_>>().join(" | "));
    let mut lines =
        vec![line(&mut columns.iter().map(String::as_str)), line(&mut columns.iter().map(|_| "---"))];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(|cell| cell.0.as_str()))));
    let count = rows.len();
    lines.push(match (count, more) {
        (_, true) => format!("The first {count} rows; there are more."),
        (0, _) => "No rows.".to_owned(),
        _ => format!("{count} row(s)."),
    });
    lines.join("\n")
}
