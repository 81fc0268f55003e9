//! The writes, as SQL statements. Each runs inside a transaction that the [writer](super::writer) opens and
//! commits, often with other writes. Each therefore **checks first and then writes**: a refused write has
//! changed nothing.

use baton_protocol::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::read;
use super::texts;
use super::values::integer;
use crate::{Append, Epoch, Lease, NewRecord, NewSession, Owner, Seq, StoreError, Take};

pub(super) fn create(file: &Connection, new: &NewSession, instance: i64) -> Result<Lease, Fault> {
    if read::summary(file, &new.session)?.is_some() {
        return Err(StoreError::Exists(new.session.clone()).into());
    }
    let epoch = next_epoch(file)?;
    let key: i64 = file
        .prepare_cached(
            "INSERT INTO sessions (id, created, modified, head, size, epoch, owner, instance, busy, meta)
             VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING key",
        )?
        .query_row(
            params![
                new.session.as_str(),
                new.created.0,
                Seq::ZERO.plus(new.records.len()),
                size(&new.records),
                epoch,
                new.owner,
                instance,
                new.busy,
                &new.meta[..],
            ],
            |row| row.get(0),
        )?;
    insert(file, key, Seq::ZERO, &new.records)?;
    Ok(Lease { session: new.session.clone(), epoch })
}

pub(super) fn acquire(
    file: &Connection,
    session: &SessionId,
    owner: &Owner,
    take: Take,
    instance: i64,
) -> Result<Lease, Fault> {
    let summary = read::summary(file, session)?.ok_or_else(|| StoreError::NotFound(session.clone()))?;
    if !take.allows(summary.holder.as_ref())
        && let Some(holder) = summary.holder
    {
        return Err(StoreError::Held { session: session.clone(), holder: Box::new(holder) }.into());
    }
    let epoch = next_epoch(file)?;
    file.prepare_cached("UPDATE sessions SET epoch = ?2, owner = ?3, instance = ?4, busy = 0 WHERE id = ?1")?
        .execute(params![session.as_str(), epoch, owner, instance])?;
    Ok(Lease { session: session.clone(), epoch })
}

pub(super) fn append(file: &Connection, append: &Append) -> Result<Seq, Fault> {
    let Lease { session, epoch } = &append.lease;
    let (key, actual): (i64, Seq) = file
        .prepare_cached("SELECT key, head FROM sessions WHERE id = ?1 AND epoch = ?2 AND owner IS NOT NULL")?
        .query_row(params![session.as_str(), epoch], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| StoreError::Fenced(session.clone()))?;
    if actual != append.expected {
        let expected = append.expected;
        return Err(StoreError::OutOfStep { session: session.clone(), expected, actual }.into());
    }
    let head = actual.plus(append.records.len());
    insert(file, key, actual, &append.records)?;
    file.prepare_cached(
        "UPDATE sessions
         SET head = ?2, modified = ?3, size = size + ?4, busy = ?5, meta = coalesce(?6, meta) WHERE key = ?1",
    )?
    .execute(params![
        key,
        head,
        append.modified.0,
        size(&append.records),
        append.busy,
        append.meta.as_deref()
    ])?;
    if let Some(snapshot) = &append.snapshot {
        file.prepare_cached("INSERT OR REPLACE INTO snapshots (session, seq, body) VALUES (?1, ?2, ?3)")?
            .execute(params![key, head, &snapshot[..]])?;
    }
    Ok(head)
}

pub(super) fn release(file: &Connection, lease: &Lease) -> Result<(), Fault> {
    file.prepare_cached(
        "UPDATE sessions SET owner = NULL, instance = NULL, busy = 0 WHERE id = ?1 AND epoch = ?2",
    )?
    .execute(params![lease.session.as_str(), lease.epoch])?;
    Ok(())
}

/// Removes the session from the table. It may have millions of events, and deleting them here would delay all
/// other writes; [`sweep`] deletes them in small steps.
pub(super) fn delete(file: &Connection, session: &SessionId) -> Result<bool, Fault> {
    let key: Option<i64> = file
        .prepare_cached("DELETE FROM sessions WHERE id = ?1 RETURNING key")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(false) };
    file.prepare_cached("DELETE FROM snapshots WHERE session = ?1")?.execute([key])?;
    file.prepare_cached("INSERT INTO deleted (session) VALUES (?1)")?.execute([key])?;
    Ok(true)
}

/// Deletes the session if `take` allows acquiring it.
pub(super) fn delete_if(file: &Connection, session: &SessionId, take: Take) -> Result<bool, Fault> {
    let holder = read::summary(file, session)?.and_then(|summary| summary.holder);
    match holder {
        Some(holder) if !take.allows(Some(&holder)) => {
            Err(StoreError::Held { session: session.clone(), holder: Box::new(holder) }.into())
        }
        _ => delete(file, session),
    }
}

/// Writes a page, which a full or read-only disk refuses. An update that changes nothing would write no page;
/// an epoch may skip numbers.
pub(super) fn probe(file: &Connection) -> Result<(), Fault> {
    file.prepare_cached("UPDATE epochs SET last = last + 1")?.execute([])?;
    Ok(())
}

/// Writes a document if its version is `expected`. Returns whether it was.
pub(super) fn document(file: &Connection, name: &str, expected: u64, body: &[u8]) -> Result<bool, Fault> {
    let written = match expected {
        0 => file
            .prepare_cached(
                "INSERT INTO documents (name, version, body) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![name, body])?,
        _ => file
            .prepare_cached(
                "UPDATE documents SET version = version + 1, body = ?3 WHERE name = ?1 AND version = ?2",
            )?
            .execute(params![name, integer(expected), body])?,
    };
    Ok(written == 1)
}

/// Deletes some texts and events of deleted sessions. Returns whether more may remain.
pub(super) fn sweep(file: &Connection, at_most: usize) -> Result<bool, Fault> {
    let key: Option<i64> = file
        .prepare_cached("SELECT session FROM deleted LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(false) };
    if texts::sweep(file, key, at_most)? == at_most {
        return Ok(true);
    }
    let swept = file
        .prepare_cached(
            "DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE session = ?1 LIMIT ?2)",
        )?
        .execute(params![key, integer(at_most as u64)])?;
    if swept < at_most {
        file.prepare_cached("DELETE FROM deleted WHERE session = ?1")?.execute([key])?;
    }
    Ok(true)
}

fn next_epoch(file: &Connection) -> Result<Epoch, Fault> {
    Ok(file
        .prepare_cached("UPDATE epochs SET last = last + 1 RETURNING last")?
        .query_row([], |row| row.get(0))?)
}

fn insert(file: &Connection, key: i64, after: Seq, records: &[NewRecord]) -> Result<(), Fault> {
    let mut statement =
        file.prepare_cached("INSERT INTO events (session, seq, kind, body) VALUES (?1, ?2, ?3, ?4)")?;
    for (offset, record) in records.iter().enumerate() {
        statement.execute(params![key, after.plus(offset + 1), record.kind, &record.body[..]])?;
    }
    Ok(())
}

fn size(records: &[NewRecord]) -> i64 {
    integer(records.iter().map(|record| record.body.len() as u64).sum())
}
