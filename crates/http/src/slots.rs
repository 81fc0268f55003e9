//! Slots for connections: their number, and which connection is closed when none is left.
//!
//! Anybody can open connections to a port. A connection is a stranger's until one of its requests was authorised. Strangers
//! of one network have a share of the slots; beyond it, the oldest of them is closed. When all slots are taken, the oldest
//! stranger of the network with the most is closed. So strangers who send slowly, or nothing, do not keep
//! people out: a client that has a token sends it at once.
//!
//! An authorised connection belongs to the person who sent the request, and each person has a share of the slots: beyond it,
//! requests on further connections are refused, and those connections stay strangers.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use baton_protocol::Author;
use baton_wire::{Share, Shares};

use super::guard::Peer;

/// Smallest share of strangers, and of a person: a browser opens several connections at once.
const MIN_SHARE: usize = 8;

/// The slots of a listener.
pub(super) struct ConnectionSlots {
    all: Arc<Semaphore>,
    max_strangers: usize,
    strangers: Mutex<Strangers>,
    shares: Arc<Shares>,
}

/// Connections without an authorised request, by network, the oldest first.
#[derive(Default)]
struct Strangers {
    by_network: HashMap<IpAddr, VecDeque<Stranger>>,
    next: u64,
}

struct Stranger {
    number: u64,
    /// Ends the connection.
    evict: oneshot::Sender<()>,
}

/// The slot of a connection. Dropping it frees it.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    /// Network and number of a stranger; none for a client of a socket file.
    stranger: Option<(IpAddr, u64)>,
    /// The share of the sender of the latest authorised request: a proxy may use one connection for several people.
    share: Mutex<Option<Share>>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(max_connections: usize) -> Arc<Self> {
        Self::with_share(max_connections, (max_connections / 4).max(MIN_SHARE))
    }

    fn with_share(max_connections: usize, max_strangers: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(max_connections));
        let shares = Shares::new((max_connections / 8).max(MIN_SHARE));
        Arc::new(Self { all, max_strangers, strangers: Mutex::default(), shares })
    }

    /// Waits for a free slot. Closes the connection of a stranger if there is none.
    pub(super) async fn free(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.all.clone().try_acquire_owned() {
            return Some(permit);
        }
        self.lock().evict_from_largest();
        self.all.clone().acquire_owned().await.ok()
    }

    /// Gives a slot to a connection. The receiver gets a message if the connection must be closed for another one; its channel is
    /// closed once that cannot happen any more.
    pub(super) fn take(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        peer: Peer,
    ) -> (Arc<ConnectionSlot>, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let stranger = match peer {
            Peer::SocketFile => None,
            Peer::Tcp { address, .. } => {
                let network = network(address);
                Some((network, self.lock().add(network, evict, self.max_strangers)))
            }
        };
        let slot = ConnectionSlot { slots: self.clone(), stranger, share: Mutex::default(), _permit: permit };
        (Arc::new(slot), evicted)
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Strangers {
    /// Adds a stranger, and returns its number.
    fn add(&mut self, network: IpAddr, evict: oneshot::Sender<()>, max: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        let strangers = self.by_network.entry(network).or_default();
        strangers.push_back(Stranger { number, evict });
        if strangers.len() > max {
            self.evict_from(network);
        }
        number
    }

    fn evict_from_largest(&mut self) {
        let largest = self.by_network.iter().max_by_key(|(_, strangers)| strangers.len());
        if let Some(network) = largest.map(|(network, _)| *network) {
            self.evict_from(network);
        }
    }

    fn evict_from(&mut self, network: IpAddr) {
        let oldest = self.by_network.get_mut(&network).and_then(VecDeque::pop_front);
        if let Some(oldest) = oldest {
            // Fails if the connection has just ended.
            let _ = oldest.evict.send(());
        }
        self.forget_empty(network);
    }

    fn remove(&mut self, network: IpAddr, number: u64) {
        if let Some(strangers) = self.by_network.get_mut(&network)
            && let Ok(at) = strangers.binary_search_by_key(&number, |stranger| stranger.number)
        {
            strangers.remove(at);
        }
        self.forget_empty(network);
    }

    fn forget_empty(&mut self, network: IpAddr) {
        if self.by_network.get(&network).is_some_and(VecDeque::is_empty) {
            self.by_network.remove(&network);
        }
    }
}

impl ConnectionSlot {
    /// Keeps the slot for as long as the connection lasts: a request of a person, or of the owner (`None`), was authorised.
    /// Returns whether the person may have this connection.
    #[must_use]
    pub(super) fn keep(&self, person: Option<&Author>) -> bool {
        let mut held = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|share| share.person() != person) {
            let Some(share) = self.slots.shares.take(person) else { return false };
            *held = Some(share);
            drop(held);
            self.leave_strangers();
        }
        true
    }

    fn leave_strangers(&self) {
        if let Some((network, number)) = self.stranger {
            self.slots.lock().remove(network, number);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.leave_strangers();
    }
}

/// Returns the network of an address: a customer gets one IPv4 address, or a /64 of IPv6. All loopback addresses are one: a
/// process can connect from any of the 16 million.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::Tcp { address: address.parse().unwrap(), tls: false }
    }

    async fn connect(
        slots: &Arc<ConnectionSlots>,
        address: &str,
    ) -> (Arc<ConnectionSlot>, oneshot::Receiver<()>) {
        let permit = slots.free().await.unwrap();
        slots.take(permit, peer(address))
    }

    fn gives_way(connection: &mut (Arc<ConnectionSlot>, oneshot::Receiver<()>)) -> bool {
        connection.1.try_recv().is_ok()
    }

    #[tokio::test]
    async fn oldest_stranger_of_a_network_gives_way_to_the_newest() {
        let slots = ConnectionSlots::with_share(16, 4);
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(connect(&slots, "192.0.2.1").await);
        }
        let mut elsewhere = connect(&slots, "198.51.100.1").await;
        assert!(all[0].0.keep(None));
        all.push(connect(&slots, "192.0.2.1").await);
        assert!(!all.iter_mut().any(gives_way), "one of the five was authorised");
        all.push(connect(&slots, "192.0.2.1").await);
        let gone: Vec<bool> = all.iter_mut().map(gives_way).collect();
        assert_eq!(gone, [false, true, false, false, false, false]);
        assert!(!gives_way(&mut elsewhere));
        drop((all, elsewhere));
        assert!(slots.lock().by_network.is_empty(), "no network is remembered");
    }

    #[tokio::test]
    async fn full_server_accepts_a_client_in_place_of_a_stranger() {
        let slots = ConnectionSlots::with_share(5, 4);
        let owner = connect(&slots, "127.0.0.1").await;
        assert!(owner.0.keep(None));
        let mut strangers = vec![connect(&slots, "2001:db8::1").await, connect(&slots, "192.0.2.1").await];
        strangers.push(connect(&slots, "2001:db8::2").await);
        strangers.push(connect(&slots, "2001:db8::3").await);
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { connect(&slots, "127.0.0.1").await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "all slots are taken");
        let gone: Vec<bool> = strangers.iter_mut().map(gives_way).collect();
        assert_eq!(gone, [true, false, false, false], "the oldest of the network with the most");
        strangers.remove(0);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn connections_beyond_the_share_of_a_person_stay_strangers() {
        let slots = ConnectionSlots::with_share(64, 4);
        let (vera, ada) = (Author("vera".into()), Author("ada".into()));
        let mut own = Vec::new();
        for _ in 0..MIN_SHARE {
            let connection = connect(&slots, "192.0.2.1").await;
            assert!(connection.0.keep(Some(&vera)) && connection.0.keep(Some(&vera)), "counted once");
            own.push(connection);
        }
        let mut further = connect(&slots, "192.0.2.1").await;
        assert!(!further.0.keep(Some(&vera)));
        let strangers = [(); 4].map(|()| connect(&slots, "192.0.2.1"));
        let strangers = futures_util::future::join_all(strangers).await;
        assert!(gives_way(&mut further), "it was never kept");
        assert!(strangers[0].0.keep(Some(&ada)) && strangers[1].0.keep(None), "others have their own");
        // A proxy sends a request of another person.
        assert!(own[0].0.keep(Some(&ada)));
        assert!(strangers[2].0.keep(Some(&vera)), "the share was returned");
    }
}
