//! Takes over the work of dead servers in sessions without clients, where the operator wants that. Sessions with clients
//! are taken over by the servers of those clients, at once.

use std::time::Duration;

use baton_protocol::SessionId;
use baton_protocol::params::SessionParams;
use baton_store::StoreError;
use baton_store::members::BEAT;

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
                tracing::info!(session = %id, "took over the work of a dead server");
                session.leave();
            }
            Err(error) => tracing::warn!(session = %id, %error, "cannot take over the work of a dead server"),
        }
    }
}
