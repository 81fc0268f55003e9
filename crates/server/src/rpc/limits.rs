//! How much of the JSON-RPC door anybody gets, and how little before they are trusted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::peer::Peer;

/// The limits of the JSON-RPC door on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    /// How many connections there may be.
    pub max_connections: usize,
    /// How many of them one peer may have: a user of this machine, or an address where the user is not known.
    pub max_per_peer: usize,
    /// How many connections of one peer may wait for their token.
    pub max_waiting_per_peer: usize,
    /// How many bytes a client may send until its token has come.
    pub bytes_before_token: usize,
    /// How long a client may take until its token has come.
    pub time_before_token: Duration,
}

impl Default for RpcLimits {
    fn default() -> Self {
        Self {
            max_connections: 2048,
            max_per_peer: 1024,
            max_waiting_per_peer: 64,
            bytes_before_token: 64 << 10,
            time_before_token: Duration::from_secs(10),
        }
    }
}

/// Counts the connections of the door.
pub(super) struct Places {
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

impl Places {
    pub(super) fn new(limits: RpcLimits) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(limits.max_connections));
        Arc::new(Self { limits, all, peers: Mutex::default() })
    }

    /// Takes a place for a connection of the peer; `None` when the peer has too many, or all places are taken. `waiting`:
    /// its token has not come.
    pub(super) fn claim(self: &Arc<Self>, peer: Peer, waiting: bool) -> Option<Place> {
        let in_all = self.all.clone().try_acquire_owned().ok()?;
        let mut peers = self.lock();
        let count = peers.get(&peer).copied().unwrap_or_default();
        let too_many_wait = waiting && count.waiting >= self.limits.max_waiting_per_peer;
        if count.all >= self.limits.max_per_peer || too_many_wait {
            return None;
        }
        peers.insert(peer, Count { all: count.all + 1, waiting: count.waiting + usize::from(waiting) });
        drop(peers);
        Some(Place { places: self.clone(), peer, waiting, _in_all: in_all })
    }

    /// How many connections still have a place.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.all.available_permits()
    }

    fn release(&self, peer: Peer, what: impl Fn(&mut Count)) {
        let mut peers = self.lock();
        if let Some(count) = peers.get_mut(&peer) {
            what(count);
            if count.all == 0 {
                peers.remove(&peer);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Peer, Count>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place. Dropping it gives it back.
pub(super) struct Place {
    places: Arc<Places>,
    peer: Peer,
    waiting: bool,
    _in_all: OwnedSemaphorePermit,
}

impl Place {
    /// The token has come: the connection no longer counts as waiting.
    pub(super) fn admitted(&mut self) {
        if std::mem::take(&mut self.waiting) {
            self.places.release(self.peer, |count| count.waiting = count.waiting.saturating_sub(1));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admitted();
        self.places.release(self.peer, |count| count.all = count.all.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RpcLimits = RpcLimits {
        max_connections: 6,
        max_per_peer: 3,
        max_waiting_per_peer: 2,
        bytes_before_token: 10,
        time_before_token: Duration::from_secs(1),
    };

    fn enter(places: &Arc<Places>, uid: u32, waiting: bool) -> Option<Place> {
        places.claim(Peer::User(uid), waiting)
    }

    #[test]
    fn one_peer_cannot_take_the_places_of_another() {
        let places = Places::new(LIMITS);
        let mut own: Vec<Place> = (0..2).map(|_| enter(&places, 1, true).unwrap()).collect();
        assert!(enter(&places, 1, true).is_none(), "two wait already");
        own[0].admitted();
        own.push(enter(&places, 1, true).unwrap());
        assert!(enter(&places, 1, false).is_none(), "three are enough");
        let others: Vec<Place> = (0..2).filter_map(|_| enter(&places, 2, true)).collect();
        assert_eq!(others.len(), 2);
        drop(own);
        assert!(enter(&places, 1, false).is_some(), "places are given back");
    }

    #[test]
    fn all_peers_together_have_a_limit() {
        let places = Places::new(LIMITS);
        let mut taken: Vec<Place> = (0..6).map(|uid| enter(&places, uid, false).unwrap()).collect();
        assert!(enter(&places, 9, false).is_none());
        taken.pop();
        taken.push(enter(&places, 9, false).unwrap());
        drop(taken);
        assert!(places.lock().is_empty(), "nobody is remembered");
    }
}
