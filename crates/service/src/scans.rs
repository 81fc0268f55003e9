//! Scans: reads whose cost grows with the store, such as a search or a look through a whole history.
//!
//! A few of them would use up the store's readers and the processor, and all other clients would wait. So the server carries out
//! two at a time, and one for each person; the others wait for their turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_protocol::Author;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of scans at a time.
const AT_ONCE: usize = 2;

/// The scans of a server.
pub(crate) struct Scans {
    all: Arc<Semaphore>,
    /// The turn of each person who scans; the owner is `None`.
    people: Mutex<HashMap<Option<Author>, Weak<Semaphore>>>,
}

/// The turn of one scan. Dropping it ends the turn.
pub(crate) struct ScanTurn {
    // In this order: the place among all is free before the person takes it again.
    _of_all: Option<OwnedSemaphorePermit>,
    _of_person: Option<OwnedSemaphorePermit>,
}

impl Default for Scans {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), people: Mutex::default() }
    }
}

impl Scans {
    /// Waits until a person, or the owner (`None`), may scan. The person's own scans wait before those of all, so that a person with
    /// many is ahead of others once at most.
    pub(crate) async fn turn(&self, person: Option<Author>) -> ScanTurn {
        // The semaphores are never closed.
        let of_person = self.of(person).acquire_owned().await.ok();
        ScanTurn { _of_all: self.all.clone().acquire_owned().await.ok(), _of_person: of_person }
    }

    fn of(&self, person: Option<Author>) -> Arc<Semaphore> {
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        people.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = people.get(&person).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        people.insert(person, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn scans_of_one_person_leave_room_for_others() {
        let scans = Scans::default();
        let person = |name: &str| Some(Author(name.to_owned()));
        let first = scans.turn(person("vera")).await;
        let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(scans.turn(person("vera")))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let owners = scans.turn(None).now_or_never().expect("a place for another person");
        assert!(scans.turn(person("ada")).now_or_never().is_none(), "two at a time");
        drop(owners);
        assert!(scans.turn(person("ada")).now_or_never().is_some());
        drop(first);
        assert!(waiting.remove(0).now_or_never().is_some());
        drop(waiting);
        drop(scans.turn(None).await);
        assert_eq!(scans.people.lock().unwrap().len(), 1, "others are not remembered");
    }
}
