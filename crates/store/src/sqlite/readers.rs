//! Connections for reading: a few, opened on demand, each used by one query at a time.
//!
//! Queries run on the runtime's blocking threads. In WAL mode they see the last commit, do not wait for the
//! writer and do not block it.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::Fault;
use super::file::{Database, FileIdentity};
use super::schema;
use crate::StoreError;

/// Maximum number of parallel queries. More would only compete for the same disk, and each connection costs
/// memory.
const CONNECTIONS: usize = 4;

pub(super) struct Readers {
    database: Arc<Database>,
    permits: Semaphore,
    idle: Mutex<Vec<(FileIdentity, Connection)>>,
}

/// The outcome of an attempted query.
pub(super) enum Attempt<T, W> {
    Done(T),
    /// Not run: the file at our path is not the one that the writer has open.
    NotCurrent {
        work: W,
        exists: bool,
    },
}

impl Readers {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, permits: Semaphore::new(CONNECTIONS), idle: Mutex::default() }
    }

    /// Runs a query if the file at our path is the one that the writer has open.
    pub(super) async fn run_if_current<T, W>(self: &Arc<Self>, work: W) -> Result<Attempt<T, W>, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.blocking(|readers| {
            let present = readers.database.identity();
            match present.is_some() && present == readers.database.opened() {
                true => readers.run_blocking(work).map(Attempt::Done),
                false => Ok(Attempt::NotCurrent { work, exists: present.is_some() }),
            }
        })
        .await
    }

    pub(super) async fn run<T, W>(self: &Arc<Self>, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.blocking(|readers| readers.run_blocking(work)).await
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| self.database.closed())?;
        let readers = Arc::clone(self);
        let result = tokio::task::spawn_blocking(move || work(&readers)).await;
        // A cancelled task means that the runtime is shutting down.
        result.unwrap_or_else(|_| Err(self.database.closed()))
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    fn run_blocking<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let (identity, connection) = self.take().map_err(|fault| self.database.failed("open", fault))?;
        let result = in_transaction(&connection, work).map_err(|fault| self.database.failed("read", fault));
        if !self.permits.is_closed() {
            self.idle().push((identity, connection));
        }
        result
    }

    /// Returns a connection to the file that the writer has open; drops connections to a removed file.
    fn take(&self) -> Result<(FileIdentity, Connection), Fault> {
        let current = self.database.opened();
        let found = {
            let mut idle = self.idle();
            idle.retain(|(identity, _)| Some(*identity) == current);
            idle.pop()
        };
        match (found, current) {
            (Some(found), _) => Ok(found),
            (None, Some(identity)) => Ok((identity, schema::open_reader(&self.database)?)),
            (None, None) => Err(Fault::Unusable("the writer has not opened it".to_owned())),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(FileIdentity, Connection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let result = work(&transaction)?;
    transaction.finish()?;
    Ok(result)
}
