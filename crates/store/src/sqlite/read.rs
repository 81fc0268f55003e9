//! The queries, as SQL statements. Each runs inside one transaction and sees one consistent state.

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::Fault;
use super::values::{integer, natural};
use crate::{Document, Holder, Lease, Opened, Page, Record, Seq, Span, StoreError, Summary};

/// Selects sessions, with the columns that [`summary_from`] expects.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!("SELECT id, head, created, modified, meta, owner, epoch, busy, size FROM sessions ", $rest)
    };
}

/// Selects records of session `?1`, with the columns that [`record_from`] expects. Both directions search the
/// index on `(session, seq)`, so their cost depends on the number of rows returned, not on the length of the
/// history.
macro_rules! select_records {
    ($rest:literal) => {
        concat!("SELECT seq, kind, body FROM events WHERE session = ?1 AND ", $rest)
    };
}

pub(super) const RECORDS_AFTER: &str = select_records!("seq > ?2 ORDER BY seq LIMIT ?3");
pub(super) const RECORDS_BEFORE: &str = select_records!("seq < ?2 ORDER BY seq DESC LIMIT ?3");

pub(super) fn summary(file: &Connection, session: &SessionId) -> Result<Option<Summary>, Fault> {
    let mut statement = file.prepare_cached(select_sessions!("WHERE id = ?1"))?;
    Ok(statement.query_row([session.as_str()], summary_from).optional()?)
}

/// Lists all sessions. A partly unreadable row is listed with its readable columns; an unreadable page loses
/// only the rows on it.
pub(super) fn list(file: &Connection) -> Result<Vec<Summary>, Fault> {
    match list_at_once(file) {
        Err(fault) if fault.is_damage() => list_one_by_one(file),
        other => other,
    }
}

fn list_at_once(file: &Connection) -> Result<Vec<Summary>, Fault> {
    let mut statement = file.prepare_cached(select_sessions!("ORDER BY modified DESC, id"))?;
    let all = statement.query_map([], |row| Ok(readable_summary(row)))?;
    let rows: Vec<Option<Summary>> = all.collect::<Result<_, _>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// Lists sessions row by row. The ids come from the index, so they are known even where the rows are
/// unreadable.
fn list_one_by_one(file: &Connection) -> Result<Vec<Summary>, Fault> {
    let mut statement = file.prepare("SELECT id FROM sessions ORDER BY id")?;
    let mut names: Vec<String> = Vec::new();
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(Some(row)) => names.extend(row.get(0).ok()),
            Ok(None) => break,
            Err(error) if names.is_empty() => return Err(error.into()),
            // Only the ids before the damage are readable.
            Err(error) => {
                tracing::warn!(%error, "list of sessions is incomplete: its index is damaged");
                break;
            }
        }
    }
    let find = |name: &String| {
        let session: SessionId = name.parse().ok()?;
        match summary(file, &session) {
            Ok(found) => found,
            Err(Fault::Sqlite(error)) => Some(damaged_summary(session, None, &error.to_string())),
            Err(_) => Some(damaged_summary(session, None, "its row is damaged")),
        }
    };
    let mut found: Vec<Summary> = names.iter().filter_map(find).collect();
    found.sort_by_key(|summary| std::cmp::Reverse(summary.modified));
    Ok(found)
}

/// Returns the readable columns of a row, or `None` if even the id is unreadable.
fn readable_summary(row: &Row<'_>) -> Option<Summary> {
    match summary_from(row) {
        Ok(summary) => Some(summary),
        Err(error) => {
            let name = row.get_ref(0).ok().and_then(|name| name.as_str().ok()?.parse().ok());
            if name.is_none() {
                tracing::warn!(%error, "skipped a session in the list: its id is unreadable");
            }
            Some(damaged_summary(name?, Some(row), &error.to_string()))
        }
    }
}

fn damaged_summary(session: SessionId, row: Option<&Row<'_>>, error: &str) -> Summary {
    tracing::warn!(%session, error, "row of a session is damaged");
    let number = |column: usize| row.and_then(|row| row.get::<_, i64>(column).ok());
    Summary {
        session,
        head: Seq(number(1).and_then(|head| u64::try_from(head).ok()).unwrap_or(0)),
        created: Timestamp(number(2).unwrap_or(0)),
        modified: Timestamp(number(3).unwrap_or(0)),
        meta: row.and_then(|row| bytes(row, 4).ok()).unwrap_or_default(),
        holder: None,
        size: number(8).and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        damage: Some(format!("the stored properties of this session are damaged: {error}")),
    }
}

pub(super) fn records(file: &Connection, session: &SessionId, span: Span) -> Result<Vec<Record>, Fault> {
    Ok(page(file, session, span, usize::MAX)?.records)
}

/// Reads records up to `bytes`. Those that do not fit are not read from the file.
pub(super) fn page(file: &Connection, session: &SessionId, span: Span, bytes: usize) -> Result<Page, Fault> {
    let key = file
        .prepare_cached("SELECT key FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(session.clone()))?;
    match span {
        Span::After { after, limit } => select(file, RECORDS_AFTER, key, after, limit, bytes),
        Span::Before { before, limit } => {
            let mut found = select(file, RECORDS_BEFORE, key, before, limit, bytes)?;
            found.records.reverse();
            Ok(found)
        }
    }
}

fn select(
    file: &Connection,
    sql: &str,
    key: i64,
    place: Seq,
    limit: usize,
    bytes: usize,
) -> Result<Page, Fault> {
    let mut statement = file.prepare_cached(sql)?;
    let (mut records, mut left) = (Vec::new(), Some(bytes));
    for record in statement.query_map(params![key, place, integer(limit as u64)], record_from)? {
        let record = record?;
        left = left.and_then(|left| left.checked_sub(record.body.len()));
        if left.is_none() && !records.is_empty() {
            return Ok(Page { records, is_cut: true });
        }
        records.push(record);
    }
    Ok(Page { records, is_cut: false })
}

/// Returns the state that the holder of a fresh lease continues from. While the lease's epoch is current, there
/// was no write since the acquisition, so this is the state at that time.
pub(super) fn opened(file: &Connection, lease: Lease) -> Result<Opened, Fault> {
    let found = file
        .prepare_cached(
            "SELECT key, head, created, modified, meta FROM sessions WHERE id = ?1 AND epoch = ?2",
        )?
        .query_row(params![lease.session.as_str(), lease.epoch], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()?;
    let Some((key, head, created, modified, meta)) = found else {
        return Err(StoreError::Fenced(lease.session).into());
    };
    let snapshot: Option<(Seq, Vec<u8>)> = file
        .prepare_cached("SELECT seq, body FROM snapshots WHERE session = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let tail_after = snapshot.as_ref().map_or(Seq::ZERO, |(seq, _)| *seq);
    Ok(Opened {
        lease,
        head,
        created: Timestamp(created),
        modified: Timestamp(modified),
        meta: Vec::into(meta),
        snapshot: snapshot.map(|(seq, body)| (seq, body.into())),
        tail: select(file, RECORDS_AFTER, key, tail_after, usize::MAX, usize::MAX)?.records,
    })
}

fn record_from(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record { seq: row.get(0)?, kind: row.get(1)?, body: bytes(row, 2)? })
}

fn summary_from(row: &Row<'_>) -> rusqlite::Result<Summary> {
    let session =
        row.get_ref(0)?.as_str()?.parse().map_err(|error| damaged(0, FromSqlError::other(error)))?;
    let holder = match row.get(5)? {
        Some(owner) => Some(Holder { owner, epoch: row.get(6)?, busy: row.get(7)? }),
        None => None,
    };
    Ok(Summary {
        session,
        head: row.get(1)?,
        created: Timestamp(row.get(2)?),
        modified: Timestamp(row.get(3)?),
        meta: bytes(row, 4)?,
        holder,
        size: natural(row.get_ref(8)?).map_err(|error| damaged(8, error))?,
        damage: None,
    })
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    Ok(row.get::<_, Vec<u8>>(column)?.into())
}

pub(super) fn damaged(column: usize, error: FromSqlError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, error.into())
}

pub(super) fn document(file: &Connection, name: &str) -> Result<Option<Document>, Fault> {
    let mut statement = file.prepare_cached("SELECT version, body FROM documents WHERE name = ?1")?;
    let read = |row: &Row<'_>| {
        let (version, body): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok(Document { version: version.unsigned_abs(), body: body.into() })
    };
    Ok(statement.query_row([name], read).optional()?)
}
