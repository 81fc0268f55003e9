//! The contract of all stores, directly and through pgbouncer in transaction mode.

use std::sync::Arc;

use baton_store::contract::{self, Stores};

use crate::support::{Database, store};

const WIPE: &str = "TRUNCATE baton_sessions, baton_events, baton_snapshots, baton_documents";

/// Two servers, each with its own connections; every test starts without sessions.
async fn run(database: &Database, ours: &str, theirs: &str) {
    let (ours, theirs) = (store(ours), store(theirs));
    let admin = database.admin().await;
    ours.check().await.unwrap();
    contract::run_all(async || {
        admin.batch_execute(WIPE).await.unwrap();
        Stores { ours: ours.clone(), theirs: theirs.clone() }
    })
    .await;
    assert!(Arc::strong_count(&ours) >= 1);
    ours.close().await;
    theirs.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn store_keeps_the_contract() {
    let database = Database::create().await;
    run(&database, &database.url(), &database.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn store_keeps_the_contract_through_pgbouncer() {
    let database = Database::create().await;
    run(&database, &database.pooled_url(), &database.url()).await;
    run(&database, &database.pooled_url(), &database.pooled_url()).await;
}
