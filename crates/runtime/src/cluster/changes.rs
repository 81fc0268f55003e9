//! News of sessions that other servers created or deleted, for the clients of this one. They are read every second. Lists of
//! sessions are complete without them.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_store::StoreError;
use baton_store::members::{BEAT, Members, SessionListChange};
use serde_json::json;

use crate::Runtime;
use crate::lifecycle::LifecycleChange;

/// How many numbers before the last one are read again: transactions do not end in the order of their numbers.
const SLACK: u64 = 256;

/// The changes that were announced.
#[derive(Default)]
pub(super) struct KnownChanges {
    last: u64,
    recent: BTreeSet<u64>,
}

impl KnownChanges {
    /// Returns the number after which changes are read.
    fn after(&self) -> u64 {
        self.last.saturating_sub(SLACK)
    }

    /// Adds a change. Returns whether it is new.
    fn insert(&mut self, change: &SessionListChange) -> bool {
        self.last = self.last.max(change.number);
        let after = self.after();
        self.recent = self.recent.split_off(&after);
        change.number > after && self.recent.insert(change.number)
    }
}

impl Runtime {
    /// Returns the changes that need no announcement, because they are in the lists that clients read. Read before clients
    /// can connect, so that none of them misses a change.
    pub(super) async fn known_changes(&self, members: &dyn Members) -> Result<KnownChanges, StoreError> {
        let mut known = KnownChanges::default();
        for change in members.changes(0).await? {
            known.insert(&change);
        }
        Ok(known)
    }

    /// Announces the changes of other servers to the clients of this one, until the server stops.
    pub(super) async fn follow_changes(self: &Arc<Self>, mut known: KnownChanges) {
        let Some(members) = self.store.members() else { return };
        loop {
            let next = async {
                tokio::time::sleep(BEAT).await;
                members.changes(known.after()).await
            };
            let changes = tokio::select! {
                changes = next => changes,
                () = self.stopping.cancelled() => return,
            };
            match changes {
                Ok(changes) => {
                    for change in changes.iter().filter(|change| known.insert(change)) {
                        self.announce_change(change).await;
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot read the changes of other servers"),
            }
        }
    }

    async fn announce_change(&self, change: &SessionListChange) {
        let session = &change.session;
        let created = self.cluster.as_ref().map(|cluster| &cluster.created);
        if change.deleted {
            if let Some(created) = created {
                created.remove(session);
            }
            return self.lifecycle.announce(LifecycleChange::Deleted, session, None);
        }
        // It may have been deleted since.
        let Ok(Some(summary)) = self.store.summary(session).await else { return };
        let metadata = json!({ "startTime": summary.created, "modifiedTime": summary.modified });
        self.lifecycle.announce_found(&summary);
        if created.is_some_and(|created| !created.insert(session)) {
            return;
        }
        self.lifecycle.announce(LifecycleChange::Created, session, Some(metadata));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64) -> SessionListChange {
        SessionListChange { number, session: "s".parse().unwrap(), deleted: false }
    }

    #[test]
    fn late_change_is_announced_once() {
        let mut known = KnownChanges::default();
        assert!(known.insert(&change(1000)) && !known.insert(&change(1000)));
        assert_eq!(known.after(), 744);
        assert!(known.insert(&change(998)) && !known.insert(&change(998)), "visible after a later one");
        assert!(!known.insert(&change(3)), "too old to know");
        (1001..2000).for_each(|number| assert!(known.insert(&change(number))));
        assert!(known.recent.len() <= 257);
    }
}
