//! Readiness: whether the store can be written. The check needs no token, so the store is probed at most once per second.

use std::time::{Duration, Instant};

use baton_store::Store;
use tokio::sync::Mutex;

/// Age at which a result is too old to be reused.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The last result of the probe, with its time.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// Checks that a store can be written. Returns the store's error if it cannot.
    pub(crate) async fn check(&self, store: &dyn Store) -> Result<(), String> {
        // Held during the probe: concurrent checks wait for the same result.
        let mut last = self.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < MAX_AGE
        {
            return result.clone();
        }
        let result = store.probe().await.map_err(|error| error.to_string());
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use baton_store::faults::{Fault, FaultyStore};
    use baton_store::memory::MemoryStore;

    #[tokio::test]
    async fn unwritable_store_is_not_ready_and_is_probed_once() {
        let store = FaultyStore::new(Arc::new(MemoryStore::default()));
        assert_eq!(Readiness::default().check(&store).await, Ok(()));
        store.plan(Fault::From(0));
        let readiness = Readiness::default();
        for _ in 0..100 {
            assert!(readiness.check(&store).await.unwrap_err().contains("cannot write to the session store"));
        }
        assert_eq!(store.calls(), 2);
    }
}
