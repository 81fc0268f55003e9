//! Appends of all sessions, written in groups.
//!
//! While one group is on its way to disk, further appends queue up; the next statement writes all of them and shares its
//! cost among them. No caller gets a reply before the commit: a result ends with the server's `ReadyForQuery`, which
//! follows the commit.
//!
//! The whole group is one statement, in which each append has its own condition: same epoch, still held, expected head.
//! An append whose condition fails writes nothing and does not affect the others. If the connection is lost, the group is
//! written again, and the expected head decides: an append whose own records are already in the history has succeeded before.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_store::{Append, Seq, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;
use tokio_util::task::TaskTracker;

use crate::connect::{Database, PooledClient, with_client};
use crate::error::{QueryError, Retry};
use crate::read::{self, integer, natural};
use crate::write::size;

/// Capacity of the queue. A session has one append in flight, so a full queue means as many sessions.
const QUEUE: usize = 4096;

/// Limits of one statement: large enough to amortise its fixed cost, small enough to finish quickly.
const GROUP_APPENDS: usize = 512;
const GROUP_BYTES: usize = 4 << 20;

/// Number of groups that are written at the same time: one waits for the disk while the next is being executed.
const WORKERS: usize = 2;

/// How long a group is tried again while the database cannot be reached.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(100);

/// Writes a group. `$1` to `$9` have one entry for each append, `$10` to `$13` one for each record.
const APPEND: &str = "
    WITH wanted AS (
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
            AS wanted (id, epoch, expected, added, modified, size, busy, meta, snapshot)
    ), changed AS (
        UPDATE baton_sessions AS s
        SET head = s.head + wanted.added, modified = wanted.modified, size = s.size + wanted.size,
            busy = wanted.busy, meta = coalesce(wanted.meta, s.meta)
        FROM wanted
        WHERE s.id = wanted.id AND s.epoch = wanted.epoch AND s.owner IS NOT NULL AND s.head = wanted.expected
        RETURNING s.id, s.key, s.head, wanted.expected, wanted.snapshot
    ), written AS (
        INSERT INTO baton_events (session, seq, kind, body)
        SELECT changed.key, changed.expected + record.place, record.kind, record.body
        FROM unnest($10, $11, $12, $13) AS record (id, place, kind, body) JOIN changed ON changed.id = record.id
    ), kept AS (
        INSERT INTO baton_snapshots (session, seq, body)
        SELECT key, head, snapshot FROM changed WHERE snapshot IS NOT NULL
        ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, body = excluded.body
    )
    SELECT id, head FROM changed";

/// The queue of appends, and the tasks that write them.
pub(crate) struct Appends {
    shared: Arc<Shared>,
    queue: Mutex<Queue>,
    workers: TaskTracker,
}

enum Queue {
    /// No append yet.
    Unopened,
    Open(mpsc::Sender<Job>),
    Closed,
}

struct Shared {
    database: Arc<Database>,
    commits: AtomicU64,
}

struct Job {
    append: Arc<Append>,
    /// Whether an earlier attempt may have been executed.
    uncertain: bool,
    reply: oneshot::Sender<Result<Seq, StoreError>>,
}

impl Appends {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let shared = Arc::new(Shared { database, commits: AtomicU64::new(0) });
        Self { shared, queue: Mutex::new(Queue::Unopened), workers: TaskTracker::new() }
    }

    pub(crate) fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    pub(crate) async fn append(&self, append: Arc<Append>) -> Result<Seq, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let closed =
            || self.shared.database.failed("write to", QueryError::Unusable("the store is closed".into()));
        let queue = self.sender().ok_or_else(closed)?;
        queue.send(Job { append, uncertain: false, reply }).await.map_err(|_| closed())?;
        // A caller that only awaits its reply must not keep the queue open.
        drop(queue);
        receiver.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Waits for the appends that are queued or being written. Later ones fail.
    pub(crate) async fn close(&self) {
        *self.lock() = Queue::Closed;
        self.workers.close();
        self.workers.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sender(&self) -> Option<mpsc::Sender<Job>> {
        let mut queue = self.lock();
        if matches!(*queue, Queue::Unopened) {
            *queue = Queue::Open(self.start());
        }
        match &*queue {
            Queue::Open(sender) => Some(sender.clone()),
            Queue::Unopened | Queue::Closed => None,
        }
    }

    fn start(&self) -> mpsc::Sender<Job> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        for _ in 0..WORKERS {
            let (shared, receiver) = (Arc::clone(&self.shared), Arc::clone(&receiver));
            self.workers.spawn(async move {
                while let Some(group) = next_group(&receiver).await {
                    shared.serve(group).await;
                }
            });
        }
        sender
    }
}

/// Waits for the next appends. Returns none when the queue is closed and empty.
async fn next_group(receiver: &tokio::sync::Mutex<mpsc::Receiver<Job>>) -> Option<Vec<Job>> {
    let mut receiver = receiver.lock().await;
    let first = receiver.recv().await?;
    let mut weight = weight(&first.append);
    let mut group = vec![first];
    while group.len() < GROUP_APPENDS && weight < GROUP_BYTES {
        let Ok(job) = receiver.try_recv() else { break };
        weight += self::weight(&job.append);
        group.push(job);
    }
    Some(group)
}

fn weight(append: &Append) -> usize {
    let records: usize = append.records.iter().map(|record| record.body.len()).sum();
    records + append.snapshot.as_ref().map_or(0, |snapshot| snapshot.len())
}

impl Shared {
    /// Writes appends until each has a reply. A session's second append waits for the next statement: one statement cannot
    /// change a row twice.
    async fn serve(&self, mut jobs: Vec<Job>) {
        let until = Instant::now() + PATIENCE;
        while !jobs.is_empty() {
            let mut sessions = HashSet::new();
            let (group, rest): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(|job| sessions.insert(job.append.lease.session.clone()));
            let mut left = self.write(group, until).await;
            if !left.is_empty() {
                sleep(PAUSE).await;
            }
            left.extend(rest);
            jobs = left;
        }
    }

    /// Writes a group once. Returns the appends to try again.
    async fn write(&self, mut group: Vec<Job>, until: Instant) -> Vec<Job> {
        let result = with_client!(self.database.trying(), |client| execute(&client, &group).await);
        let fault = match result {
            Ok(verdicts) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                for (job, verdict) in group.into_iter().zip(verdicts) {
                    // The caller may have dropped its future; the write stands.
                    let _ = job.reply.send(verdict);
                }
                return Vec::new();
            }
            Err(fault) => fault,
        };
        match fault.retry() {
            // One append may be the cause, such as one that is too large: the others must not fail with it.
            Retry::Useless if group.len() > 1 => {
                let mut left = Vec::new();
                for job in group {
                    left.extend(Box::pin(self.write(vec![job], until)).await);
                }
                return left;
            }
            Retry::Unknown | Retry::Harmless if Instant::now() < until => {
                let is_lost = fault.retry() == Retry::Unknown;
                group.iter_mut().for_each(|job| job.uncertain |= is_lost);
                return group;
            }
            Retry::Useless | Retry::Unknown | Retry::Harmless => {}
        }
        let error = self.database.failed("write to", fault);
        for job in group {
            let _ = job.reply.send(Err(error.clone()));
        }
        Vec::new()
    }
}

/// Executes the statement, and explains each append that it refused.
async fn execute(client: &PooledClient, group: &[Job]) -> Result<Vec<Result<Seq, StoreError>>, QueryError> {
    let appends: Vec<&Append> = group.iter().map(|job| &*job.append).collect();
    let ids: Vec<&str> = appends.iter().map(|append| append.lease.session.as_str()).collect();
    let column =
        |value: fn(&Append) -> i64| -> Vec<i64> { appends.iter().map(|append| value(append)).collect() };
    let busy: Vec<bool> = appends.iter().map(|append| append.busy).collect();
    let meta: Vec<Option<&[u8]>> = appends.iter().map(|append| append.meta.as_deref()).collect();
    let snapshots: Vec<Option<&[u8]>> = appends.iter().map(|append| append.snapshot.as_deref()).collect();
    let (mut of, mut places) = (Vec::<&str>::new(), Vec::<i64>::new());
    let (mut kinds, mut bodies) = (Vec::<&[u8]>::new(), Vec::<&[u8]>::new());
    for append in &appends {
        for (place, record) in append.records.iter().enumerate() {
            of.push(append.lease.session.as_str());
            places.push(integer(place as u64 + 1));
            kinds.push(record.kind.as_bytes());
            bodies.push(&record.body);
        }
    }
    let rows = client
        .query_typed(
            APPEND,
            &[
                (&ids, Type::TEXT_ARRAY),
                (&column(|append| integer(append.lease.epoch.0)), Type::INT8_ARRAY),
                (&column(|append| integer(append.expected.0)), Type::INT8_ARRAY),
                (&column(|append| integer(append.records.len() as u64)), Type::INT8_ARRAY),
                (&column(|append| append.modified.0), Type::INT8_ARRAY),
                (&column(|append| size(&append.records)), Type::INT8_ARRAY),
                (&busy, Type::BOOL_ARRAY),
                (&meta, Type::BYTEA_ARRAY),
                (&snapshots, Type::BYTEA_ARRAY),
                (&of, Type::TEXT_ARRAY),
                (&places, Type::INT8_ARRAY),
                (&kinds, Type::BYTEA_ARRAY),
                (&bodies, Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    let mut heads = HashMap::new();
    for row in &rows {
        heads.insert(row.try_get::<_, &str>(0)?, Seq(natural(row.try_get(1)?)));
    }
    let mut verdicts = Vec::with_capacity(group.len());
    for job in group {
        verdicts.push(match heads.get(job.append.lease.session.as_str()) {
            Some(head) => Ok(*head),
            None => refused(client, job).await?,
        });
    }
    Ok(verdicts)
}

/// Returns the result of an append that the statement did not apply.
async fn refused(client: &PooledClient, job: &Job) -> Result<Result<Seq, StoreError>, QueryError> {
    let append = &*job.append;
    let session = &append.lease.session;
    let found = read::summary(client, session).await?;
    let head = found.as_ref().map(|found| found.head);
    let is_held = found
        .as_ref()
        .and_then(|found| found.holder.as_ref())
        .is_some_and(|holder| holder.epoch == append.lease.epoch);
    let (Some(actual), true) = (head, is_held) else {
        return Ok(Err(StoreError::Fenced(session.clone())));
    };
    if job.uncertain && was_applied(client, append).await? {
        return Ok(Ok(append.expected.plus(append.records.len())));
    }
    Ok(Err(StoreError::OutOfStep { session: session.clone(), expected: append.expected, actual }))
}

/// Whether the history contains exactly the records of this append in their place: an earlier attempt was executed, and
/// only its acknowledgement was lost.
async fn was_applied(client: &PooledClient, append: &Append) -> Result<bool, QueryError> {
    let span = baton_store::Span::After { after: append.expected, limit: append.records.len() };
    let found = read::records(client, &append.lease.session, span).await?;
    let same = found
        .iter()
        .zip(&append.records)
        .all(|(found, wanted)| found.kind == wanted.kind && found.body == wanted.body);
    Ok(!append.records.is_empty() && found.len() == append.records.len() && same)
}
