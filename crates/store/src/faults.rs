//! A store that fails on demand, around one that does not.
//!
//! It counts calls, so a test can first run a scenario untouched, ask how many calls it made, and then run it
//! again once for each of them with a fault right there: every place where storage can fail is tried, not a
//! random few.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;

use crate::{
    Append, Lease, NewSession, Opened, Owner, Record, Reply, Seq, Span, Store, StoreError, Summary, Take,
};

/// What goes wrong, and when. Calls are counted from 1, over all methods, in the order in which they are
/// first polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// This one call fails, and has no effect.
    Before(u64),
    /// This one call has its effect, but its caller is told that it failed: the acknowledgement is lost.
    After(u64),
    /// This call and all later ones fail without effect, like on a broken disk, until the plan is changed.
    From(u64),
    /// All writes fail without effect, and reads do not, like on a full disk, until the plan is changed.
    Full,
}

/// What is being done, in the words of [`StoreError::Medium`].
const WRITING: &str = "write to";
const READING: &str = "read";

/// A [`Store`] that passes calls on to another one, except those that are planned to fail.
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
    /// Wraps a store. Nothing fails yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// Decides what goes wrong from now on; replaces what was decided before. Calls keep being counted.
    pub fn plan(&self, fault: Fault) {
        self.lock().fault = fault;
    }

    /// Lets everything succeed again.
    pub fn heal(&self) {
        self.plan(Fault::None);
    }

    /// How many calls were made so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    async fn pass<T>(&self, doing: &'static str, call: Reply<'_, T>) -> Result<T, StoreError> {
        let (number, fault) = {
            let mut plan = self.lock();
            plan.calls += 1;
            (plan.calls, plan.fault)
        };
        let failed = || StoreError::Medium {
            doing,
            place: "a store with planned faults".to_owned(),
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

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FaultyStore {
    fn create(&self, new: NewSession) -> Reply<'_, Lease> {
        Box::pin(self.pass(WRITING, self.inner.create(new)))
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> Reply<'_, Opened> {
        Box::pin(self.pass(WRITING, self.inner.acquire(session, owner, take)))
    }

    fn append(&self, append: Append) -> Reply<'_, Seq> {
        Box::pin(self.pass(WRITING, self.inner.append(append)))
    }

    fn release(&self, lease: Lease) -> Reply<'_, ()> {
        Box::pin(self.pass(WRITING, self.inner.release(lease)))
    }

    fn read(&self, session: &SessionId, span: Span) -> Reply<'_, Vec<Record>> {
        Box::pin(self.pass(READING, self.inner.read(session, span)))
    }

    fn summary(&self, session: &SessionId) -> Reply<'_, Option<Summary>> {
        Box::pin(self.pass(READING, self.inner.summary(session)))
    }

    fn list(&self) -> Reply<'_, Vec<Summary>> {
        Box::pin(self.pass(READING, self.inner.list()))
    }

    fn delete(&self, session: &SessionId) -> Reply<'_, bool> {
        Box::pin(self.pass(WRITING, self.inner.delete(session)))
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> Reply<'_, bool> {
        Box::pin(self.pass(WRITING, self.inner.delete_if(session, take)))
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.pass(WRITING, self.inner.probe()))
    }
}
