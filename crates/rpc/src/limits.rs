//! Limits of connections on TCP: in all, of one peer, and before a client has sent its token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::peer::Peer;

/// The limits of the JSON-RPC door on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections of one peer: a user of this machine, or an address if the user is not known.
    pub max_per_peer: usize,
    /// Maximum number of connections of one person.
    pub max_per_person: usize,
    /// Maximum number of connections of one peer without a token yet.
    pub max_waiting_per_peer: usize,
    /// Maximum number of bytes that a client may send before its token is accepted.
    pub bytes_before_token: usize,
    /// Maximum time until the token of a client is accepted.
    pub time_before_token: Duration,
}

impl Default for RpcLimits {
    fn default() -> Self {
        Self {
            max_connections: 2048,
            max_per_peer: 1024,
            max_per_person: 256,
            max_waiting_per_peer: 64,
            bytes_before_token: 64 << 10,
            time_before_token: Duration::from_secs(10),
        }
    }
}

/// Counts connections, and gives slots for new ones.
pub(super) struct ConnectionSlots {
    limits: RpcLimits,
    all: Arc<Semaphore>,
    peers: Mutex<HashMap<Peer, Count>>,
}

/// The connections of one peer.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    all: usize,
    waiting: usize,
}

impl ConnectionSlots {
    pub(super) fn new(limits: RpcLimits) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(limits.max_connections));
        Arc::new(Self { limits, all, peers: Mutex::default() })
    }

    /// Acquires a slot for a connection of a peer; `None` at one of the limits. `waiting`: the connection has no token yet.
    pub(super) fn acquire(self: &Arc<Self>, peer: Peer, waiting: bool) -> Option<ConnectionSlot> {
        let permit = self.all.clone().try_acquire_owned().ok()?;
        let mut peers = self.lock();
        let count = peers.get(&peer).copied().unwrap_or_default();
        let too_many_waiting = waiting && count.waiting >= self.limits.max_waiting_per_peer;
        if count.all >= self.limits.max_per_peer || too_many_waiting {
            return None;
        }
        peers.insert(peer, Count { all: count.all + 1, waiting: count.waiting + usize::from(waiting) });
        drop(peers);
        Some(ConnectionSlot { slots: self.clone(), peer, waiting, _permit: permit })
    }

    /// Returns the number of free slots.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.all.available_permits()
    }

    fn update(&self, peer: Peer, change: impl Fn(&mut Count)) {
        let mut peers = self.lock();
        if let Some(count) = peers.get_mut(&peer) {
            change(count);
            if count.all == 0 {
                peers.remove(&peer);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Peer, Count>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slot of a connection. Dropping it frees it.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    peer: Peer,
    waiting: bool,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlot {
    /// Counts the connection as one with a token from now on.
    pub(super) fn admitted(&mut self) {
        if std::mem::take(&mut self.waiting) {
            self.slots.update(self.peer, |count| count.waiting = count.waiting.saturating_sub(1));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.admitted();
        self.slots.update(self.peer, |count| count.all = count.all.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RpcLimits = RpcLimits {
        max_connections: 6,
        max_per_peer: 3,
        max_per_person: 1,
        max_waiting_per_peer: 2,
        bytes_before_token: 10,
        time_before_token: Duration::from_secs(1),
    };

    fn acquire(slots: &Arc<ConnectionSlots>, uid: u32, waiting: bool) -> Option<ConnectionSlot> {
        slots.acquire(Peer::User(uid), waiting)
    }

    #[test]
    fn peer_at_its_limit_leaves_slots_to_others() {
        let slots = ConnectionSlots::new(LIMITS);
        let mut own: Vec<ConnectionSlot> = (0..2).map(|_| acquire(&slots, 1, true).unwrap()).collect();
        assert!(acquire(&slots, 1, true).is_none(), "two are waiting");
        own[0].admitted();
        own.push(acquire(&slots, 1, true).unwrap());
        assert!(acquire(&slots, 1, false).is_none(), "the peer has three");
        let others: Vec<ConnectionSlot> = (0..2).filter_map(|_| acquire(&slots, 2, true)).collect();
        assert_eq!(others.len(), 2);
        drop(own);
        assert!(acquire(&slots, 1, false).is_some(), "slots are freed");
    }

    #[test]
    fn all_peers_together_are_limited() {
        let slots = ConnectionSlots::new(LIMITS);
        let mut taken: Vec<ConnectionSlot> = (0..6).map(|uid| acquire(&slots, uid, false).unwrap()).collect();
        assert!(acquire(&slots, 9, false).is_none());
        taken.pop();
        taken.push(acquire(&slots, 9, false).unwrap());
        drop(taken);
        assert!(slots.lock().is_empty(), "no peer is remembered");
    }
}
