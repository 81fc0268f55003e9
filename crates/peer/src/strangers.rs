//! Connections that have not proved yet that they know the secret.
//!
//! Anybody can open connections to the port. Their number is limited; beyond the limit, the oldest of the address with the
//! most gives way to the newest. A server of the cluster proves at once that it knows the secret, so it is never among
//! the oldest.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of strangers.
const MAX_STRANGERS: usize = 256;

/// All strangers.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<State>);

#[derive(Default)]
struct State {
    by_address: HashMap<IpAddr, VecDeque<(u64, oneshot::Sender<()>)>>,
    count: usize,
    next: u64,
}

/// A connection that counts as a stranger until this is dropped.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    address: IpAddr,
    number: u64,
}

impl Strangers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Counts a connection. The receiver reports that it has to give way.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> (Stranger, oneshot::Receiver<()>) {
        let address = address.to_canonical();
        let (evict, evicted) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.by_address.entry(address).or_default().push_back((number, evict));
        state.count += 1;
        if state.count > MAX_STRANGERS {
            state.evict();
        }
        drop(state);
        (Stranger { strangers: self.clone(), address, number }, evicted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes the oldest stranger of the address with the most give way.
    fn evict(&mut self) {
        let largest = self.by_address.values_mut().max_by_key(|strangers| strangers.len());
        if let Some((_, evict)) = largest.and_then(VecDeque::pop_front) {
            self.count -= 1;
            // Fails if the connection has just ended.
            let _ = evict.send(());
        }
        self.by_address.retain(|_, strangers| !strangers.is_empty());
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut state = self.strangers.lock();
        let Some(strangers) = state.by_address.get_mut(&self.address) else { return };
        let found = strangers.binary_search_by_key(&self.number, |(number, _)| *number);
        if let Ok(at) = found {
            strangers.remove(at);
            let is_last = strangers.is_empty();
            state.count -= 1;
            if is_last {
                state.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_give_way_to_new_ones() {
        let strangers = Strangers::new();
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut silent: Vec<_> = (0..MAX_STRANGERS - 1).map(|_| strangers.admit(address(1))).collect();
        let mut elsewhere = strangers.admit(address(2));
        let gave_way = |stranger: &mut (Stranger, oneshot::Receiver<()>)| stranger.1.try_recv().is_ok();
        assert!(!silent.iter_mut().any(gave_way));
        let mut server = strangers.admit(address(1));
        let gone: Vec<bool> = silent.iter_mut().map(gave_way).collect();
        assert!(gone[0] && !gone[1..].contains(&true), "the oldest of the address with the most");
        assert!(!gave_way(&mut server) && !gave_way(&mut elsewhere));
        drop((silent, elsewhere, server));
        let state = strangers.lock();
        assert_eq!((state.count, state.by_address.len()), (0, 0));
    }
}
