//! Retention: deletes sessions that nobody has used for a long time, if the operator wants that.
//!
//! A session is deleted only under a lease of this server, after its state was read under that lease: one that another
//! server holds, that is in memory, that has a turn, a queue or a pending request, or whose history is damaged is kept.

use std::sync::Arc;
use std::time::Duration;

use baton_history::stored::Held;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{StoreError, Summary, Take};

use crate::Runtime;
use crate::lifecycle::LifecycleChange;

/// Pause between two looks at all sessions.
const EVERY: Duration = Duration::from_secs(3600);

impl Runtime {
    /// Deletes sessions that were not changed for `keep`, now and every hour. Runs in the background.
    pub fn delete_old_sessions(self: &Arc<Self>, keep: Duration) {
        let runtime = self.clone();
        self.tasks.spawn(async move {
            loop {
                match runtime.delete_sessions_older_than(keep).await {
                    Ok(deleted) if deleted.is_empty() => {}
                    Ok(deleted) => tracing::info!(sessions = deleted.len(), "deleted old sessions"),
                    Err(error) => {
                        tracing::warn!(%error, "cannot delete old sessions; trying again in an hour");
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = runtime.stopping.cancelled() => return,
                }
            }
        });
    }

    /// Deletes sessions that were not changed for `keep`, and returns them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete_sessions_older_than(&self, keep: Duration) -> Result<Vec<SessionId>, StoreError> {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let limit = Timestamp(Timestamp::now().0.saturating_sub(keep));
        let mut deleted = Vec::new();
        for summary in self.store.list().await?.into_iter().filter(|summary| summary.modified < limit) {
            if self.stopping.is_cancelled() {
                break;
            }
            if self.delete_if_unused(&summary).await? {
                tracing::info!(session = %summary.session, last_used = %summary.modified, "deleted an old session");
                deleted.push(summary.session);
            }
        }
        Ok(deleted)
    }

    async fn delete_if_unused(&self, summary: &Summary) -> Result<bool, StoreError> {
        let id = &summary.session;
        if summary.damage.is_some() || self.registry.get(id).is_some() {
            return Ok(false);
        }
        let held = match Held::acquire(&*self.store, id, &self.owner).await {
            Ok(held) => held,
            Err(StoreError::Held { .. } | StoreError::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        if held.session.is_busy() {
            held.release(&*self.store).await?;
            return Ok(false);
        }
        // Refused if a client has opened the session since: that took over the lease.
        match self.store.delete_if(id, Take::From(held.lease.epoch)).await {
            Ok(true) => {
                self.session_files(id, None).delete().await;
                baton_files::sandboxes::delete(&self.options.home, id).await;
                self.lifecycle.announce(LifecycleChange::Deleted, id, None);
                Ok(true)
            }
            Ok(false) | Err(StoreError::Held { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
