//! Sessions in one SQLite file: the default.
//!
//! * One thread owns the only connection that writes, and commits whatever has queued up meanwhile at once
//!   (`writer`); SQLite's own lock and the epochs keep several servers on one file apart.
//! * Reads run in parallel on connections of their own (`readers`) and never wait for a writer.
//! * Nothing is opened, created or started before the first call that needs it: a server that is only started
//!   costs nothing here.
//! * The file may vanish while the server lives. Sessions that are held through this store move on to a new
//!   file (`rescue`); all others are gone, as whoever removed it wanted.

mod error;
mod file;
mod read;
mod readers;
mod rescue;
mod schema;
#[cfg(test)]
mod tests;
mod values;
mod write;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;
use rusqlite::Connection;

use crate::{
    Append, Lease, NewRecord, NewSession, Opened, Owner, Record, Reply, Seq, Span, Store, StoreError,
    Summary, Take,
};
use error::Fault;
use file::Place;
use readers::{Readers, Tried};
use writer::Writer;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the server, of the machine, and a loss of power: every commit waits until the disk has it.
    #[default]
    Full,
    /// A crash of the server. When the machine crashes or loses power the last commits may be missing, never
    /// one in the middle, and the file is sound.
    Relaxed,
}

/// How far a migration of the file's format has come; making a new file is one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing has been changed.
    Begins,
    /// Everything has been changed, and nothing is committed.
    Written,
    /// It is committed.
    Done,
}

/// Is told how far migrations have come: a test may want to pull the plug there.
pub type MigrationWatcher = Box<dyn Fn(Migration) + Send + Sync>;

/// A [`Store`] in one file.
pub struct SqliteStore {
    place: Arc<Place>,
    readers: Arc<Readers>,
    state: Mutex<State>,
}

enum State {
    /// Nobody has written yet.
    Unopened,
    Running(Writer),
    Closed,
}

impl SqliteStore {
    /// A store in this file, which is opened, or created together with its directories, when it is first
    /// needed.
    pub fn new(path: impl Into<PathBuf>, durability: Durability) -> Self {
        Self::at(Place::new(path.into(), durability, None))
    }

    /// The same, with somebody who is told of migrations.
    pub fn watched(path: impl Into<PathBuf>, durability: Durability, watcher: MigrationWatcher) -> Self {
        Self::at(Place::new(path.into(), durability, Some(watcher)))
    }

    fn at(place: Place) -> Self {
        let place = Arc::new(place);
        let readers = Arc::new(Readers::new(Arc::clone(&place)));
        Self { place, readers, state: Mutex::new(State::Unopened) }
    }

    /// How many transactions were committed through this store; with many sessions at work far fewer than
    /// writes.
    pub fn commits(&self) -> u64 {
        self.place.commits()
    }

    /// Finishes what is queued, folds the log of changes into the file and lets go of it. Later calls fail. A
    /// store that is dropped without this loses nothing that it acknowledged; it only leaves that folding to
    /// the next one.
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

    /// The queue of the writer, which is started now if it does not run yet.
    fn queue(&self) -> Result<writer::Queue, StoreError> {
        let mut state = self.state();
        if matches!(*state, State::Unopened) {
            *state = State::Running(Writer::start(Arc::clone(&self.place))?);
        }
        match &*state {
            State::Running(writer) => Ok(writer.queue()),
            State::Unopened | State::Closed => Err(self.place.closed()),
        }
    }

    async fn write<T, W>(&self, weight: usize, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.queue()?.run(weight, work).await
    }

    /// Runs a query, or returns `None` if there is no file to ask and no reason to make one.
    async fn query<T, W>(&self, work: W) -> Result<Option<T>, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (work, is_there) = match self.readers.run_if_current(work).await? {
            Tried::Done(answer) => return Ok(Some(answer)),
            Tried::NotCurrent { work, is_there } => (work, is_there),
        };
        if !is_there && matches!(*self.state(), State::Unopened) {
            return Ok(None);
        }
        // Sees to it that the file at our path is the one the writer has open, so that its schema is known to be
        // current and, if another file has vanished, what had to be rescued is in it.
        self.write(0, |_| Ok(())).await?;
        self.readers.run(work).await.map(Some)
    }

    /// Whether there is a file. If so, it is the one that the writer has open.
    async fn has_file(&self) -> Result<bool, StoreError> {
        Ok(self.query(|_| Ok(())).await?.is_some())
    }
}

/// What a batch has to carry for these records, roughly.
fn weight(records: &[NewRecord]) -> usize {
    records.iter().map(|record| record.body.len()).sum()
}

impl Store for SqliteStore {
    fn commits(&self) -> Option<u64> {
        Some(self.place.commits())
    }

    fn create(&self, new: NewSession) -> Reply<'_, Lease> {
        let instance = self.place.instance();
        Box::pin(self.write(weight(&new.records), move |file| write::create(file, &new, instance)))
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> Reply<'_, Opened> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Err(StoreError::NotFound(session));
            }
            let instance = self.place.instance();
            let lease =
                self.write(0, move |file| write::acquire(file, &session, &owner, take, instance)).await?;
            // The tail may be long, so it is not read in the thread that everybody's writes go through.
            let wanted = lease.clone();
            let opened = self.query(move |file| read::opened(file, wanted)).await?;
            opened.ok_or(StoreError::Fenced(lease.session))
        })
    }

    fn append(&self, append: Append) -> Reply<'_, Seq> {
        let weight = weight(&append.records) + append.snapshot.as_ref().map_or(0, |snapshot| snapshot.len());
        Box::pin(self.write(weight, move |file| write::append(file, &append)))
    }

    fn release(&self, lease: Lease) -> Reply<'_, ()> {
        Box::pin(self.write(0, move |file| write::release(file, &lease)))
    }

    fn read(&self, session: &SessionId, span: Span) -> Reply<'_, Vec<Record>> {
        let session = session.clone();
        Box::pin(async move {
            let wanted = session.clone();
            let found = self.query(move |file| read::records(file, &wanted, span)).await?;
            found.ok_or(StoreError::NotFound(session))
        })
    }

    fn summary(&self, session: &SessionId) -> Reply<'_, Option<Summary>> {
        let session = session.clone();
        Box::pin(async move { Ok(self.query(move |file| read::summary(file, &session)).await?.flatten()) })
    }

    fn list(&self) -> Reply<'_, Vec<Summary>> {
        Box::pin(async move { Ok(self.query(read::list).await?.unwrap_or_default()) })
    }

    fn delete(&self, session: &SessionId) -> Reply<'_, bool> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Ok(false);
            }
            self.write(0, move |file| write::delete(file, &session)).await
        })
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> Reply<'_, bool> {
        let session = session.clone();
        Box::pin(async move {
            if !self.has_file().await? {
                return Ok(false);
            }
            self.write(0, move |file| write::delete_if(file, &session, take)).await
        })
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.write(0, write::probe))
    }
}
