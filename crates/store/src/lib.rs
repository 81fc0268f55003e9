//! Where sessions live: one trait, several homes.
//!
//! A store keeps, for every session, one ordered sequence of records and a few facts beside it. It promises
//! order, durability and exclusion, and **never knows what a record means**: bodies, metadata and snapshots
//! are bytes to it.
//!
//! * [`memory::MemoryStore`]: for tests, with faults injected at any call ([`faults::FaultyStore`]).
//! * [`sqlite::SqliteStore`]: the default; one file, one writer thread, group commit over all sessions.
//!
//! Exclusion is by *lease and epoch*: every acquisition of a session gets a new epoch, every write names the
//! epoch it was made under, and a write under an old one is refused in the same transaction that would have
//! made it. So two servers can never both write a session, however late one of them learns that it has lost
//! it.
//!
//! All implementations pass the same suite, [`contract`].
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod contract;
pub mod faults;
pub mod memory;
pub mod sqlite;

use std::future::Future;
use std::pin::Pin;

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The place of a record in its session: 1, 2, 3, ... without gaps. Zero is the place before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The place before the first record.
    pub const ZERO: Self = Self(0);

    /// The place `count` further on.
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

/// Which acquisition of a session a write belongs to. Grows with every acquisition and never repeats in a
/// store, not even when a session is deleted and another of the same name is made: else the old one's holder
/// could write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// One record, as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub seq: Seq,
    /// A label by which readers can skip records without parsing them. Opaque here.
    pub kind: String,
    /// The record itself.
    pub body: Bytes,
}

/// A record to be appended; its place follows from the session's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// See [`Record::kind`].
    pub kind: String,
    /// The record itself.
    pub body: Bytes,
}

/// Who holds a session: enough to tell whether that process still lives, and to name it to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Unique for each run of a server.
    pub server: String,
    /// The machine.
    pub host: String,
    /// The machine's current boot; a pid means nothing in another one.
    pub boot: String,
    /// The process.
    pub pid: u32,
    /// When that process started, in the machine's own ticks; a pid is used again, this pair is not.
    pub started: u64,
}

/// The right to write one session, until somebody else acquires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Under which acquisition.
    pub epoch: Epoch,
}

/// Who holds a session, and whether it may be taken from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub owner: Owner,
    /// Its acquisition.
    pub epoch: Epoch,
    /// Whether it is in the middle of something; an idle session may be taken over.
    pub busy: bool,
}

/// How to take a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Only if nobody holds it.
    IfFree,
    /// Also from whoever holds it under this epoch, in the middle of something or not: for a holder that is
    /// known to be dead. Refused if the session has changed hands since.
    From(Epoch),
    /// Like [`Take::From`], but only while that holder is idle: for one that lives. Whoever looked at a
    /// summary and saw an idle holder cannot know that it still is; the store can.
    FromIdle(Epoch),
}

impl Take {
    /// Whether a session in these hands may be taken this way. The one rule that all stores share.
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

/// A session to be created, with its first records.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its name.
    pub session: SessionId,
    /// Who creates it, and holds it from the start.
    pub owner: Owner,
    /// When.
    pub created: Timestamp,
    /// The first records.
    pub records: Vec<NewRecord>,
    /// What lists show; opaque here.
    pub meta: Bytes,
    /// See [`Append::busy`].
    pub busy: bool,
}

/// One write: records, and what changes with them. All of it happens, or nothing.
#[derive(Clone, Debug)]
pub struct Append {
    /// The right to write.
    pub lease: Lease,
    /// The head that the writer knows. A difference means that the writer is wrong about the session.
    pub expected: Seq,
    /// What is appended; may be empty, to change only what follows.
    pub records: Vec<NewRecord>,
    /// When.
    pub modified: Timestamp,
    /// New metadata, if it changed.
    pub meta: Option<Bytes>,
    /// A snapshot of whatever the writer folds the records into, valid right after these records. Lets
    /// [`Store::acquire`] return a short tail instead of the whole history.
    pub snapshot: Option<Bytes>,
    /// Whether the session is in the middle of something after this write.
    pub busy: bool,
}

/// A session, ready to be written.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The right to write.
    pub lease: Lease,
    /// The last record's place.
    pub head: Seq,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last written.
    pub modified: Timestamp,
    /// What lists show.
    pub meta: Bytes,
    /// The newest snapshot, and the place after which the tail begins.
    pub snapshot: Option<(Seq, Bytes)>,
    /// All records after the snapshot, or all there are.
    pub tail: Vec<Record>,
}

/// What is known about a session without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub session: SessionId,
    /// The last record's place.
    pub head: Seq,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last written.
    pub modified: Timestamp,
    /// What lists show.
    pub meta: Bytes,
    /// Who holds it, if anybody.
    pub holder: Option<Holder>,
    /// Bytes of all record bodies.
    pub size: u64,
    /// What of it cannot be read, in words, if anything: the rest is what could be, or nothing.
    pub damage: Option<String>,
}

/// Which records to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Up to `limit` records after `after`, in order.
    After {
        /// Where to start, exclusive.
        after: Seq,
        /// How many at most.
        limit: usize,
    },
    /// The `limit` records right before `before`, in order.
    Before {
        /// Where to end, exclusive.
        before: Seq,
        /// How many at most.
        limit: usize,
    },
}

/// Why a store refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A session of that name exists.
    #[error("a session named {0} exists already")]
    Exists(SessionId),
    /// There is no such session.
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    /// Somebody else holds it.
    #[error("session {session} is in use by process {} on {}", holder.owner.pid, holder.owner.host)]
    Held {
        /// Which session.
        session: SessionId,
        /// By whom.
        holder: Box<Holder>,
    },
    /// The lease is over: somebody else has acquired the session, or it was released or deleted.
    #[error(
        "session {0} was taken over by another server, released or deleted; what was not acknowledged is not \
         written"
    )]
    Fenced(SessionId),
    /// The writer expected another head. A bug of the writer; nothing was written.
    #[error("session {session} has {actual} records where the writer expected {expected}")]
    OutOfStep {
        /// Which session.
        session: SessionId,
        /// What the writer believed.
        expected: Seq,
        /// What is.
        actual: Seq,
    },
    /// The medium failed: disk full, read-only, damaged.
    #[error("cannot {doing} the session store at {place}: {cause}")]
    Medium {
        /// What was being done, as a verb.
        doing: &'static str,
        /// Which store.
        place: String,
        /// What the system said, and what to do.
        cause: String,
    },
}

/// The answer of a store, to be awaited. Nothing happens before it is.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A home for sessions. When a write's future is ready with `Ok`, the write is durable to the degree the
/// store was opened with; when it is `Err`, nothing of it was done, except that a [`StoreError::Medium`] may
/// leave it open. A future that is dropped before it is ready leaves it open as well. Either way
/// [`Append::expected`] makes the question decidable: the same append, tried again, is refused as out of step
/// if the first one was done.
pub trait Store: Send + Sync + 'static {
    /// How many transactions were committed through this store, if it counts them: with many sessions at work far
    /// fewer than writes.
    fn commits(&self) -> Option<u64> {
        None
    }

    /// Makes a session and takes it.
    fn create(&self, new: NewSession) -> Reply<'_, Lease>;

    /// Takes a session under a new epoch and reads what is needed to go on with it. The new holder counts as
    /// idle until its first write says otherwise.
    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> Reply<'_, Opened>;

    /// Writes.
    fn append(&self, append: Append) -> Reply<'_, Seq>;

    /// Gives a session back. Does nothing if it was taken over meanwhile.
    fn release(&self, lease: Lease) -> Reply<'_, ()>;

    /// Reads records, whoever holds the session. Asking beyond either end is no error: there is just nothing
    /// there.
    fn read(&self, session: &SessionId, span: Span) -> Reply<'_, Vec<Record>>;

    /// Tells about one session; `None` if there is none of that name.
    fn summary(&self, session: &SessionId) -> Reply<'_, Option<Summary>>;

    /// Tells about all sessions, last written first; those written at the same time by name. One that is damaged does
    /// not hide the others; see [`Summary::damage`].
    fn list(&self) -> Reply<'_, Vec<Summary>>;

    /// Removes a session and all its records, whoever holds it; the holder is fenced. `false` if there was
    /// none.
    fn delete(&self, session: &SessionId) -> Reply<'_, bool>;

    /// The same, if the session may be taken so; otherwise [`StoreError::Held`] says who has it.
    fn delete_if(&self, session: &SessionId, take: Take) -> Reply<'_, bool>;

    /// Writes something that changes nothing, to know whether anything can be written.
    fn probe(&self) -> Reply<'_, ()>;
}
