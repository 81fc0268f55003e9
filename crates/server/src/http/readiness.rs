//! Whether the server can write. Asked without a token, so it is tried once a second at most, whoever asks how often.

use std::time::{Duration, Instant};

use baton_store::Store;
use tokio::sync::Mutex;

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(1);

/// The last answer, and when it was found.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// Whether a store can be written; if not, why.
    pub(super) async fn of(&self, store: &dyn Store) -> Result<(), String> {
        // Held while the store is tried: those who ask meanwhile wait for the same answer.
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < HOLDS
        {
            return answer.clone();
        }
        let answer = store.probe().await.map_err(|error| error.to_string());
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use baton_store::faults::{Fault, FaultyStore};
    use baton_store::memory::MemoryStore;

    #[tokio::test]
    async fn store_that_cannot_be_written_is_not_ready_and_is_tried_once() {
        let store = FaultyStore::new(Arc::new(MemoryStore::default()));
        assert_eq!(Readiness::default().of(&store).await, Ok(()));
        store.plan(Fault::From(0));
        let readiness = Readiness::default();
        for _ in 0..100 {
            assert!(readiness.of(&store).await.unwrap_err().contains("cannot write to the session store"));
        }
        assert_eq!(store.calls(), 2);
    }
}
