//! Indexing in the background: keeps the store's index of texts close to its end, so that a search has little left to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_history::search;

use crate::Runtime;

/// Pause between two looks for records that are not indexed.
const EVERY: Duration = Duration::from_secs(30);
/// Time between two reports while an older store is indexed.
const SILENCE: Duration = Duration::from_secs(10);

impl Runtime {
    /// Indexes the texts of all sessions, now and every 30 s. Runs in the background.
    pub fn index_texts(self: &Arc<Self>) {
        let runtime = self.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = runtime.index_once() => {}
                    () = runtime.stopping.cancelled() => return,
                }
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = runtime.stopping.cancelled() => return,
                }
            }
        });
    }

    async fn index_once(&self) {
        let began = Instant::now();
        let mut said = began;
        let mut indexed = 0;
        let result = search::catch_up(&*self.store, None, |sessions| {
            indexed = sessions;
            if said.elapsed() > SILENCE {
                said = Instant::now();
                tracing::info!(sessions, "indexing sessions for search");
            }
        });
        match result.await {
            Ok(done) => {
                for (session, error) in done.unreadable {
                    tracing::debug!(%session, %error, "cannot index a session; search does not find all of it");
                }
                if said > began {
                    tracing::info!(sessions = indexed, "indexed all sessions for search");
                }
            }
            Err(error) => tracing::warn!(%error, "cannot index sessions for search; trying again later"),
        }
    }
}
