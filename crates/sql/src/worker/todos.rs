//! Reading the todo list, for clients.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Row};

use super::confine;
use crate::{Dependency, Todo};

/// Rows of `todos` and of `todo_deps` that clients see.
const MOST_ROWS: usize = 1000;
/// Bytes of the texts in them.
const MOST_BYTES: usize = 1 << 20;

/// Reads the first todos and dependencies.
pub(super) fn read(path: &Path) -> rusqlite::Result<(Vec<Todo>, Vec<Dependency>)> {
    let connection = confine::open(path, &Arc::default())?;
    let mut room = MOST_BYTES;
    let columns = ["id", "title", "description", "status", "created_at", "updated_at"];
    let todos = first(&connection, "todos", &columns, |row| {
        let todo = Todo {
            id: row.get(0)?,
            title: row.get(1)?,
            description: row.get(2)?,
            status: row.get(3)?,
            created_at: row.get(4)?,
            updated_at: row.get(5)?,
        };
        let optional = [&todo.title, &todo.description, &todo.status, &todo.created_at, &todo.updated_at];
        let size = todo.id.len() + optional.into_iter().flatten().map(String::len).sum::<usize>();
        Ok(take(&mut room, size).then_some(todo))
    })?;
    let dependencies = first(&connection, "todo_deps", &["todo_id", "depends_on"], |row| {
        let dependency = Dependency { todo_id: row.get(0)?, depends_on: row.get(1)? };
        let size = dependency.todo_id.len() + dependency.depends_on.len();
        Ok(take(&mut room, size).then_some(dependency))
    })?;
    Ok((todos, dependencies))
}

/// Reads the first rows of a table, up to one that `of` returns no value for.
fn first<T>(
    connection: &Connection,
    table: &str,
    columns: &[&str],
    mut of: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
) -> rusqlite::Result<Vec<T>> {
    let columns: Vec<String> = columns.iter().map(|column| format!("substr({column}, 1, 10000)")).collect();
    let query = format!("SELECT {} FROM {table} NOT INDEXED LIMIT {MOST_ROWS}", columns.join(", "));
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match of(row)? {
            Some(value) => found.push(value),
            None => break,
        }
    }
    Ok(found)
}

/// Takes `size` bytes from the room that is left, if there are as many.
fn take(room: &mut usize, size: usize) -> bool {
    let left = room.checked_sub(size);
    *room = left.unwrap_or(0);
    left.is_some()
}
