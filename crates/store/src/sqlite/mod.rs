//! Sessions in one SQLite file: the default store.
//!
//! * One thread owns the only connection that writes, and commits all queued writes in one transaction
//!   (`writer`). SQLite's own lock and the epochs separate several servers on one file.
//! * Reads run in parallel on separate connections (`readers`) and never wait for the writer.
//! * Nothing is opened, created or started before the first call that needs it, so that starting a server costs
//!   nothing here.
//! * The file may be removed while the server runs. Sessions held through this store are copied to a new file
//!   (`rescue`); all others are lost with the old one.

pub mod backup;
mod error;
mod file;
mod read;
mod readers;
mod rescue;
mod schema;
#[cfg(test)]
mod tests;
mod texts;
mod values;
mod write;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;
use bytes::Bytes;
use error::Fault;
use file::Database;
use readers::{Attempt, Readers};
use rusqlite::Connection;
use values::natural;
use writer::Writer;

use crate::texts::TextIndex;
use crate::{
    Append, Document, Lease, NewRecord, NewSession, Opened, Owner, Page, Record, Seq, Span, Store,
    StoreError, StoreFuture, Summary, Take,
};

/// The failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Crash of the server, crash of the machine, and power loss: every commit waits for the disk.
    #[default]
    Full,
    /// Crash of the server. After a crash of the machine or power loss the last commits may be missing, never
    /// one in between, and the file stays consistent.
    Relaxed,
}

/// A stage of a migration of the file format. Creating a new file is a migration, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing has been changed.
    Begins,
    /// All changes are written but not committed.
    Written,
    /// The changes are committed.
    Done,
}

/// Callback for the stages of a migration. The crash tests kill the server there.
pub type MigrationWatcher = Box<dyn Fn(Migration) + Send + Sync>;

/// A [`Store`] in one file.
pub struct SqliteStore {
    database: Arc<Database>,
    readers: Arc<Readers>,
    state: Mutex<State>,
}

enum State {
    /// No write yet.
    Unopened,
    Running(Writer),
    Closed,
}

impl SqliteStore {
    /// Creates a store backed by this file. The file and its directories are opened or created on first use.
    pub fn new(path: impl Into<PathBuf>, durability: Durability) -> Self {
        Self::at(Database::new(path.into(), durability, None))
    }

    /// Like [`Self::new`], with a callback for migrations.
    pub fn watched(path: impl Into<PathBuf>, durability: Durability, watcher: MigrationWatcher) -> Self {
        Self::at(Database::new(path.into(), durability, Some(watcher)))
    }

    fn at(database: Database) -> Self {
        let database = Arc::new(database);
        let readers = Arc::new(Readers::new(Arc::clone(&database)));
        Self { database, readers, state: Mutex::new(State::Unopened) }
    }

    /// Returns the number of transactions committed through this store. Under load from many sessions far
    /// smaller than the number of writes.
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }

    /// Finishes the queued writes, checkpoints the write-ahead log and closes the file. Later calls fail. A
    /// store that is dropped without this loses no acknowledged write; it leaves the checkpoint to the next
    /// process.
    pub async fn close(&self) -> Result<(), StoreError> {
        let before = std::mem::replace(&mut *self.state(), State::Closed);
        self.readers.close();
        match before {
            State::Running(writer) => writer.close().await,
            State::Unopened | State::Closed => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the writer's queue; starts the writer on first use.
    fn queue(&self) -> Result<writer::Queue, StoreError> {
        let mut state = self.state();
        if matches!(*state, State::Unopened) {
            *state = State::Running(Writer::start(Arc::clone(&self.database))?);
        }
        match &*state {
            State::Running(writer) => Ok(writer.queue()),
            State::Unopened | State::Closed => Err(self.database.closed()),
        }
    }

    async fn write<T, W>(&self, weight: usize, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.queue()?.run(weight, work).await
    }

    /// Runs a query. Returns `None` if there is no file and no reason to create one.
    async fn query<T, W>(&self, work: W) -> Result<Option<T>, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (work, exists) = match self.readers.run_if_current(work).await? {
            Attempt::Done(result) => return Ok(Some(result)),
            Attempt::NotCurrent { work, exists } => (work, exists),
        };
        if !exists && matches!(*self.state(), State::Unopened) {
            return Ok(None);
        }
        // An empty write makes the writer open the file at our path. Its schema is then current and, if a
        // previous file was removed, the rescued sessions are in it.
        self.write(0, |_| Ok(())).await?;
        self.readers.run(work).await.map(Some)
    }

    /// Whether the file exists. If so, the writer has it open.
    async fn has_file(&self) -> Result<bool, StoreError> {
        Ok(self.query(|_| Ok(())).await?.is_some())
    }
}

/// Returns the approximate cost of these records in a batch, in bytes.
fn weight(records: &[NewRecord]) -> usize {
    records.iter().map(|record| record.body.len()).sum()
}

impl Store for SqliteStore {
    fn commits(&self) -> Option<u64> {
        Some(self.database.commits())
    }

    fn texts(&self) -> Option<&dyn TextIndex> {
        Some(self)
    }

    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        let instance = self.database.instance();
        Box::pin(self.write(weight(&new.records), move |file| write::create(file, &new, instance)))
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Err(StoreError::NotFound(session));
            }
            let instance = self.database.instance();
            let lease =
                self.write(0, move |file| write::acquire(file, &session, &owner, take, instance)).await?;
            // The tail may be long; reading it on the writer's thread would delay all writes.
            let wanted = lease.clone();
            let opened = self.query(move |file| read::opened(file, wanted)).await?;
            opened.ok_or(StoreError::Fenced(lease.session))
        })
    }

    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq> {
        let weight = weight(&append.records) + append.snapshot.as_ref().map_or(0, |snapshot| snapshot.len());
        Box::pin(self.write(weight, move |file| write::append(file, &append)))
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(self.write(0, move |file| write::release(file, &lease)))
    }

    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>> {
        let session = session.clone();
        Box::pin(async move {
            let wanted = session.clone();
            let found = self.query(move |file| read::records(file, &wanted, span)).await?;
            found.ok_or(StoreError::NotFound(session))
        })
    }

    fn read_page(&self, session: &SessionId, span: Span, bytes: usize) -> StoreFuture<'_, Page> {
        let session = session.clone();
        Box::pin(async move {
            let wanted = session.clone();
            let found = self.query(move |file| read::page(file, &wanted, span, bytes)).await?;
            found.ok_or(StoreError::NotFound(session))
        })
    }

    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>> {
        let session = session.clone();
        Box::pin(async move { Ok(self.query(move |file| read::summary(file, &session)).await?.flatten()) })
    }

    fn list(&self) -> StoreFuture<'_, Vec<Summary>> {
        Box::pin(async move { Ok(self.query(read::list).await?.unwrap_or_default()) })
    }

    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Ok(false);
            }
            self.write(0, move |file| write::delete(file, &session)).await
        })
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Ok(false);
            }
            self.write(0, move |file| write::delete_if(file, &session, take)).await
        })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.write(0, write::probe))
    }

    fn document(&self, name: &str) -> StoreFuture<'_, Option<Document>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.query(move |file| read::document(file, &name)).await?.flatten()) })
    }

    fn write_document(&self, name: &str, expected: u64, body: Bytes) -> StoreFuture<'_, bool> {
        let name = name.to_owned();
        Box::pin(self.write(body.len(), move |file| write::document(file, &name, expected, &body)))
    }
}
