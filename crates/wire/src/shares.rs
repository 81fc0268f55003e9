//! Shares: how many connections or event streams of a server one person may hold.
//!
//! A door names the person. The owner has no such limit, and neither has any client of a server without people.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::Author;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts what each person holds.
#[derive(Debug)]
pub struct Shares {
    max: usize,
    held: Mutex<HashMap<Author, usize>>,
}

/// A share that a person holds. Dropping it returns it.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    person: Option<Author>,
}

impl Shares {
    /// Creates shares. A person may hold `max` of them, and at least one.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), held: Mutex::default() })
    }

    /// Counts one more of a person, or of the owner (`None`). Returns `None` if the person has too many.
    #[must_use]
    pub fn take(self: &Arc<Self>, person: Option<&Author>) -> Option<Share> {
        if let Some(person) = person {
            let mut held = self.lock();
            let count = held.get(person).copied().unwrap_or_default();
            if count >= self.max {
                return None;
            }
            held.insert(person.clone(), count + 1);
        }
        Some(Share { shares: self.clone(), person: person.cloned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Author, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Returns the person who holds it; `None` for the owner.
    #[must_use]
    pub fn person(&self) -> Option<&Author> {
        self.person.as_ref()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(person) = &self.person else { return };
        let mut held = self.shares.lock();
        if let Some(count) = held.get_mut(person) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.remove(person);
            }
        }
    }
}

/// The event streams of a server, over all its APIs: a number in all, and an eighth of it for one person.
#[derive(Debug, Clone)]
pub struct EventStreams {
    all: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// An open event stream. Dropping it frees its place.
#[derive(Debug)]
pub struct OpenStream {
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

/// Error for an event stream beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyStreams {
    /// All streams of the server are in use.
    #[error("too many event streams are open")]
    OfServer,
    /// The person has a full share.
    #[error("you have too many event streams open; close some")]
    OfPerson,
}

impl EventStreams {
    /// Creates the streams of a server.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(max)), shares: Shares::new(max / 8) }
    }

    /// Opens a stream for a person, or for the owner (`None`).
    ///
    /// # Errors
    /// When the person or the server has too many.
    pub fn open(&self, person: Option<&Author>) -> Result<OpenStream, TooManyStreams> {
        let share = self.shares.take(person).ok_or(TooManyStreams::OfPerson)?;
        let permit = self.all.clone().try_acquire_owned().map_err(|_| TooManyStreams::OfServer)?;
        Ok(OpenStream { _share: share, _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str) -> Author {
        Author(name.to_owned())
    }

    #[test]
    fn person_has_a_share_of_the_streams_and_the_owner_all() {
        let streams = EventStreams::new(16);
        let vera = person("vera");
        let own: Vec<_> = (0..2).map(|_| streams.open(Some(&vera)).unwrap()).collect();
        assert_eq!(streams.open(Some(&vera)).unwrap_err(), TooManyStreams::OfPerson);
        let other = streams.open(Some(&person("ada"))).unwrap();
        let owners: Vec<_> = std::iter::from_fn(|| streams.open(None).ok()).collect();
        assert_eq!(owners.len(), 13, "the rest");
        assert_eq!(streams.open(None).unwrap_err(), TooManyStreams::OfServer);
        drop((own, other));
        assert!(streams.shares.lock().is_empty(), "nobody is remembered");
        assert!(streams.open(Some(&vera)).is_ok());
    }

    #[test]
    fn share_of_a_refused_stream_is_returned() {
        let streams = EventStreams::new(1);
        let owners = streams.open(None).unwrap();
        let vera = person("vera");
        assert_eq!(streams.open(Some(&vera)).unwrap_err(), TooManyStreams::OfServer);
        drop(owners);
        assert!(streams.open(Some(&vera)).is_ok());
    }
}
