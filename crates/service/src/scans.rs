//! Scans: reads whose cost grows with the store, such as a search or a look through a whole history.
//!
//! A few of them would use up the store's readers and the processor, and all other clients would wait. So the server carries
//! out two at a time, and one for each person; the others wait for their turn.

use std::sync::Arc;

use baton_protocol::Author;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::turns::Turns;

/// Number of scans at a time.
const AT_ONCE: usize = 2;

/// The scans of a server.
pub(crate) struct Scans {
    all: Arc<Semaphore>,
    people: Turns,
}

/// The turn of one scan. Dropping it ends the turn.
pub(crate) struct ScanTurn {
    // In this order: the place among all is free before the person takes it again.
    _of_all: Option<OwnedSemaphorePermit>,
    _of_person: Option<OwnedSemaphorePermit>,
}

impl Default for Scans {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), people: Turns::new(1) }
    }
}

impl Scans {
    /// Waits until a person, or the owner (`None`), may scan. The person's own scans wait before those of all, so that a
    /// person with many is ahead of others once at most.
    pub(crate) async fn turn(&self, person: Option<Author>) -> ScanTurn {
        let of_person = self.people.turn(person, 1).await;
        // The semaphore is never closed.
        ScanTurn { _of_all: self.all.clone().acquire_owned().await.ok(), _of_person: of_person }
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
    }
}
