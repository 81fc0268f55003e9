//! The index of texts: words in an FTS5 table, and the cursor of each session.

use std::fmt::Write;

use baton_protocol::SessionId;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::Fault;
use super::read::damaged;
use super::values::integer;
use super::{SqliteStore, natural};
use crate::StoreFuture;
use crate::texts::{Hit, TextIndex, Texts, Unindexed, Words};

impl TextIndex for SqliteStore {
    fn unindexed(&self, limit: usize) -> StoreFuture<'_, Vec<Unindexed>> {
        Box::pin(async move { Ok(self.query(move |file| unindexed(file, limit)).await?.unwrap_or_default()) })
    }

    fn index(&self, texts: Texts) -> StoreFuture<'_, bool> {
        let weight = texts.words.iter().map(|(_, words)| words.size()).sum();
        Box::pin(self.write(weight, move |file| index(file, &texts)))
    }

    fn find(&self, query: Words, limit: usize) -> StoreFuture<'_, Vec<Hit>> {
        Box::pin(
            async move { Ok(self.query(move |file| find(file, &query, limit)).await?.unwrap_or_default()) },
        )
    }
}

fn unindexed(file: &Connection, limit: usize) -> Result<Vec<Unindexed>, Fault> {
    let mut statement = file.prepare_cached(
        "SELECT id, indexed, head FROM sessions WHERE indexed < head ORDER BY modified DESC, id LIMIT ?1",
    )?;
    let read =
        |row: &Row<'_>| Ok(Unindexed { session: session(row)?, indexed: row.get(1)?, head: row.get(2)? });
    Ok(statement.query_map([integer(limit as u64)], read)?.collect::<Result<_, _>>()?)
}

fn index(file: &Connection, texts: &Texts) -> Result<bool, Fault> {
    let key: Option<i64> = file
        .prepare_cached(
            "UPDATE sessions SET indexed = ?3 WHERE id = ?1 AND indexed = ?2 AND head >= ?3 RETURNING key",
        )?
        .query_row(params![texts.session.as_str(), texts.after, texts.through], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(false) };
    let mut place = file.prepare_cached("INSERT INTO texts (session, seq) VALUES (?1, ?2) RETURNING id")?;
    let mut insert = file.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    for (seq, words) in &texts.words {
        let id: i64 = place.query_row(params![key, seq], |row| row.get(0))?;
        let joined: Vec<&str> = words.iter().collect();
        insert.execute(params![id, joined.join(" ")])?;
    }
    Ok(true)
}

fn find(file: &Connection, query: &Words, limit: usize) -> Result<Vec<Hit>, Fault> {
    let mut expression = String::new();
    // Words consist of letters and digits: nothing in them ends the quotes.
    for word in query.iter() {
        let _ = write!(expression, "\"{word}\"* ");
    }
    if expression.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = file.prepare_cached(
        "SELECT s.id, count(*), min(t.seq) FROM words JOIN texts t ON t.id = words.rowid JOIN sessions s ON s.key = t.session
         WHERE words MATCH ?1 GROUP BY s.key ORDER BY s.modified DESC, s.id LIMIT ?2",
    )?;
    let read = |row: &Row<'_>| {
        let matches = natural(row.get_ref(1)?).map_err(|error| damaged(1, error))?;
        Ok(Hit { session: session(row)?, matches, first: row.get(2)? })
    };
    Ok(statement.query_map(params![expression, integer(limit as u64)], read)?.collect::<Result<_, _>>()?)
}

fn session(row: &Row<'_>) -> rusqlite::Result<SessionId> {
    row.get_ref(0)?.as_str()?.parse().map_err(|error| damaged(0, FromSqlError::other(error)))
}

/// Deletes some texts of a deleted session. Returns the number.
pub(super) fn sweep(file: &Connection, key: i64, at_most: usize) -> Result<usize, Fault> {
    let mut select = file.prepare_cached("SELECT id FROM texts WHERE session = ?1 LIMIT ?2")?;
    let ids: Vec<i64> = select
        .query_map(params![key, integer(at_most as u64)], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in &ids {
        file.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
        file.prepare_cached("DELETE FROM texts WHERE id = ?1")?.execute([id])?;
    }
    Ok(ids.len())
}
