//! Renders the results of statements as text for the model, and collects no more than it shows.

use rusqlite::types::ValueRef;

use super::statements::{BatchResult, Executed, StatementResult};
use crate::QueryResult;

/// Size limit of the text, in bytes: below the limit above which outputs are stored in a file.
const MOST_BYTES: usize = 40 * 1024;
const LONGEST_CELL: usize = 2000;

/// Room for the rows of all statements of a query.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: MOST_BYTES }
    }
}

impl Room {
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Appends a cell to a line, or as much of it as there is room for.
    fn add(&mut self, line: &mut String, cell: &str) {
        let cell = clip(cell, self.left);
        line.push_str(cell);
        line.push_str(" | ");
        self.left = self.left.saturating_sub(cell.len() + 3);
    }
}

/// The rows of a statement, as far as there is room for them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    /// Lines of text: the head, then the rows.
    lines: Vec<String>,
    /// Whether there are more rows.
    pub(super) more: bool,
}

impl Table {
    pub(super) fn new<'a>(columns: impl Iterator<Item = &'a str>, room: &mut Room) -> Self {
        if room.is_full() {
            return Self::default();
        }
        let mut head = "| ".to_owned();
        let mut shown = 0;
        for column in columns {
            if room.is_full() {
                break;
            }
            room.add(&mut head, column);
            shown += 1;
        }
        Self { lines: vec![head.trim_end().to_owned(), format!("|{}", " --- |".repeat(shown))], more: false }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.lines.len().saturating_sub(2)
    }

    pub(super) fn add<'a>(
        &mut self,
        values: impl Iterator<Item = rusqlite::Result<ValueRef<'a>>>,
        room: &mut Room,
    ) -> rusqlite::Result<()> {
        let mut line = "| ".to_owned();
        for value in values {
            room.add(&mut line, &cell(value?));
            if room.is_full() {
                break;
            }
        }
        self.lines.push(line.trim_end().to_owned());
        Ok(())
    }

    fn text(&self) -> String {
        let count = self.len();
        let end = match (count, self.more) {
            _ if self.lines.is_empty() => "The rows are left out.".to_owned(),
            (_, true) => format!("The first {count} rows; there are more."),
            (0, _) => "No rows.".to_owned(),
            _ => format!("{count} row(s)."),
        };
        self.lines.iter().cloned().chain([end]).collect::<Vec<_>>().join("\n")
    }
}

/// Renders a value.
fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Blob(bytes) => format!("<{} bytes of binary data>", bytes.len()),
        ValueRef::Text(bytes) => {
            let shown = &bytes[..bytes.len().min(LONGEST_CELL)];
            let text = String::from_utf8_lossy(shown).replace('\0', "\u{fffd}");
            // Rows are lines, and columns are separated by bars.
            let text =
                text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('|', "\\|");
            match bytes.len() - shown.len() {
                0 => text,
                rest => format!("{text} [{rest} more bytes]"),
            }
        }
    }
}

// The wording for inserts, for schema changes and for several statements is compared byte for byte by the replay suite
// of the SDKs.
pub(super) fn result(run: &BatchResult) -> QueryResult {
    let mut text = match run.executed.as_slice() {
        [] if run.failure.is_none() => "The query contains no statement.".to_owned(),
        [] => String::new(),
        [only] if run.failure.is_none() => outcome(&only.outcome),
        several => format!("Executed {} statement(s):\n\n{}", several.len(), numbered(several)),
    };
    if !run.executed.is_empty() && (run.room.is_full() || text.len() > MOST_BYTES) {
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        text += &format!("\n[The result is longer than {} KB. Select less.]", MOST_BYTES / 1024);
    }
    if let Some(failure) = &run.failure {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text += &format!("{gap}Error: {failure}.");
    }
    QueryResult { text, failed: run.failure.is_some() || run.executed.is_empty() }
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
        StatementResult::Rows(table) => table.text(),
        StatementResult::Done => "Schema operation completed successfully.".to_owned(),
    }
}

/// Returns at most the first `limit` bytes, cut between characters.
pub(super) fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
