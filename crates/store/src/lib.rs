//! Storage for sessions: one trait and its implementations.
//!
//! A store holds one ordered sequence of records for each session, with metadata and a snapshot beside it. It
//! guarantees order, durability and exclusive writes, and **does not interpret records**: bodies, metadata and
//! snapshots are opaque bytes.
//!
//! * [`memory::MemoryStore`]: for tests; [`faults::FaultyStore`] injects a fault at any call.
//! * [`sqlite::SqliteStore`]: the default. One file, one writer thread, group commit across all sessions.
//!
//! Writers exclude each other by *lease and epoch*: every acquisition of a session gets a new epoch, every
//! write names the epoch of its lease, and the transaction that would apply a write with a stale epoch refuses
//! it. Two servers can therefore never both write to a session, however late one of them learns that it lost
//! the lease.
//!
//! All implementations pass the same test suite, [`contract`].
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod contract;
pub mod faults;
pub mod members;
pub mod memory;
pub mod pulse;
pub mod shared_files;
pub mod sqlite;
pub mod texts;

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The sequence number of a record in its session: 1, 2, 3, ... without gaps. Zero precedes the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position before the first record.
    pub const ZERO: Self = Self(0);

    /// Returns the sequence number `count` records later.
    #[must_use]
    pub fn plus(self, count: usize) -> Self {
        Self(self.0 + count as u64)
    }
}

impl std::fmt::Display for Seq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies one acquisition of a session. Epochs only grow and are never reused in a store, not even after a
/// session is deleted and another is created under the same id: the previous holder could otherwise write to
/// the new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its sequence number.
    pub seq: Seq,
    /// A label that lets readers skip records without parsing them. Opaque to the store.
    pub kind: String,
    /// The content. Opaque to the store.
    pub body: Bytes,
}

/// A record to append. Its sequence number follows from the session's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The label, as in [`Record::kind`].
    pub kind: String,
    /// The content.
    pub body: Bytes,
}

/// The process that holds a session: enough to check whether it is alive, and to name it in an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Unique for each run of a server.
    pub server: String,
    /// Host name of the machine.
    pub host: String,
    /// Boot id of the machine. Process ids are meaningless across reboots.
    pub boot: String,
    /// Process id.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot. Process ids are reused; this pair is not.
    pub started: u64,
}

/// The right to write to one session, valid until the next acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The epoch of this acquisition.
    pub epoch: Epoch,
}

/// The current holder of a session, and whether the session may be taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub owner: Owner,
    /// The epoch of its acquisition.
    pub epoch: Epoch,
    /// Whether a turn or other work is in progress. An idle session may be taken over.
    pub busy: bool,
}

/// The condition under which a session is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Only if no process holds it.
    IfFree,
    /// Also from the holder with this epoch, busy or idle: for a holder that is known to be dead. Refused if
    /// the session was acquired again since.
    From(Epoch),
    /// Like [`Take::From`], but only while that holder is idle: for a holder that is alive. A summary that
    /// shows an idle holder may be stale by now; the store checks in the same transaction.
    FromIdle(Epoch),
}

impl Take {
    /// Whether a session with this holder may be acquired. All stores share this rule.
    #[must_use]
    pub fn allows(self, holder: Option<&Holder>) -> bool {
        let Some(holder) = holder else { return true };
        match self {
            Self::IfFree => false,
            Self::From(epoch) => holder.epoch == epoch,
            Self::FromIdle(epoch) => holder.epoch == epoch && !holder.busy,
        }
    }
}

/// A session to create, with its first records.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub session: SessionId,
    /// The process that creates the session and holds it from then on.
    pub owner: Owner,
    /// Time of creation.
    pub created: Timestamp,
    /// The first records.
    pub records: Vec<NewRecord>,
    /// Metadata for lists. Opaque to the store.
    pub meta: Bytes,
    /// Whether the session is busy, as in [`Append::busy`].
    pub busy: bool,
}

/// One atomic write: records, and the session state that changes with them.
#[derive(Clone, Debug)]
pub struct Append {
    /// The right to write.
    pub lease: Lease,
    /// The head as known to the writer. If it differs from the stored head, the write is refused.
    pub expected: Seq,
    /// The records to append. May be empty, to change only the fields below.
    pub records: Vec<NewRecord>,
    /// Time of the write.
    pub modified: Timestamp,
    /// New metadata, if it changed.
    pub meta: Option<Bytes>,
    /// A snapshot of the state folded from all records up to and including these. With it, [`Store::acquire`]
    /// returns a short tail instead of the whole history.
    pub snapshot: Option<Bytes>,
    /// Whether a turn or other work is in progress after this write.
    pub busy: bool,
}

/// A session that was acquired for writing.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The right to write.
    pub lease: Lease,
    /// Sequence number of the last record.
    pub head: Seq,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last write.
    pub modified: Timestamp,
    /// Metadata for lists.
    pub meta: Bytes,
    /// The newest snapshot, with the sequence number of the last record that it covers.
    pub snapshot: Option<(Seq, Bytes)>,
    /// All records after the snapshot, or all records if there is no snapshot.
    pub tail: Vec<Record>,
}

/// Properties of a session that are known without acquiring it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub session: SessionId,
    /// Sequence number of the last record.
    pub head: Seq,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last write.
    pub modified: Timestamp,
    /// Metadata for lists.
    pub meta: Bytes,
    /// The current holder, if any.
    pub holder: Option<Holder>,
    /// Total size of the record bodies in bytes.
    pub size: u64,
    /// Describes which part of the row is unreadable, if any. The other fields then hold what could be read, or
    /// defaults.
    pub damage: Option<String>,
}

/// A range of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Up to `limit` records after `after`, in order.
    After {
        /// Exclusive start.
        after: Seq,
        /// Maximum number of records.
        limit: usize,
    },
    /// The last `limit` records before `before`, in order.
    Before {
        /// Exclusive end.
        before: Seq,
        /// Maximum number of records.
        limit: usize,
    },
}

/// Records of a span, up to a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Whether the span has further records, which did not fit.
    pub is_cut: bool,
}

impl Page {
    /// Keeps the records next to the start of the span that fit into `bytes`, and one in any case: a reader must get on.
    #[must_use]
    pub fn within(mut records: Vec<Record>, span: Span, bytes: usize) -> Self {
        let mut left = bytes;
        let mut fits = |record: &Record| {
            let rest = left.checked_sub(record.body.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let all = records.len();
        match span {
            Span::After { .. } => {
                let kept = records.iter().take_while(|record| fits(record)).count();
                records.truncate(kept.max(1));
            }
            Span::Before { .. } => {
                let kept = records.iter().rev().take_while(|record| fits(record)).count();
                records.drain(..all.saturating_sub(kept.max(1)));
            }
        }
        Self { is_cut: records.len() < all, records }
    }
}

/// A small named value beside the sessions, such as the list of people who have access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Number of times that it was written.
    pub version: u64,
    /// The content. Opaque to the store.
    pub body: Bytes,
}

/// An error of a store: a refusal or a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// A session with this id exists.
    #[error("a session named {0} exists already")]
    Exists(SessionId),
    /// No session has this id.
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    /// Another process holds the session.
    #[error("session {session} is in use by process {} on {}", holder.owner.pid, holder.owner.host)]
    Held {
        /// The session.
        session: SessionId,
        /// Its holder.
        holder: Box<Holder>,
    },
    /// The lease is no longer valid: the session was acquired by another process, released or deleted.
    #[error(
        "session {0} was taken over by another server, released or deleted; what was not acknowledged is not \
         written"
    )]
    Fenced(SessionId),
    /// The writer expected a different head. A bug in the writer; nothing was written.
    #[error("session {session} has {actual} records where the writer expected {expected}")]
    OutOfStep {
        /// The session.
        session: SessionId,
        /// The head that the writer expected.
        expected: Seq,
        /// The stored head.
        actual: Seq,
    },
    /// The session's working directory is on other machines.
    #[error(
        "session {session} belongs to the place {place:?}, and no server of it runs; start one with --place {place}"
    )]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// The place.
        place: String,
    },
    /// The storage medium failed: disk full, read-only, damaged.
    #[error("cannot {doing} the session store at {path}: {cause}")]
    Medium {
        /// The failed operation, as a verb.
        doing: Cow<'static, str>,
        /// Path of the store.
        path: String,
        /// The error of the system, and how to fix it.
        cause: String,
    },
}

/// The result of a store operation. The operation starts when the future is first polled.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Durable storage for sessions.
///
/// When the future of a write resolves to `Ok`, the write is durable to the degree the store was opened with.
/// When it resolves to `Err`, nothing was written, with one exception: after [`StoreError::Medium`], and after
/// a future was dropped before it resolved, the write may or may not have happened. [`Append::expected`]
/// decides: if the first attempt was applied, a retry of the same append is refused as
/// [`StoreError::OutOfStep`].
pub trait Store: Send + Sync + 'static {
    /// Returns the number of transactions committed through this store, if it counts them. Under load from
    /// many sessions far smaller than the number of writes.
    fn commits(&self) -> Option<u64> {
        None
    }

    /// Returns the files of sessions, if servers share them. A store of one machine has none: there, the directory of a
    /// session is the truth.
    fn shared_files(&self) -> Option<&dyn shared_files::SharedFiles> {
        None
    }

    /// Returns the servers of the store, if it knows them. A store of one machine does not: there, a holder is alive as
    /// long as its process is.
    fn members(&self) -> Option<&dyn members::Members> {
        None
    }

    /// Returns the index of texts, if the store has one.
    fn texts(&self) -> Option<&dyn texts::TextIndex> {
        None
    }

    /// Creates a session and acquires it.
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease>;

    /// Acquires a session under a new epoch and reads the state needed to continue it. The new holder counts as
    /// idle until its first write.
    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened>;

    /// Appends records to a session.
    fn append(&self, append: Append) -> StoreFuture<'_, Seq> {
        self.append_shared(Arc::new(append))
    }

    /// Appends records to a session, from a value that the caller keeps: a retry costs no copy of it.
    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq>;

    /// Releases a session. Does nothing if the lease is no longer valid.
    fn release(&self, lease: Lease) -> StoreFuture<'_, ()>;

    /// Reads records; needs no lease. A span beyond either end of the history yields no records and no error.
    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>>;

    /// Reads records like [`Self::read`], up to `bytes` of bodies, and at least one. For readers that may be slow: a record can be
    /// as large as a request, and what they have not read stays in memory.
    fn read_page(&self, session: &SessionId, span: Span, bytes: usize) -> StoreFuture<'_, Page> {
        let records = self.read(session, span);
        Box::pin(async move { Ok(Page::within(records.await?, span, bytes)) })
    }

    /// Returns the summary of one session, or `None` if it does not exist.
    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>>;

    /// Returns the summaries of all sessions, most recently written first, then by id. A damaged session does
    /// not hide the others; it is marked with [`Summary::damage`].
    fn list(&self) -> StoreFuture<'_, Vec<Summary>>;

    /// Deletes a session and all its records, whether held or not; a holder is fenced. Returns `false` if the
    /// session does not exist.
    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool>;

    /// Deletes a session if `take` allows acquiring it; fails with [`StoreError::Held`] otherwise.
    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool>;

    /// Performs a write without effect, to check that the store is writable.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// Reads a document, or returns `None` if it was never written.
    fn document(&self, _name: &str) -> StoreFuture<'_, Option<Document>> {
        Box::pin(async { Err(no_documents()) })
    }

    /// Writes a document if its version is still `expected`; 0 stands for a document that does not exist. Returns `false`,
    /// and changes nothing, if another writer was faster.
    fn write_document(&self, _name: &str, _expected: u64, _body: Bytes) -> StoreFuture<'_, bool> {
        Box::pin(async { Err(no_documents()) })
    }
}

/// Error of a store that holds sessions only, such as the stand-ins of tests.
fn no_documents() -> StoreError {
    StoreError::Medium { doing: "use".into(), path: String::new(), cause: "it holds no documents".into() }
}
