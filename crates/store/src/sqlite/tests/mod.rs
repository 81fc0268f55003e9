//! Tests that need the private parts of the store: batches, query plans, sweeping, a full disk. All others are
//! in `tests/`.

mod backup;
mod batches;
mod storage;

use std::sync::mpsc;
use std::time::Duration;

use baton_protocol::Timestamp;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::*;

/// Limit for conditions that a test polls for: a broken store fails the test instead of hanging it.
const POLL_LIMIT: Duration = Duration::from_secs(60);

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn owner() -> Owner {
    Owner { server: "test".into(), host: "host".into(), boot: "boot".into(), pid: 1, started: 1 }
}

fn record(size: usize) -> NewRecord {
    NewRecord { kind: "kind".into(), body: vec![7; size].into() }
}

fn append(lease: &Lease, expected: u64, records: Vec<NewRecord>) -> Append {
    Append {
        lease: lease.clone(),
        expected: Seq(expected),
        records,
        modified: Timestamp(2),
        meta: None,
        snapshot: None,
        busy: false,
    }
}

/// A store in a temporary directory.
struct Fixture {
    store: Arc<SqliteStore>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::new(directory.path().join("baton.db"), Durability::Relaxed));
        Self { store, _directory: directory }
    }

    async fn create(&self, name: &str, records: Vec<NewRecord>) -> Lease {
        let (session, owner, meta) = (id(name), owner(), Bytes::new());
        let new = NewSession { session, owner, created: Timestamp(1), records, meta, busy: false };
        self.store.create(new).await.unwrap()
    }

    async fn head(&self, name: &str) -> u64 {
        self.store.summary(&id(name)).await.unwrap().unwrap().head.0
    }

    /// Blocks the writer until the returned gate is dropped, so that writes queued meanwhile form one batch.
    async fn block(&self) -> mpsc::Sender<()> {
        let (gate, wait) = mpsc::channel::<()>();
        let (arrived, arrival) = tokio::sync::oneshot::channel();
        let arrived = Mutex::new(Some(arrived));
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            let block = move |_: &Connection| {
                arrived.lock().unwrap().take().unwrap().send(()).unwrap();
                let _ = wait.recv();
                Ok(())
            };
            store.write(0, block).await
        });
        arrival.await.unwrap();
        gate
    }

    fn spawn<T, W>(&self, work: W) -> JoinHandle<Result<T, StoreError>>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.write(0, work).await })
    }

    async fn until_queued(&self, jobs: usize) {
        poll_until(async || self.store.queue().unwrap().waiting() >= jobs).await;
    }
}

/// Polls until the condition holds.
async fn poll_until(mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(POLL_LIMIT, polling).await.expect("the condition never became true");
}
