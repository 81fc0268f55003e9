//! Wraps a store, and makes chosen calls fail.
//!
//! It counts calls. A test can run a scenario without faults, read the number of calls, and repeat the scenario
//! once for each call with a fault at that call: every point at which storage can fail is covered, instead of a
//! random sample.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;
use bytes::Bytes;

use crate::texts::{Hit, TextIndex, Texts, Unindexed, Words};
use crate::{
    Append, Document, Lease, NewSession, Opened, Owner, Record, Seq, Span, Store, StoreError, StoreFuture,
    Summary, Take,
};

/// The planned fault. Calls are numbered from 1 across all methods, in the order in which they are first
/// polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// This call fails without effect.
    Before(u64),
    /// This call takes effect but returns an error: its acknowledgement is lost.
    After(u64),
    /// This call and all later ones fail without effect, as on a broken disk, until the plan changes.
    From(u64),
    /// All writes fail without effect while reads succeed, as on a full disk, until the plan changes.
    Full,
}

/// Values of `doing` in [`StoreError::Medium`].
const WRITING: &str = "write to";
const READING: &str = "read";

/// A [`Store`] that forwards calls to another one, except those that are planned to fail.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    calls: u64,
    fault: Fault,
}

impl FaultyStore {
    /// Wraps a store. No fault is planned.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// Replaces the planned fault. The call count continues.
    pub fn plan(&self, fault: Fault) {
        self.lock().fault = fault;
    }

    /// Removes the planned fault.
    pub fn heal(&self) {
        self.plan(Fault::None);
    }

    /// Returns the number of calls so far, including failed ones.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    async fn pass<T>(&self, doing: &'static str, call: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let (number, fault) = {
            let mut plan = self.lock();
            plan.calls += 1;
            (plan.calls, plan.fault)
        };
        let failed = || StoreError::Medium {
            doing: doing.into(),
            path: "a store with planned faults".to_owned(),
            cause: format!("call {number} was planned to fail ({fault:?})"),
        };
        match fault {
            Fault::Before(at) if at == number => Err(failed()),
            Fault::From(at) if at <= number => Err(failed()),
            Fault::Full if doing == WRITING => Err(failed()),
            Fault::After(at) if at == number => call.await.and_then(|_| Err(failed())),
            _ => call.await,
        }
    }

    fn index_of_inner(&self) -> Result<&dyn TextIndex, StoreError> {
        self.inner.texts().ok_or_else(|| StoreError::Medium {
            doing: "search".into(),
            path: "a store with planned faults".to_owned(),
            cause: "the store has no index of texts".to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextIndex for FaultyStore {
    fn unindexed(&self, limit: usize) -> StoreFuture<'_, Vec<Unindexed>> {
        Box::pin(async move { self.pass(READING, self.index_of_inner()?.unindexed(limit)).await })
    }

    fn index(&self, texts: Texts) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.pass(WRITING, self.index_of_inner()?.index(texts)).await })
    }

    fn find(&self, query: Words, limit: usize) -> StoreFuture<'_, Vec<Hit>> {
        Box::pin(async move { self.pass(READING, self.index_of_inner()?.find(query, limit)).await })
    }
}

impl Store for FaultyStore {
    fn texts(&self) -> Option<&dyn TextIndex> {
        self.inner.texts().map(|_| self as &dyn TextIndex)
    }

    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        Box::pin(self.pass(WRITING, self.inner.create(new)))
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened> {
        Box::pin(self.pass(WRITING, self.inner.acquire(session, owner, take)))
    }

    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq> {
        Box::pin(self.pass(WRITING, self.inner.append_shared(append)))
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(self.pass(WRITING, self.inner.release(lease)))
    }

    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(self.pass(READING, self.inner.read(session, span)))
    }

    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>> {
        Box::pin(self.pass(READING, self.inner.summary(session)))
    }

    fn list(&self) -> StoreFuture<'_, Vec<Summary>> {
        Box::pin(self.pass(READING, self.inner.list()))
    }

    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool> {
        Box::pin(self.pass(WRITING, self.inner.delete(session)))
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool> {
        Box::pin(self.pass(WRITING, self.inner.delete_if(session, take)))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.pass(WRITING, self.inner.probe()))
    }

    fn document(&self, name: &str) -> StoreFuture<'_, Option<Document>> {
        Box::pin(self.pass(READING, self.inner.document(name)))
    }

    fn write_document(&self, name: &str, expected: u64, body: Bytes) -> StoreFuture<'_, bool> {
        Box::pin(self.pass(WRITING, self.inner.write_document(name, expected, body)))
    }
}
