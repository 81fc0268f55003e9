//! Shares of the event streams: how many of them one person may have open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_people::{Identity, PersonName};

/// Counts the streams of each person. The owner, and with it every client of a server without people, has no limit of its own.
pub(super) struct StreamShares {
    max: usize,
    open: Mutex<HashMap<PersonName, usize>>,
}

/// A stream of a person. Dropping it frees its share.
pub(super) struct StreamShare {
    shares: Arc<StreamShares>,
    person: Option<PersonName>,
}

impl StreamShares {
    /// Creates the shares of a number of streams. A person may have an eighth of them.
    pub(super) fn new(max_streams: usize) -> Arc<Self> {
        Arc::new(Self { max: (max_streams / 8).max(1), open: Mutex::default() })
    }

    /// Counts a stream of a reader; `None` if the person has too many.
    pub(super) fn take(self: &Arc<Self>, reader: &Identity) -> Option<StreamShare> {
        let person = match reader {
            Identity::Owner | Identity::OwnerBrowser { .. } => None,
            Identity::Person { name, .. } => Some(name.clone()),
        };
        if let Some(person) = &person {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.get(person).copied().unwrap_or_default();
            if count >= self.max {
                return None;
            }
            open.insert(person.clone(), count + 1);
        }
        Some(StreamShare { shares: self.clone(), person })
    }
}

impl Drop for StreamShare {
    fn drop(&mut self) {
        let Some(person) = &self.person else { return };
        let mut open = self.shares.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(person) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(person);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_people::{Digest, Proof, Role};

    fn person(name: &str, token: &str) -> Identity {
        let proof = Proof::Token(Digest::of(token));
        Identity::Person { name: name.parse().unwrap(), role: Role::Viewer, proof }
    }

    #[test]
    fn person_has_a_share_of_the_streams_and_the_owner_all() {
        let shares = StreamShares::new(16);
        let own: Vec<_> = (0..2).map(|_| shares.take(&person("vera", "a")).unwrap()).collect();
        assert!(shares.take(&person("vera", "b")).is_none(), "however the person has logged in");
        assert!(shares.take(&person("ada", "c")).is_some());
        let owners: Vec<_> = (0..16).filter_map(|_| shares.take(&Identity::Owner)).collect();
        assert_eq!(owners.len(), 16);
        drop(own);
        assert!(shares.open.lock().unwrap().is_empty(), "nobody is remembered");
        assert!(shares.take(&person("vera", "a")).is_some());
    }
}
