//! Connections for reading: a few, each used by one query at a time, opened when they are first wanted.
//!
//! Queries run on the runtime's threads for blocking work. In SQLite's log mode they see the last commit and
//! neither wait for the writer nor make it wait.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::Fault;
use super::file::{Identity, Place};
use super::schema;
use crate::StoreError;

/// How many queries run at once; more would only fight for the same disk, and each connection costs memory.
const CONNECTIONS: usize = 4;

pub(super) struct Readers {
    place: Arc<Place>,
    permits: Semaphore,
    idle: Mutex<Vec<(Identity, Connection)>>,
}

/// What became of a query.
pub(super) enum Tried<T, W> {
    Done(T),
    /// It was not run: the file at our path is not the one that the writer has open.
    NotCurrent {
        work: W,
        is_there: bool,
    },
}

impl Readers {
    pub(super) fn new(place: Arc<Place>) -> Self {
        Self { place, permits: Semaphore::new(CONNECTIONS), idle: Mutex::default() }
    }

    /// Runs a query, if the file at our path is the one that the writer has open.
    pub(super) async fn run_if_current<T, W>(self: &Arc<Self>, work: W) -> Result<Tried<T, W>, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.blocking(|readers| {
            let present = readers.place.identity();
            match present.is_some() && present == readers.place.opened() {
                true => readers.run_blocking(work).map(Tried::Done),
                false => Ok(Tried::NotCurrent { work, is_there: present.is_some() }),
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
        let _permit = self.permits.acquire().await.map_err(|_| self.place.closed())?;
        let readers = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || work(&readers)).await;
        // A task that is cancelled belongs to a runtime that is shutting down.
        answer.unwrap_or_else(|_| Err(self.place.closed()))
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    fn run_blocking<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let (identity, connection) = self.take().map_err(|fault| self.place.failed("open", fault))?;
        let answer = in_one_moment(&connection, work).map_err(|fault| self.place.failed("read", fault));
        if !self.permits.is_closed() {
            self.idle().push((identity, connection));
        }
        answer
    }

    /// A connection to the file that the writer has open; those to a file that has vanished are dropped.
    fn take(&self) -> Result<(Identity, Connection), Fault> {
        let current = self.place.opened();
        let found = {
            let mut idle = self.idle();
            idle.retain(|(identity, _)| Some(*identity) == current);
            idle.pop()
        };
        match (found, current) {
            (Some(found), _) => Ok(found),
            (None, Some(identity)) => Ok((identity, schema::open_reader(&self.place)?)),
            (None, None) => Err(Fault::Unusable("it was not opened".to_owned())),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Identity, Connection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_one_moment<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let answer = work(&transaction)?;
    transaction.finish()?;
    Ok(answer)
}
