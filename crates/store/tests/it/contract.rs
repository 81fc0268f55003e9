//! Runs the contract against every store.

use std::path::Path;
use std::sync::Arc;

use baton_store::Store;
use baton_store::contract::{Stores, run_all};
use baton_store::faults::FaultyStore;
use baton_store::memory::MemoryStore;
use baton_store::sqlite::{Durability, SqliteStore};

fn sqlite(directory: &Path, durability: Durability) -> Arc<dyn Store> {
    Arc::new(SqliteStore::new(directory.join("state/baton.db"), durability))
}

#[tokio::test]
async fn memory() {
    run_all(async || Stores::same(Arc::new(MemoryStore::default()))).await;
}

#[tokio::test]
async fn faulty_store_without_a_planned_fault() {
    run_all(async || Stores::same(Arc::new(FaultyStore::new(Arc::new(MemoryStore::default()))))).await;
}

/// Keeps all directories until the end of the run.
async fn run_on_disk(make: impl Fn(&Path) -> Stores) {
    let root = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicU32::new(0);
    run_all(async || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        make(&root.path().join(number.to_string()))
    })
    .await;
}

#[tokio::test]
async fn sqlite_full() {
    run_on_disk(|directory| Stores::same(sqlite(directory, Durability::Full))).await;
}

#[tokio::test]
async fn sqlite_relaxed() {
    run_on_disk(|directory| Stores::same(sqlite(directory, Durability::Relaxed))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_sqlite_file() {
    run_on_disk(|directory| Stores {
        ours: sqlite(directory, Durability::Full),
        theirs: sqlite(directory, Durability::Relaxed),
    })
    .await;
}
