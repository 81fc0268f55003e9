//! The queries. Each is one statement and so sees one consistent state; `opened` consists of several, and checks the epoch.

use baton_protocol::{SessionId, Timestamp};
use baton_store::{Document, Epoch, Holder, Lease, Opened, Record, Seq, Span, StoreError, Summary};
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::PooledClient;
use crate::error::QueryError;

/// Selects sessions, with the columns that [`summary_from`] expects.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT id, head, created, modified, meta, owner, epoch, busy, size FROM baton_sessions ",
            $rest
        )
    };
}

/// Number of records per query, where a whole history is read: a result is held in memory on both sides.
const PAGE: i64 = 4096;

/// Saturates at the largest integer of PostgreSQL. No real value is that large, so a larger number means "after
/// everything".
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) async fn summary(
    client: &PooledClient,
    session: &SessionId,
) -> Result<Option<Summary>, QueryError> {
    let rows =
        client.query_typed(select_sessions!("WHERE id = $1"), &[(&session.as_str(), Type::TEXT)]).await?;
    rows.first().map(summary_from).transpose()
}

pub(crate) async fn list(client: &PooledClient) -> Result<Vec<Summary>, QueryError> {
    let rows = client.query_typed(select_sessions!("ORDER BY modified DESC, id"), &[]).await?;
    rows.iter().map(summary_from).collect()
}

pub(crate) async fn records(
    client: &PooledClient,
    session: &SessionId,
    span: Span,
) -> Result<Vec<Record>, QueryError> {
    let rows = client
        .query_typed("SELECT key FROM baton_sessions WHERE id = $1", &[(&session.as_str(), Type::TEXT)])
        .await?;
    let row = rows.first().ok_or_else(|| StoreError::NotFound(session.clone()))?;
    let key: i64 = row.try_get(0)?;
    match span {
        Span::After { after, limit } => after_seq(client, key, after, limit).await,
        Span::Before { before, limit } => {
            let rows = client
                .query_typed(
                    "SELECT seq, kind, body FROM baton_events WHERE session = $1 AND seq < $2
                     ORDER BY seq DESC LIMIT $3",
                    &[
                        (&key, Type::INT8),
                        (&integer(before.0), Type::INT8),
                        (&integer(limit as u64), Type::INT8),
                    ],
                )
                .await?;
            rows.iter().rev().map(record_from).collect()
        }
    }
}

async fn after_seq(
    client: &PooledClient,
    key: i64,
    after: Seq,
    limit: usize,
) -> Result<Vec<Record>, QueryError> {
    let mut found = Vec::new();
    let mut after = integer(after.0);
    loop {
        let wanted = integer((limit - found.len()) as u64).min(PAGE);
        let rows = client
            .query_typed(
                "SELECT seq, kind, body FROM baton_events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                &[(&key, Type::INT8), (&after, Type::INT8), (&wanted, Type::INT8)],
            )
            .await?;
        for row in &rows {
            found.push(record_from(row)?);
        }
        if wanted < PAGE || integer(rows.len() as u64) < wanted {
            return Ok(found);
        }
        after = found.last().map_or(after, |record| integer(record.seq.0));
    }
}

/// Returns the state that the holder of a fresh lease continues from. While the lease's epoch is current, there
/// was no write since the acquisition, so this is the state at that time.
pub(crate) async fn opened(client: &PooledClient, lease: Lease) -> Result<Opened, QueryError> {
    let rows = client
        .query_typed(
            "SELECT s.key, s.head, s.created, s.modified, s.meta, p.seq, p.body
             FROM baton_sessions s LEFT JOIN baton_snapshots p ON p.session = s.key
             WHERE s.id = $1 AND s.epoch = $2",
            &[(&lease.session.as_str(), Type::TEXT), (&integer(lease.epoch.0), Type::INT8)],
        )
        .await?;
    let Some(row) = rows.first() else { return Err(StoreError::Fenced(lease.session).into()) };
    let snapshot = match (row.try_get::<_, Option<i64>>(5)?, row.try_get::<_, Option<Vec<u8>>>(6)?) {
        (Some(seq), Some(body)) => Some((Seq(natural(seq)), Bytes::from(body))),
        _ => None,
    };
    let tail_after = snapshot.as_ref().map_or(Seq::ZERO, |(seq, _)| *seq);
    let tail = after_seq(client, row.try_get(0)?, tail_after, usize::MAX).await?;
    Ok(Opened {
        head: Seq(natural(row.try_get(1)?)),
        created: Timestamp(row.try_get(2)?),
        modified: Timestamp(row.try_get(3)?),
        meta: row.try_get::<_, Vec<u8>>(4)?.into(),
        lease,
        snapshot,
        tail,
    })
}

fn record_from(row: &Row) -> Result<Record, QueryError> {
    let kind = String::from_utf8_lossy(row.try_get::<_, &[u8]>(1)?).into_owned();
    Ok(Record { seq: Seq(natural(row.try_get(0)?)), kind, body: row.try_get::<_, Vec<u8>>(2)?.into() })
}

/// Reads a row of [`select_sessions`]. An unreadable owner is reported as damage, and does not hide the session.
pub(crate) fn summary_from(row: &Row) -> Result<Summary, QueryError> {
    let session = session_from(row)?;
    let (epoch, busy) = (Epoch(natural(row.try_get(6)?)), row.try_get(7)?);
    let owner = row.try_get::<_, Option<&str>>(5)?.map(serde_json::from_str).transpose();
    let damage =
        owner.as_ref().err().map(|error| format!("the stored owner of this session is damaged: {error}"));
    Ok(Summary {
        session,
        head: Seq(natural(row.try_get(1)?)),
        created: Timestamp(row.try_get(2)?),
        modified: Timestamp(row.try_get(3)?),
        meta: row.try_get::<_, Vec<u8>>(4)?.into(),
        holder: owner.ok().flatten().map(|owner| Holder { owner, epoch, busy }),
        size: natural(row.try_get(8)?),
        damage,
    })
}

/// Reads the session id in the first column.
pub(crate) fn session_from(row: &Row) -> Result<SessionId, QueryError> {
    let name: &str = row.try_get(0)?;
    name.parse().map_err(|error| QueryError::Unusable(format!("{name:?} is not a session id: {error}")))
}

pub(crate) async fn document(client: &PooledClient, name: &str) -> Result<Option<Document>, QueryError> {
    let sql = "SELECT version, body FROM baton_documents WHERE name = $1";
    let rows = client.query_typed(sql, &[(&name, Type::TEXT)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let body: Vec<u8> = row.try_get(1)?;
    Ok(Some(Document { version: natural(row.try_get(0)?), body: body.into() }))
}
