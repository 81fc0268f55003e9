//! Servers that share a store.
//!
//! A store that several machines use knows its servers: each enters before it acquires a session, and then says every
//! second that it is alive. One lease for a server, however many sessions it holds. All times are compared by the store,
//! never by a server: clocks differ.
//!
//! Membership excludes nobody. Epochs alone decide who may write; being declared dead only allows another server to acquire
//! a session.

use std::time::Duration;

use baton_protocol::SessionId;

use crate::{Holder, Owner, StoreFuture};

/// Time between two heartbeats.
pub const BEAT: Duration = Duration::from_secs(1);

/// A server that was not heard of for this long is dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);

/// A server whose last acknowledged heartbeat was sent this long ago starts nothing new: it may soon count as dead.
pub const FENCE_AFTER: Duration = Duration::from_secs(2);

/// At this age, it has to end what runs.
pub const STOP_AFTER: Duration = Duration::from_millis(2300);

/// A server that enters.
#[derive(Debug, Clone)]
pub struct NewMember {
    /// The process.
    pub owner: Owner,
    /// Where other servers reach it; empty if they cannot.
    pub address: String,
    /// Name of the machines that have the same working directories.
    pub place: String,
    /// Version of the program.
    pub version: String,
    /// Its home, with the list of its processes. Means something on its own host only.
    pub home: String,
}

/// A server that uses the store, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The process.
    pub owner: Owner,
    /// A number that no other server of this store has or had.
    pub number: u64,
    /// Where other servers reach it; empty if they cannot.
    pub address: String,
    /// Name of the machines that have the same working directories.
    pub place: String,
    /// Version of the program.
    pub version: String,
    /// Its home, with the list of its processes. Means something on its own host only.
    pub home: String,
    /// Whether it hands its sessions on, and takes no new ones.
    pub draining: bool,
    /// Time since its last heartbeat, by the clock of the store.
    pub age: Duration,
    /// Number of sessions that it holds.
    pub sessions: u64,
    /// Number of those with work in progress.
    pub busy: u64,
}

impl Member {
    /// Whether it was heard of recently.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.age < DEAD_AFTER
    }
}

/// A session that another server created or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionListChange {
    /// Numbers increase, but a change may become visible after one with a higher number.
    pub number: u64,
    /// The session.
    pub session: SessionId,
    /// Whether it was deleted, rather than created.
    pub deleted: bool,
}

/// The servers of a store.
pub trait Members: Send + Sync {
    /// Returns the place of this server: the name of the machines that have the same working directories.
    fn place(&self) -> &str;

    /// Enters. Returns the server's number.
    fn enter(&self, member: NewMember) -> StoreFuture<'_, u64>;

    /// Records a heartbeat. Returns whether the server is to drain; none if it is not known, and has to enter again.
    fn beat(&self, server: &str, draining: bool) -> StoreFuture<'_, Option<bool>>;

    /// Asks a server to drain. Returns whether it is known.
    fn ask_to_drain(&self, server: &str) -> StoreFuture<'_, bool>;

    /// Leaves. Sessions that the server still holds can be acquired at once.
    fn leave(&self, server: &str) -> StoreFuture<'_, ()>;

    /// Lists all servers, dead ones too, by their numbers.
    fn list(&self) -> StoreFuture<'_, Vec<Member>>;

    /// Returns one server, with no count of its sessions; none if it has left or never entered.
    fn member(&self, server: &str) -> StoreFuture<'_, Option<Member>>;

    /// Returns some busy sessions of a place whose holders are dead. The cost does not depend on the number of idle ones.
    fn orphans(&self, place: &str, limit: usize) -> StoreFuture<'_, Vec<(SessionId, Holder)>>;

    /// Returns the recent changes of other servers whose number is above `after`, in the order of their numbers. Old ones are
    /// forgotten: they are news, not truth.
    fn changes(&self, after: u64) -> StoreFuture<'_, Vec<SessionListChange>>;

    /// Returns the place of a session; none if it does not exist.
    fn place_of(&self, session: &SessionId) -> StoreFuture<'_, Option<String>>;
}
