//! News of sessions that other servers created or deleted, for the clients of this one. Read every second; a list of
//! sessions is complete without them.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_store::members::{BEAT, SessionListChange};
use serde_json::json;

use crate::Runtime;
use crate::lifecycle::LifecycleChange;

/// How many numbers before the last one are read again: transactions do not end in the order of their numbers.
const SLACK: u64 = 256;

/// The changes that were announced.
#[derive(Default)]
struct Known {
    last: u64,
    recent: BTreeSet<u64>,
}

impl Known {
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
    /// Announces the changes of other servers to the clients of this one, until the server stops.
    pub(super) async fn follow_changes(self: &Arc<Self>) {
        let Some(members) = self.store.members() else { return };
        // What happened before is in the lists that clients read.
        let mut known: Option<Known> = None;
        loop {
            let changes = tokio::select! {
                changes = members.changes(known.as_ref().map_or(0, Known::after)) => changes,
                () = self.stopping.cancelled() => return,
            };
            match changes {
                Ok(changes) => {
                    let is_first = known.is_none();
                    let known = known.get_or_insert_default();
                    for change in changes {
                        if known.insert(&change) && !is_first {
                            self.announce_change(&change).await;
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot read the changes of other servers"),
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = self.stopping.cancelled() => return,
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
        let mut known = Known::default();
        assert!(known.insert(&change(1000)) && !known.insert(&change(1000)));
        assert_eq!(known.after(), 744);
        assert!(known.insert(&change(998)) && !known.insert(&change(998)), "visible after a later one");
        assert!(!known.insert(&change(3)), "too old to know");
        (1001..2000).for_each(|number| assert!(known.insert(&change(number))));
        assert!(known.recent.len() <= 257);
    }
}
