//! The questions, as statements. Each runs inside one transaction, so all that it reads is of one moment.

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::Fault;
use super::values::{integer, natural};
use crate::{Holder, Lease, Opened, Record, Seq, Span, StoreError, Summary};

/// Sessions, with the columns that [`summary_from`] expects.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!("SELECT id, head, created, modified, meta, owner, epoch, busy, size FROM sessions ", $rest)
    };
}

/// Records of session `?1`, with the columns that [`record_from`] expects. Both ways to go on search the
/// index of `(session, seq)`, so they cost what they return, however long the history is.
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

pub(super) fn list(file: &Connection) -> Result<Vec<Summary>, Fault> {
    let mut statement = file.prepare_cached(select_sessions!("ORDER BY modified DESC, id"))?;
    let all = statement.query_map([], summary_from)?.collect::<Result<_, _>>()?;
    Ok(all)
}

pub(super) fn records(file: &Connection, session: &SessionId, span: Span) -> Result<Vec<Record>, Fault> {
    let key = file
        .prepare_cached("SELECT key FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(session.clone()))?;
    match span {
        Span::After { after, limit } => select(file, RECORDS_AFTER, key, after, limit),
        Span::Before { before, limit } => {
            let mut found = select(file, RECORDS_BEFORE, key, before, limit)?;
            found.reverse();
            Ok(found)
        }
    }
}

fn select(file: &Connection, sql: &str, key: i64, place: Seq, limit: usize) -> Result<Vec<Record>, Fault> {
    let mut statement = file.prepare_cached(sql)?;
    let found = statement
        .query_map(params![key, place, integer(limit as u64)], record_from)?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// What the holder of a fresh lease goes on with. As long as the epoch is still the lease's, nobody has
/// written since it was acquired, so this is what the acquisition saw.
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
        tail: select(file, RECORDS_AFTER, key, tail_after, usize::MAX)?,
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
    })
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    Ok(row.get::<_, Vec<u8>>(column)?.into())
}

fn damaged(column: usize, error: FromSqlError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, error.into())
}
