//! Turns of people: how much of a kind each person does at a time. More of the same person waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_protocol::Author;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of all people.
pub struct Turns {
    /// Permits of each person.
    each: u32,
    /// Of people who have or await one; the owner is `None`.
    people: Mutex<HashMap<Option<Author>, Weak<Semaphore>>>,
}

impl Turns {
    /// Creates turns of which each person has so many at a time.
    #[must_use]
    pub fn new(each: u32) -> Self {
        Self { each, people: Mutex::default() }
    }

    /// Waits for permits of a person, or of the owner (`None`): all of them, if more are wanted. The result is none only if
    /// the semaphores were closed, which they never are.
    pub async fn turn(&self, person: Option<Author>, wanted: u32) -> Option<OwnedSemaphorePermit> {
        self.of(person).acquire_many_owned(wanted.min(self.each)).await.ok()
    }

    fn of(&self, person: Option<Author>) -> Arc<Semaphore> {
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        people.retain(|_, turns| turns.strong_count() > 0);
        if let Some(turns) = people.get(&person).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::new(Semaphore::new(self.each as usize));
        people.insert(person, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn people_without_turns_are_not_remembered() {
        let turns = Turns::new(1);
        for name in ["ada", "vera"] {
            drop(turns.turn(Some(Author(name.to_owned())), 9).await);
        }
        let _owners = turns.turn(None, 1).await;
        assert!(turns.turn(None, 1).now_or_never().is_none());
        assert_eq!(turns.people.lock().unwrap().len(), 1);
    }
}
