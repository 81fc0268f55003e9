//! Hands the sessions of this server on before it stops, where servers share the store.
//!
//! A turn that runs is finished here; everything else can continue elsewhere: idle sessions, queued prompts, and turns that
//! wait for a client. Clients of this server reconnect to another one when it has stopped.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Cluster;
use crate::Runtime;
use crate::session::Handle;

/// Pause between two looks at the sessions.
const LOOK: Duration = Duration::from_millis(100);

impl Runtime {
    /// Waits until no session of this server works on anything, up to a limit. Returns at once where servers do not share the
    /// store. From the call on, other servers know that this one is about to stop.
    pub async fn drain(&self, limit: Duration) {
        let Some(cluster) = &self.cluster else { return };
        cluster.start_draining();
        let until = Instant::now() + limit;
        while Instant::now() < until {
            let mut working = 0;
            for handle in self.registry.all() {
                working += usize::from(works(&handle).await);
            }
            if working == 0 {
                return;
            }
            tracing::debug!(working, "waiting for turns before the server stops");
            sleep(LOOK).await;
        }
        tracing::info!("turns still run after {limit:?}; they are interrupted");
    }

    /// Waits until an operator has asked this server to drain.
    pub async fn drain_requested(&self) {
        match &self.cluster {
            Some(cluster) => cluster.drain_requested.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Cluster {
    pub(super) fn start_draining(&self) {
        self.draining.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Whether the actor of a session is here and has work that would be interrupted.
async fn works(handle: &Handle) -> bool {
    if !handle.hub.is_here() {
        return false;
    }
    handle.inspect().await.is_ok_and(|view| !view.session.live.work.is_empty())
}
