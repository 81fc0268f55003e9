//! A store that logs and holds back operations, in front of one with planned faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::SessionId;
use baton_store::faults::FaultyStore;
use baton_store::memory::MemoryStore;
use baton_store::{
    Append, Lease, NewSession, Opened, Owner, Record, Seq, Span, Store, StoreError, StoreFuture, Summary,
    Take,
};
use tokio::sync::watch;
use tokio::time::Instant;

/// One append, as attempted.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Time since the store was created.
    pub(super) at: Duration,
    /// Types of the records.
    pub(super) kinds: Vec<String>,
    pub(super) has_meta: bool,
    pub(super) has_snapshot: bool,
    /// Head afterwards; none if the append failed.
    pub(super) head: Option<u64>,
}

/// Holds operations back until it is opened, and counts those that arrived.
pub(super) struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(true), arrived: watch::Sender::new(0) }
    }
}

impl Gate {
    pub(super) fn close(&self) {
        self.arrived.send_replace(0);
        self.open.send_replace(false);
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until an operation has arrived since the gate was closed.
    pub(super) async fn reached(&self) {
        self.arrived.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }

    async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

pub(super) struct ScriptedStore {
    pub(super) memory: Arc<MemoryStore>,
    pub(super) faults: FaultyStore,
    pub(super) appending: Gate,
    pub(super) releasing: Gate,
    created: Instant,
    attempts: Mutex<Vec<Attempt>>,
    lease_checks: Mutex<Vec<Duration>>,
    loses_acknowledgement: AtomicBool,
}

impl ScriptedStore {
    pub(super) fn new() -> Self {
        let memory = Arc::<MemoryStore>::default();
        Self {
            faults: FaultyStore::new(memory.clone()),
            memory,
            appending: Gate::default(),
            releasing: Gate::default(),
            created: Instant::now(),
            attempts: Mutex::default(),
            lease_checks: Mutex::default(),
            loses_acknowledgement: AtomicBool::default(),
        }
    }

    /// Makes the next append take effect and return an error.
    pub(super) fn lose_acknowledgement(&self) {
        self.loses_acknowledgement.store(true, Ordering::Relaxed);
    }

    /// Returns the appends since the last call.
    pub(super) fn take_attempts(&self) -> Vec<Attempt> {
        std::mem::take(&mut self.attempts.lock().unwrap())
    }

    /// Returns the times of lease checks since the last call, in whole seconds since the store was created.
    pub(super) fn take_lease_checks(&self) -> Vec<u64> {
        self.lease_checks.lock().unwrap().drain(..).map(|at| at.as_secs()).collect()
    }

    async fn attempt(&self, append: Arc<Append>) -> Result<Seq, StoreError> {
        self.appending.pass().await;
        let mut attempt = Attempt {
            at: self.created.elapsed(),
            kinds: append.records.iter().map(|record| record.kind.clone()).collect(),
            has_meta: append.meta.is_some(),
            has_snapshot: append.snapshot.is_some(),
            head: None,
        };
        let appended = match self.loses_acknowledgement.swap(false, Ordering::Relaxed) {
            true => self.memory.append_shared(append).await.and_then(|_| Err(lost_acknowledgement())),
            false => self.faults.append_shared(append).await,
        };
        attempt.head = appended.as_ref().ok().map(|head| head.0);
        self.attempts.lock().unwrap().push(attempt);
        appended
    }
}

fn lost_acknowledgement() -> StoreError {
    StoreError::Medium {
        doing: "write to".into(),
        path: "memory".into(),
        cause: "lost acknowledgement".into(),
    }
}

impl Store for ScriptedStore {
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        self.faults.create(new)
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened> {
        self.faults.acquire(session, owner, take)
    }

    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq> {
        Box::pin(self.attempt(append))
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.releasing.pass().await;
            self.faults.release(lease).await
        })
    }

    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>> {
        self.faults.read(session, span)
    }

    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>> {
        self.lease_checks.lock().unwrap().push(self.created.elapsed());
        self.faults.summary(session)
    }

    fn list(&self) -> StoreFuture<'_, Vec<Summary>> {
        self.faults.list()
    }

    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool> {
        self.faults.delete(session)
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool> {
        self.faults.delete_if(session, take)
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        self.faults.probe()
    }
}
