//! Takes over the work of dead servers in sessions without clients, where the operator wants that. Sessions with clients
//! are taken over by the servers of those clients, at once. A server with sessions of its own continues what it left when it
//! stopped.

use std::time::Duration;

use baton_history::{metadata, owner};
use baton_protocol::SessionId;
use baton_protocol::params::SessionParams;
use baton_store::members::BEAT;
use baton_store::{StoreError, Summary};

use crate::{Join, Runtime};

/// Number of sessions that a server takes over each second: others take their share.
const AT_ONCE: usize = 4;

/// Pause before sessions without clients are looked for, so that servers with clients come first.
const PATIENCE: Duration = Duration::from_secs(2);

impl Runtime {
    /// Looks for busy sessions of dead servers, every second.
    pub(super) async fn take_over(self: &std::sync::Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        tokio::time::sleep(PATIENCE).await;
        loop {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = self.stopping.cancelled() => return,
            }
            if !cluster.may_judge() || cluster.is_draining() {
                continue;
            }
            match self.orphans().await {
                Ok(orphans) => {
                    for id in orphans {
                        self.adopt(&id).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot look for sessions of dead servers"),
            }
        }
    }

    /// Continues the unfinished work of the sessions in the home, once. For a store that does not know its servers; runs in the
    /// background.
    pub fn continue_unfinished(self: &std::sync::Arc<Self>) {
        if self.cluster.is_some() {
            return;
        }
        let runtime = self.clone();
        self.tasks.spawn(async move {
            let all = match runtime.store.list().await {
                Ok(all) => all,
                Err(error) => {
                    return tracing::warn!(%error, "cannot look for unfinished sessions; resume them by hand");
                }
            };
            let left: Vec<Summary> = all.into_iter().filter(is_left).collect();
            for some in left.chunks(AT_ONCE) {
                for summary in some {
                    runtime.adopt(&summary.session).await;
                }
                tokio::select! {
                    () = tokio::time::sleep(BEAT) => {}
                    () = runtime.stopping.cancelled() => return,
                }
            }
        });
    }

    async fn orphans(&self) -> Result<Vec<SessionId>, StoreError> {
        let (Some(cluster), Some(members)) = (&self.cluster, self.store.members()) else {
            return Ok(Vec::new());
        };
        let found = members.orphans(cluster.place(), AT_ONCE).await?;
        Ok(found.into_iter().map(|(id, _)| id).collect())
    }

    /// Opens a session and continues its work.
    async fn adopt(self: &std::sync::Arc<Self>, id: &SessionId) {
        let params = SessionParams {
            continue_pending_work: Some(true),
            disable_resume: Some(true),
            ..SessionParams::default()
        };
        match self.join(Join::Resume(id.clone(), params)).await {
            // The session stays open while it is busy; nobody is attached to it.
            Ok(session) => {
                tracing::info!(session = %id, "continued the work that a server had left");
                session.leave();
            }
            Err(error) => {
                tracing::warn!(session = %id, %error, "cannot continue the work that a server had left");
            }
        }
    }
}

/// Whether nobody works on an unfinished session.
fn is_left(summary: &Summary) -> bool {
    let is_held = summary.holder.as_ref().is_some_and(|holder| owner::is_alive(&holder.owner));
    metadata::is_unfinished(summary) && !is_held && summary.damage.is_none()
}
