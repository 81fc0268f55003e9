//! Servers that share the database.

use std::time::Duration;

use baton_protocol::SessionId;
use baton_store::members::{DEAD_AFTER, Member, Members, NewMember, SessionListChange};
use baton_store::{Epoch, Holder, StoreError, StoreFuture};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::connect::{PooledClient, with_client};
use crate::error::QueryError;
use crate::read::{integer, natural};
use crate::write::owner_json;

/// Enters a server, and forgets those that have been dead for a day. Enters nothing if another living process has this id.
const ENTER: &str = "
    WITH gone AS (
        DELETE FROM baton_servers WHERE seen < clock_timestamp() - interval '1 day' AND id <> $1
    )
    INSERT INTO baton_servers (id, owner, address, place, version, home) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, address = excluded.address, place = excluded.place,
        version = excluded.version, home = excluded.home, draining = false, seen = clock_timestamp()
    WHERE baton_servers.owner = excluded.owner
        OR baton_servers.seen < clock_timestamp() - $7 * interval '1 millisecond'
    RETURNING number";

/// Reads recent changes of other servers, and deletes old ones.
const CHANGES: &str = "
    WITH old AS (DELETE FROM baton_changes WHERE at < clock_timestamp() - interval '1 minute')
    SELECT number, session, deleted FROM baton_changes
    WHERE number > $1 AND server IS DISTINCT FROM $2 AND at > clock_timestamp() - interval '10 seconds'
    ORDER BY number LIMIT 10000";

/// Selects servers, with the columns that [`member_from`] expects.
macro_rules! select_servers {
    ($counts:literal, $rest:literal) => {
        concat!(
            "SELECT owner, number, address, place, version, draining,
             greatest(0, extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint, home, ",
            $counts,
            " FROM baton_servers ",
            $rest
        )
    };
}

const LIST: &str = select_servers!(
    "(SELECT count(*) FROM baton_sessions s WHERE s.server = baton_servers.id),
     (SELECT count(*) FROM baton_sessions s WHERE s.server = baton_servers.id AND s.busy)",
    "ORDER BY number"
);

const ONE: &str = select_servers!("0::bigint, 0::bigint", "WHERE id = $1");

/// Finds busy sessions of dead servers. Rows that another server is just taking are skipped.
const ORPHANS: &str = "
    SELECT s.id, s.owner, s.epoch FROM baton_sessions s
    WHERE s.busy AND s.server IS NOT NULL AND s.place = $1 AND NOT EXISTS (
        SELECT 1 FROM baton_servers m
        WHERE m.id = s.server AND m.seen > clock_timestamp() - $2 * interval '1 millisecond'
    )
    LIMIT $3 FOR UPDATE OF s SKIP LOCKED";

impl Members for PostgresStore {
    fn place(&self) -> &str {
        &self.place
    }

    fn enter(&self, member: NewMember) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let entered = with_client!(self.database.writing(), |client| enter(&client, &member).await);
            let number = entered.map_err(|fault| self.database.failed("write to", fault))?;
            self.server.get_or_init(|| member.owner.server.clone());
            Ok(number)
        })
    }

    fn beat(&self, server: &str, draining: bool) -> StoreFuture<'_, Option<bool>> {
        let server = server.to_owned();
        Box::pin(async move {
            let sql = "UPDATE baton_servers SET seen = clock_timestamp(), draining = draining OR $2
                 WHERE id = $1 RETURNING draining";
            // Once: the next heartbeat is the retry, and a late one must not look like a new one.
            let beaten = with_client!(self.database.beating(), |client| {
                let params = [(&server as _, Type::TEXT), (&draining as _, Type::BOOL)];
                client.query_typed(sql, &params).await.map_err(QueryError::from)
            });
            let rows = beaten.map_err(|fault| self.database.failed("write to", fault))?;
            let draining = rows.first().map(|row| row.try_get(0)).transpose();
            draining.map_err(|error| self.database.failed("write to", error.into()))
        })
    }

    fn ask_to_drain(&self, server: &str) -> StoreFuture<'_, bool> {
        let server = server.to_owned();
        Box::pin(async move {
            let sql = "UPDATE baton_servers SET draining = true WHERE id = $1 RETURNING 1";
            let asked = with_client!(self.database.writing(), |client| {
                client.query_typed(sql, &[(&server as _, Type::TEXT)]).await.map_err(QueryError::from)
            });
            asked.map(|rows| !rows.is_empty()).map_err(|fault| self.database.failed("write to", fault))
        })
    }

    fn leave(&self, server: &str) -> StoreFuture<'_, ()> {
        let server = server.to_owned();
        Box::pin(async move {
            let left = with_client!(self.database.writing(), |client| {
                let params = [(&server as _, Type::TEXT)];
                let sql = "DELETE FROM baton_servers WHERE id = $1";
                client.query_typed(sql, &params).await.map_err(QueryError::from)
            });
            left.map(drop).map_err(|fault| self.database.failed("write to", fault))
        })
    }

    fn list(&self) -> StoreFuture<'_, Vec<Member>> {
        Box::pin(async move {
            let rows = with_client!(self.database.reading(), |client| {
                client.query_typed(LIST, &[]).await.map_err(QueryError::from)
            });
            self.members_from(rows)
        })
    }

    fn member(&self, server: &str) -> StoreFuture<'_, Option<Member>> {
        let server = server.to_owned();
        Box::pin(async move {
            let rows = with_client!(self.database.reading(), |client| {
                client.query_typed(ONE, &[(&server, Type::TEXT)]).await.map_err(QueryError::from)
            });
            Ok(self.members_from(rows)?.pop())
        })
    }

    fn orphans(&self, place: &str, limit: usize) -> StoreFuture<'_, Vec<(SessionId, Holder)>> {
        let place = place.to_owned();
        Box::pin(async move {
            let age = milliseconds(DEAD_AFTER);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = with_client!(self.database.writing(), |client| {
                let params =
                    [(&place as _, Type::TEXT), (&age as _, Type::FLOAT8), (&limit as _, Type::INT8)];
                client.query_typed(ORPHANS, &params).await.map_err(QueryError::from)
            });
            let failed = |fault| self.database.failed("read", fault);
            rows.map_err(failed)?.iter().map(orphan_from).collect::<Result<_, QueryError>>().map_err(failed)
        })
    }

    fn changes(&self, after: u64) -> StoreFuture<'_, Vec<SessionListChange>> {
        Box::pin(async move {
            let (after, server) = (integer(after), self.server());
            let rows = with_client!(self.database.writing(), |client| {
                let params = [(&after as _, Type::INT8), (&server as _, Type::TEXT)];
                client.query_typed(CHANGES, &params).await.map_err(QueryError::from)
            });
            let failed = |fault| self.database.failed("read", fault);
            rows.map_err(failed)?.iter().map(change_from).collect::<Result<_, QueryError>>().map_err(failed)
        })
    }

    fn place_of(&self, session: &SessionId) -> StoreFuture<'_, Option<String>> {
        let session = session.clone();
        Box::pin(async move {
            let sql = "SELECT place FROM baton_sessions WHERE id = $1";
            let rows = with_client!(self.database.reading(), |client| {
                client.query_typed(sql, &[(&session.as_str(), Type::TEXT)]).await.map_err(QueryError::from)
            });
            let failed = |fault| self.database.failed("read", fault);
            let place = rows.map_err(failed)?.first().map(|row| row.try_get(0)).transpose();
            place.map_err(|error| failed(error.into()))
        })
    }
}

impl PostgresStore {
    fn members_from(&self, rows: Result<Vec<Row>, QueryError>) -> Result<Vec<Member>, StoreError> {
        let members = rows.and_then(|rows| rows.iter().map(member_from).collect());
        members.map_err(|fault| self.database.failed("read", fault))
    }
}

async fn enter(client: &PooledClient, member: &NewMember) -> Result<u64, QueryError> {
    let rows = client
        .query_typed(
            ENTER,
            &[
                (&member.owner.server, Type::TEXT),
                (&owner_json(&member.owner)?, Type::TEXT),
                (&member.address, Type::TEXT),
                (&member.place, Type::TEXT),
                (&member.version, Type::TEXT),
                (&member.home, Type::TEXT),
                (&milliseconds(DEAD_AFTER), Type::FLOAT8),
            ],
        )
        .await?;
    let Some(row) = rows.first() else {
        let id = &member.owner.server;
        return Err(QueryError::Unusable(format!(
            "another living server has the id {id:?}: a copy of a running machine, probably. Stop one of the two"
        )));
    };
    Ok(natural(row.try_get(0)?))
}

fn member_from(row: &Row) -> Result<Member, QueryError> {
    let damaged = |error| QueryError::Unusable(format!("the entry of a server is damaged: {error}"));
    Ok(Member {
        owner: serde_json::from_str(row.try_get(0)?).map_err(damaged)?,
        number: natural(row.try_get(1)?),
        address: row.try_get(2)?,
        place: row.try_get(3)?,
        version: row.try_get(4)?,
        draining: row.try_get(5)?,
        age: Duration::from_millis(natural(row.try_get(6)?)),
        home: row.try_get(7)?,
        sessions: natural(row.try_get(8)?),
        busy: natural(row.try_get(9)?),
    })
}

fn milliseconds(duration: Duration) -> f64 {
    f64::from(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX))
}

fn change_from(row: &Row) -> Result<SessionListChange, QueryError> {
    let name: &str = row.try_get(1)?;
    let session = name.parse().map_err(|error| QueryError::Unusable(format!("{name:?}: {error}")))?;
    Ok(SessionListChange { number: natural(row.try_get(0)?), session, deleted: row.try_get(2)? })
}

fn orphan_from(row: &Row) -> Result<(SessionId, Holder), QueryError> {
    let name: &str = row.try_get(0)?;
    let session = name.parse().map_err(|error| QueryError::Unusable(format!("{name:?}: {error}")))?;
    let owner =
        serde_json::from_str(row.try_get(1)?).map_err(|error| QueryError::Unusable(error.to_string()))?;
    Ok((session, Holder { owner, epoch: Epoch(natural(row.try_get(2)?)), busy: true }))
}
