//! The thread that writes, and the queue in front of it.
//!
//! While one transaction is on its way to the disk, the next writes queue up; all of them then go into one
//! transaction and share its cost. Nobody is answered before that transaction is committed.
//!
//! A write that is refused has changed nothing and does not disturb its neighbours. One that fails halfway
//! undoes the whole transaction; then each is tried alone, so that only the guilty one fails. (A savepoint
//! around each write would undo it alone, but cost about a quarter of the throughput where the disk was not the
//! limit, for something that hardly ever happens.) If the commit itself fails, none was done and everybody learns
//! why.

use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::error::Fault;
use super::file::{Identity, Place};
use super::{rescue, schema, write};
use crate::StoreError;

/// Callers wait for their answers, so a queue this long means as many sessions; beyond it they wait to get
/// in.
const QUEUE: usize = 1024;

/// How much one transaction takes on: enough to make its fixed cost vanish, little enough to be over soon.
const BATCH_JOBS: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How many events of deleted sessions are cleared away while nobody waits; a few milliseconds' work.
const SWEEP: usize = 1000;

pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    thread: JoinHandle<Result<(), StoreError>>,
    place: Arc<Place>,
}

/// A way into the queue.
pub(super) struct Queue {
    jobs: mpsc::Sender<Box<dyn Job>>,
    place: Arc<Place>,
}

impl Writer {
    pub(super) fn start(place: Arc<Place>) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let worker = Worker { place: Arc::clone(&place), open: None };
        let thread = std::thread::Builder::new()
            .name("baton-store".to_owned())
            .spawn(move || worker.run(queue))
            .map_err(|error| {
                place.failed("open", Fault::Unusable(format!("no thread to write with: {error}")))
            })?;
        Ok(Self { jobs, thread, place })
    }

    pub(super) fn queue(&self) -> Queue {
        Queue { jobs: self.jobs.clone(), place: Arc::clone(&self.place) }
    }

    /// Waits until the queue is empty and the file is let go.
    pub(super) async fn close(self) -> Result<(), StoreError> {
        drop(self.jobs);
        let ended = tokio::task::spawn_blocking(move || self.thread.join()).await;
        match ended {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(stopped(&self.place)),
        }
    }
}

impl Queue {
    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }

    pub(super) async fn run<T, W>(self, weight: usize, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Call { weight, work, outcome: None, reply });
        if self.jobs.send(job).await.is_err() {
            return Err(stopped(&self.place));
        }
        // Closing the store must not wait for those who only wait for their answer.
        drop(self.jobs);
        answer.await.unwrap_or_else(|_| Err(stopped(&self.place)))
    }
}

fn stopped(place: &Place) -> StoreError {
    place.failed("write to", Fault::Unusable("its writer has stopped. Restart the server".to_owned()))
}

/// One write, in two steps: what it does, and the answer to whoever asked for it.
trait Job: Send {
    fn weight(&self) -> usize;
    fn run(&mut self, file: &Connection, place: &Place) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

struct Call<T, W> {
    weight: usize,
    work: W,
    /// Set once it has run; whether it counts is for the commit to say.
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

    fn run(&mut self, file: &Connection, place: &Place) -> Result<(), StoreError> {
        let outcome = (self.work)(file).map_err(|fault| place.failed("write to", fault));
        let verdict = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        self.outcome = Some(outcome);
        verdict
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        // A failed commit outweighs a refusal: the refusal may rest on a neighbour's write that is now
        // undone.
        let answer = match (fate, self.outcome) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => return,
        };
        // Whoever asked may have gone; the write stands all the same.
        let _ = self.reply.send(answer);
    }
}

/// What became of a transaction.
enum Fate {
    Committed,
    /// One of its jobs failed.
    Undone(StoreError),
    /// It could not be opened or committed.
    Failed(StoreError),
}

/// What the thread owns.
struct Worker {
    place: Arc<Place>,
    open: Option<(Connection, Identity)>,
}

impl Worker {
    fn run(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) -> Result<(), StoreError> {
        while let Some(first) = self.next(&mut queue) {
            self.serve(gather(first, &mut queue));
        }
        self.finish()
    }

    /// The next job. While there is none, the events of deleted sessions are cleared away.
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
        let fate = match self.commit(&mut batch) {
            Fate::Undone(_) if batch.len() > 1 => {
                return batch.into_iter().for_each(|job| self.serve(vec![job]));
            }
            Fate::Committed => Ok(()),
            Fate::Undone(error) | Fate::Failed(error) => Err(error),
        };
        for job in batch {
            job.answer(fate.clone());
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> Fate {
        let place = Arc::clone(&self.place);
        let failed = |error| Fate::Failed(place.failed("write to", Fault::Sqlite(error)));
        let file = match self.file() {
            Ok(file) => file,
            Err(fault) => return Fate::Failed(place.failed("open", fault)),
        };
        let transaction = match file.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(transaction) => transaction,
            Err(error) => return failed(error),
        };
        for job in batch {
            if let Err(error @ StoreError::Medium { .. }) = job.run(&transaction, &place) {
                return Fate::Undone(error);
            }
        }
        match transaction.commit() {
            Ok(()) => {
                place.count_commit();
                Fate::Committed
            }
            Err(error) => failed(error),
        }
    }

    /// The connection to the file that is at our path now. If that is not the one we have open, what is live
    /// in the old one is carried over first.
    fn file(&mut self) -> Result<&mut Connection, Fault> {
        let present = self.place.identity();
        let current = self.open.take_if(|(_, identity)| Some(*identity) == present);
        let (connection, identity) = match current {
            Some(current) => current,
            None => self.reopen()?,
        };
        self.place.set_opened(identity);
        let (connection, _) = self.open.insert((connection, identity));
        Ok(connection)
    }

    fn reopen(&mut self) -> Result<(Connection, Identity), Fault> {
        let (mut new, identity) = schema::open_writer(&self.place)?;
        if let Some((old, _)) = &self.open {
            schema::leave_log_alone(old)?;
            let carried = rescue::carry_over(old, &mut new, self.place.instance())?;
            tracing::warn!(
                path = %self.place.path().display(),
                carried,
                "the session store was removed or replaced; sessions in use were carried over to the new file"
            );
        }
        Ok((new, identity))
    }

    /// Uses a quiet moment; says whether there is more to do.
    fn sweep(&mut self) -> bool {
        let Some((file, _)) = &mut self.open else { return false };
        write::sweep(file, SWEEP).unwrap_or_else(|fault| {
            let error = self.place.failed("write to", fault);
            tracing::warn!(%error, "deleted sessions are not cleared away yet");
            false
        })
    }

    /// Closing the last connection folds the log into the file, unless that is not there any more.
    fn finish(self) -> Result<(), StoreError> {
        let Some((file, identity)) = self.open else { return Ok(()) };
        if self.place.identity() != Some(identity) {
            schema::leave_log_alone(&file).map_err(|fault| self.place.failed("close", fault))?;
        }
        file.close().map_err(|(_, error)| self.place.failed("close", error.into()))
    }
}

/// Everything that waits already, up to what one transaction takes on.
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
