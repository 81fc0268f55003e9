//! The writer thread and its queue.
//!
//! While one transaction is on its way to disk, further writes queue up; the next transaction commits all of
//! them and shares its cost among them. No caller gets a reply before that commit.
//!
//! A refused write has changed nothing and does not affect the other writes of its batch. A write that fails
//! halfway rolls back the whole transaction; each write is then retried in its own transaction, so that only
//! the faulty one fails. (A savepoint around each write would isolate it as well, but cost about a quarter of
//! the throughput where the disk was not the limit, for a case that hardly ever happens.) If the commit itself
//! fails, all writes of the batch fail with its error.

use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::error::Fault;
use super::file::{Database, FileIdentity};
use super::{rescue, schema, write};
use crate::StoreError;

/// Capacity of the queue. A session has one write in flight, so a full queue means as many sessions; further
/// callers wait for a slot.
const QUEUE: usize = 1024;

/// Limits of one transaction: large enough to amortise its fixed cost, small enough to finish quickly.
const BATCH_JOBS: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Number of events of deleted sessions to remove at a time while the queue is empty: a few milliseconds of
/// work.
const SWEEP: usize = 1000;

pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    thread: JoinHandle<Result<(), StoreError>>,
    database: Arc<Database>,
}

/// A sender to the writer's queue.
pub(super) struct Queue {
    jobs: mpsc::Sender<Box<dyn Job>>,
    database: Arc<Database>,
}

impl Writer {
    pub(super) fn start(database: Arc<Database>) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let worker = Worker { database: Arc::clone(&database), open: None };
        let thread = std::thread::Builder::new()
            .name("baton-store".to_owned())
            .spawn(move || worker.run(queue))
            .map_err(|error| {
                database.failed("open", Fault::Unusable(format!("cannot start the writer thread: {error}")))
            })?;
        Ok(Self { jobs, thread, database })
    }

    pub(super) fn queue(&self) -> Queue {
        Queue { jobs: self.jobs.clone(), database: Arc::clone(&self.database) }
    }

    /// Waits until the queue is empty and the file is closed.
    pub(super) async fn close(self) -> Result<(), StoreError> {
        drop(self.jobs);
        let ended = tokio::task::spawn_blocking(move || self.thread.join()).await;
        match ended {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(stopped(&self.database)),
        }
    }
}

impl Queue {
    /// Returns the number of queued jobs.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }

    pub(super) async fn run<T, W>(self, weight: usize, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, receiver) = oneshot::channel();
        let job = Box::new(Call { weight, work, outcome: None, reply });
        if self.jobs.send(job).await.is_err() {
            return Err(stopped(&self.database));
        }
        // A caller that only awaits its reply must not keep the queue open: closing the store would wait for
        // it.
        drop(self.jobs);
        receiver.await.unwrap_or_else(|_| Err(stopped(&self.database)))
    }
}

fn stopped(database: &Database) -> StoreError {
    database
        .failed("write to", Fault::Unusable("its writer thread has stopped. Restart the server".to_owned()))
}

/// One write: first run, then replied to once its transaction is decided.
trait Job: Send {
    fn weight(&self) -> usize;
    fn run(&mut self, file: &Connection, database: &Database) -> Result<(), StoreError>;
    fn reply(self: Box<Self>, commit: Result<(), StoreError>);
}

struct Call<T, W> {
    weight: usize,
    work: W,
    /// Set by `run`; valid only if the transaction commits.
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W> Job for Call<T, W>
where
    T: Send,
    W: Fn(&Connection) -> Result<T, Fault> + Send,
{
    fn weight(&self) -> usize {
        self.weight
    }

    fn run(&mut self, file: &Connection, database: &Database) -> Result<(), StoreError> {
        let outcome = (self.work)(file).map_err(|fault| database.failed("write to", fault));
        let status = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        self.outcome = Some(outcome);
        status
    }

    fn reply(self: Box<Self>, commit: Result<(), StoreError>) {
        // A failed commit takes precedence over a refusal: the refusal may depend on another write of the batch
        // that is now rolled back.
        let result = match (commit, self.outcome) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => return,
        };
        // The caller may have dropped its future; the write stands.
        let _ = self.reply.send(result);
    }
}

/// The outcome of a transaction.
enum BatchOutcome {
    Committed,
    /// A job failed; the transaction was rolled back.
    RolledBack(StoreError),
    /// The transaction could not be opened or committed.
    Failed(StoreError),
}

/// State of the writer thread.
struct Worker {
    database: Arc<Database>,
    open: Option<(Connection, FileIdentity)>,
}

impl Worker {
    fn run(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) -> Result<(), StoreError> {
        while let Some(first) = self.next(&mut queue) {
            self.serve(gather(first, &mut queue));
        }
        self.finish()
    }

    /// Returns the next job. While there is none, removes the events of deleted sessions.
    fn next(&mut self, queue: &mut mpsc::Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        loop {
            match queue.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if self.sweep() => {}
                Err(TryRecvError::Empty) => return queue.blocking_recv(),
            }
        }
    }

    fn serve(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let commit = match self.commit(&mut batch) {
            BatchOutcome::RolledBack(_) if batch.len() > 1 => {
                return batch.into_iter().for_each(|job| self.serve(vec![job]));
            }
            BatchOutcome::Committed => Ok(()),
            BatchOutcome::RolledBack(error) | BatchOutcome::Failed(error) => Err(error),
        };
        for job in batch {
            job.reply(commit.clone());
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> BatchOutcome {
        let database = Arc::clone(&self.database);
        let failed = |error| BatchOutcome::Failed(database.failed("write to", Fault::Sqlite(error)));
        let file = match self.file() {
            Ok(file) => file,
            Err(fault) => return BatchOutcome::Failed(database.failed("open", fault)),
        };
        let transaction = match file.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(transaction) => transaction,
            Err(error) => return failed(error),
        };
        for job in batch {
            if let Err(error @ StoreError::Medium { .. }) = job.run(&transaction, &database) {
                return BatchOutcome::RolledBack(error);
            }
        }
        match transaction.commit() {
            Ok(()) => {
                database.count_commit();
                BatchOutcome::Committed
            }
            Err(error) => failed(error),
        }
    }

    /// Returns the connection to the file that is at our path now. If it is not the file that is open, first
    /// copies the held sessions over from the old one.
    fn file(&mut self) -> Result<&mut Connection, Fault> {
        let present = self.database.identity();
        let current = self.open.take_if(|(_, identity)| Some(*identity) == present);
        let (connection, identity) = match current {
            Some(current) => current,
            None => self.reopen()?,
        };
        self.database.set_opened(identity);
        let (connection, _) = self.open.insert((connection, identity));
        Ok(connection)
    }

    fn reopen(&mut self) -> Result<(Connection, FileIdentity), Fault> {
        let (mut new, identity) = schema::open_writer(&self.database)?;
        if let Some((old, _)) = &self.open {
            schema::leave_log_alone(old)?;
            let carried = rescue::carry_over(old, &mut new, self.database.instance())?;
            tracing::warn!(
                path = %self.database.path().display(),
                carried,
                "session store was removed or replaced; copied the sessions in use to the new file"
            );
        }
        Ok((new, identity))
    }

    /// Removes some events of deleted sessions. Returns whether more remain.
    fn sweep(&mut self) -> bool {
        let Some((file, _)) = &mut self.open else { return false };
        write::sweep(file, SWEEP).unwrap_or_else(|fault| {
            let error = self.database.failed("write to", fault);
            tracing::warn!(%error, "failed to remove the events of deleted sessions; trying again later");
            false
        })
    }

    /// Closes the file. Closing the last connection checkpoints the log, unless the file is no longer at its
    /// path.
    fn finish(self) -> Result<(), StoreError> {
        let Some((file, identity)) = self.open else { return Ok(()) };
        if self.database.identity() != Some(identity) {
            schema::leave_log_alone(&file).map_err(|fault| self.database.failed("close", fault))?;
        }
        file.close().map_err(|(_, error)| self.database.failed("close", error.into()))
    }
}

/// Takes further jobs from the queue, up to the limits of one transaction.
fn gather(first: Box<dyn Job>, queue: &mut mpsc::Receiver<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    let mut weight = first.weight();
    let mut batch = vec![first];
    while batch.len() < BATCH_JOBS && weight < BATCH_BYTES {
        let Ok(job) = queue.try_recv() else { break };
        weight += job.weight();
        batch.push(job);
    }
    batch
}
