//! Files of sessions, in a table of their own.

use baton_protocol::SessionId;
use baton_store::shared_files::{FileChange, SharedFile, SharedFiles};
use baton_store::{Lease, StoreError, StoreFuture};
use bytes::Bytes;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::connect::{PooledClient, with_client};
use crate::error::QueryError;
use crate::read::integer;

const LIST: &str = "
    SELECT f.path, f.digest FROM baton_files f JOIN baton_sessions s ON s.key = f.session
    WHERE s.id = $1 ORDER BY f.path";

const READ: &str = "
    SELECT f.body FROM baton_files f JOIN baton_sessions s ON s.key = f.session WHERE s.id = $1 AND f.path = $2";

/// Finds the session, and keeps others from acquiring it until the end of the transaction.
const HOLD: &str =
    "SELECT key FROM baton_sessions WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL FOR SHARE";

const PUT: &str = "
    INSERT INTO baton_files (session, path, digest, body) VALUES ($1, $2, $3, $4)
    ON CONFLICT (session, path) DO UPDATE SET digest = excluded.digest, body = excluded.body";

const DELETE: &str = "DELETE FROM baton_files WHERE session = $1 AND path = $2";

impl SharedFiles for PostgresStore {
    fn list_files(&self, session: &SessionId) -> StoreFuture<'_, Vec<SharedFile>> {
        let session = session.clone();
        Box::pin(async move {
            let listed = with_client!(self.database.reading(), |client| list(&client, &session).await);
            listed.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn read_file(&self, session: &SessionId, path: &str) -> StoreFuture<'_, Option<Bytes>> {
        let (session, path) = (session.clone(), path.to_owned());
        Box::pin(async move {
            let found = with_client!(self.database.reading(), |client| read(&client, &session, &path).await);
            found.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn change_files(&self, lease: &Lease, changes: Vec<FileChange>) -> StoreFuture<'_, ()> {
        let lease = lease.clone();
        Box::pin(async move {
            // Doing it twice is harmless: the session is held, and the last content counts.
            let done = with_client!(self.database.writing(), |client| {
                change(&mut client, &lease, &changes).await
            });
            done.map_err(|fault| self.database.failed("write to", fault))
        })
    }
}

async fn list(client: &PooledClient, session: &SessionId) -> Result<Vec<SharedFile>, QueryError> {
    let rows = client.query_typed(LIST, &[(&session.as_str(), Type::TEXT)]).await?;
    rows.iter().map(|row| Ok(SharedFile { path: row.try_get(0)?, digest: row.try_get(1)? })).collect()
}

async fn read(client: &PooledClient, session: &SessionId, path: &str) -> Result<Option<Bytes>, QueryError> {
    let rows = client.query_typed(READ, &[(&session.as_str(), Type::TEXT), (&path, Type::TEXT)]).await?;
    let body: Option<Vec<u8>> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(body.map(Bytes::from))
}

async fn change(client: &mut PooledClient, lease: &Lease, changes: &[FileChange]) -> Result<(), QueryError> {
    let transaction = client.transaction().await?;
    let epoch = integer(lease.epoch.0);
    let held =
        transaction.query_typed(HOLD, &[(&lease.session.as_str(), Type::TEXT), (&epoch, Type::INT8)]).await?;
    let Some(row) = held.first() else { return Err(StoreError::Fenced(lease.session.clone()).into()) };
    let key: i64 = row.try_get(0)?;
    for change in changes {
        match change {
            FileChange::Put { file: SharedFile { path, digest }, body } => {
                let values: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] = &[
                    (&key, Type::INT8),
                    (path, Type::TEXT),
                    (digest, Type::TEXT),
                    (&&body[..], Type::BYTEA),
                ];
                transaction.query_typed(PUT, values).await?;
            }
            FileChange::Delete { path } => {
                transaction.query_typed(DELETE, &[(&key, Type::INT8), (path, Type::TEXT)]).await?;
            }
        }
    }
    Ok(transaction.commit().await?)
}
