//! The writes other than appends. Each is one statement or one transaction, and refuses by its own condition.

use baton_protocol::SessionId;
use baton_store::{Epoch, Lease, NewRecord, NewSession, Owner, StoreError, Take};
use bytes::Bytes;
use tokio_postgres::types::{ToSql, Type};

use crate::connect::{Database, PooledClient, with_client};
use crate::error::QueryError;
use crate::read::{self, integer, natural};

/// Creates a session with its first records, unless the id exists.
const CREATE: &str = "
    WITH made AS (
        INSERT INTO baton_sessions (id, created, modified, head, size, epoch, owner, server, place, busy, meta)
        VALUES ($1, $2, $2, $3, $4, nextval('baton_epochs'), $5, $6, $7, $8, $9)
        ON CONFLICT (id) DO NOTHING RETURNING key, epoch
    ), written AS (
        INSERT INTO baton_events (session, seq, kind, body)
        SELECT made.key, record.seq, record.kind, record.body
        FROM made, unnest($10, $11) WITH ORDINALITY AS record (kind, body, seq)
    ), noted AS (
        INSERT INTO baton_changes (session, deleted, server) SELECT $1, false, $6 FROM made
    )
    SELECT epoch FROM made";

/// Acquires a session of place `$6` if it is free, or if its holder has epoch `$4`, and `$5` or it is idle.
const ACQUIRE: &str = "
    UPDATE baton_sessions SET epoch = nextval('baton_epochs'), owner = $2, server = $3, busy = false
    WHERE id = $1 AND place = $6 AND (owner IS NULL OR (epoch = $4 AND ($5 OR NOT busy)))
    RETURNING epoch";

pub(crate) fn owner_json(owner: &Owner) -> Result<String, QueryError> {
    serde_json::to_string(owner).map_err(|error| QueryError::Unusable(error.to_string()))
}

pub(crate) async fn create(database: &Database, new: NewSession, place: &str) -> Result<Lease, StoreError> {
    let made = with_client!(database.writing_once(), |client| insert(&client, &new, place).await);
    match made.map_err(|fault| database.failed("write to", fault))? {
        Some(epoch) => Ok(Lease { session: new.session, epoch }),
        None => Err(StoreError::Exists(new.session)),
    }
}

async fn insert(client: &PooledClient, new: &NewSession, place: &str) -> Result<Option<Epoch>, QueryError> {
    let kinds: Vec<&[u8]> = new.records.iter().map(|record| record.kind.as_bytes()).collect();
    let bodies: Vec<&[u8]> = new.records.iter().map(|record| &record.body[..]).collect();
    let rows = client
        .query_typed(
            CREATE,
            &[
                (&new.session.as_str(), Type::TEXT),
                (&new.created.0, Type::INT8),
                (&integer(new.records.len() as u64), Type::INT8),
                (&size(&new.records), Type::INT8),
                (&owner_json(&new.owner)?, Type::TEXT),
                (&new.owner.server, Type::TEXT),
                (&place, Type::TEXT),
                (&new.busy, Type::BOOL),
                (&&new.meta[..], Type::BYTEA),
                (&kinds, Type::BYTEA_ARRAY),
                (&bodies, Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    rows.first().map(|row| Ok(Epoch(natural(row.try_get(0)?)))).transpose()
}

pub(crate) async fn acquire(
    database: &Database,
    session: &SessionId,
    owner: &Owner,
    take: Take,
    place: &str,
) -> Result<Lease, StoreError> {
    let taken = with_client!(database.writing_once(), |client| {
        take_row(&client, session, owner, take, place).await
    });
    taken.map_err(|fault| database.failed("write to", fault))
}

async fn take_row(
    client: &PooledClient,
    session: &SessionId,
    owner: &Owner,
    take: Take,
    place: &str,
) -> Result<Lease, QueryError> {
    let (from, also_busy) = condition(take);
    let json = owner_json(owner)?;
    loop {
        let rows = client
            .query_typed(
                ACQUIRE,
                &[
                    (&session.as_str(), Type::TEXT),
                    (&json, Type::TEXT),
                    (&owner.server, Type::TEXT),
                    (&from, Type::INT8),
                    (&also_busy, Type::BOOL),
                    (&place, Type::TEXT),
                ],
            )
            .await?;
        if let Some(row) = rows.first() {
            return Ok(Lease { session: session.clone(), epoch: Epoch(natural(row.try_get(0)?)) });
        }
        if let Some(refusal) = refusal(client, session, take).await? {
            return Err(refusal.into());
        }
        if let Some(place) = other_place(client, session, place).await? {
            return Err(StoreError::Elsewhere { session: session.clone(), place }.into());
        }
        // The holder has changed since: the session may be acquired now.
    }
}

/// Returns the epoch that the holder must have, and whether it may be busy. No epoch is negative.
fn condition(take: Take) -> (i64, bool) {
    match take {
        Take::IfFree => (-1, false),
        Take::From(epoch) => (integer(epoch.0), true),
        Take::FromIdle(epoch) => (integer(epoch.0), false),
    }
}

/// Returns why a session was not acquired; none if it could be now.
async fn refusal(
    client: &PooledClient,
    session: &SessionId,
    take: Take,
) -> Result<Option<StoreError>, QueryError> {
    let Some(found) = read::summary(client, session).await? else {
        return Ok(Some(StoreError::NotFound(session.clone())));
    };
    if let Some(damage) = found.damage {
        return Err(QueryError::Unusable(damage));
    }
    let held = |holder| StoreError::Held { session: session.clone(), holder: Box::new(holder) };
    Ok(found.holder.filter(|holder| !take.allows(Some(holder))).map(held))
}

/// Returns the place of a session, if it is not this one.
async fn other_place(
    client: &PooledClient,
    session: &SessionId,
    place: &str,
) -> Result<Option<String>, QueryError> {
    let sql = "SELECT place FROM baton_sessions WHERE id = $1 AND place <> $2";
    let rows = client.query_typed(sql, &[(&session.as_str(), Type::TEXT), (&place, Type::TEXT)]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn release(database: &Database, lease: Lease) -> Result<(), StoreError> {
    let sql =
        "UPDATE baton_sessions SET owner = NULL, server = NULL, busy = false WHERE id = $1 AND epoch = $2";
    let epoch = integer(lease.epoch.0);
    let released = with_client!(database.writing(), |client| {
        let params = [(&lease.session.as_str() as &(dyn ToSql + Sync), Type::TEXT), (&epoch, Type::INT8)];
        client.query_typed(sql, &params).await.map_err(QueryError::from)
    });
    released.map(drop).map_err(|fault| database.failed("write to", fault))
}

/// Deletes a session, if `take` allows acquiring it. `server` itself is not notified of it.
pub(crate) async fn delete(
    database: &Database,
    session: SessionId,
    take: Option<Take>,
    server: Option<&str>,
) -> Result<bool, StoreError> {
    let deleted = with_client!(database.writing_once(), |client| {
        delete_unless_held(&mut client, &session, take, server).await
    });
    deleted.map_err(|fault| database.failed("write to", fault))
}

async fn delete_unless_held(
    client: &mut PooledClient,
    session: &SessionId,
    take: Option<Take>,
    server: Option<&str>,
) -> Result<bool, QueryError> {
    loop {
        if delete_row(client, session, take, server).await? {
            return Ok(true);
        }
        match refusal(client, session, take.unwrap_or(Take::IfFree)).await? {
            Some(StoreError::NotFound(_)) => return Ok(false),
            Some(refusal) if take.is_some() => return Err(refusal.into()),
            Some(_) | None => {}
        }
    }
}

/// Deletes the row first, and then the records in a statement of its own: an append that was committed while the first
/// one waited for the row is visible to the second only.
async fn delete_row(
    client: &mut PooledClient,
    session: &SessionId,
    take: Option<Take>,
    server: Option<&str>,
) -> Result<bool, QueryError> {
    let (from, also_busy) = take.map_or((-1, false), condition);
    let transaction = client.transaction().await?;
    let rows = transaction
        .query_typed(
            "DELETE FROM baton_sessions
             WHERE id = $1 AND ($2 OR owner IS NULL OR (epoch = $3 AND ($4 OR NOT busy))) RETURNING key",
            &[
                (&session.as_str(), Type::TEXT),
                (&take.is_none(), Type::BOOL),
                (&from, Type::INT8),
                (&also_busy, Type::BOOL),
            ],
        )
        .await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let key: i64 = row.try_get(0)?;
    for table in ["baton_events", "baton_snapshots", "baton_texts", "baton_files"] {
        let sql = format!("DELETE FROM {table} WHERE session = $1");
        transaction.query_typed(&sql, &[(&key, Type::INT8)]).await?;
    }
    let note = "INSERT INTO baton_changes (session, deleted, server) VALUES ($1, true, $2)";
    transaction.query_typed(note, &[(&session.as_str(), Type::TEXT), (&server, Type::TEXT)]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Writes a row, which a full or read-only database refuses. An epoch may skip numbers.
pub(crate) async fn probe(database: &Database) -> Result<(), StoreError> {
    let sql = "UPDATE baton_format SET version = version";
    let written = with_client!(database.writing(), |client| client
        .query_typed(sql, &[])
        .await
        .map_err(QueryError::from));
    written.map(drop).map_err(|fault| database.failed("write to", fault))
}

/// Writes a document if its version is `expected`. Returns whether it was.
pub(crate) async fn document(
    database: &Database,
    name: String,
    expected: u64,
    body: Bytes,
) -> Result<bool, StoreError> {
    let written = with_client!(database.writing_once(), |client| {
        let sql = match expected {
            0 => {
                "INSERT INTO baton_documents (name, version, body) VALUES ($1, $2 + 1, $3)
                 ON CONFLICT DO NOTHING RETURNING version"
            }
            _ => {
                "UPDATE baton_documents SET version = version + 1, body = $3 WHERE name = $1 AND version = $2
                 RETURNING version"
            }
        };
        let values: &[(&(dyn ToSql + Sync), Type)] =
            &[(&name, Type::TEXT), (&integer(expected), Type::INT8), (&&body[..], Type::BYTEA)];
        client.query_typed(sql, values).await.map_err(QueryError::from)
    });
    written.map(|rows| !rows.is_empty()).map_err(|fault| database.failed("write to", fault))
}

pub(crate) fn size(records: &[NewRecord]) -> i64 {
    integer(records.iter().map(|record| record.body.len() as u64).sum())
}
