//! Retention deletes old sessions that nobody uses, and no others.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use baton_history::owner;
use baton_protocol::Timestamp;
use baton_runtime::{Options, Runtime};
use baton_store::memory::MemoryStore;
use baton_store::{NewRecord, NewSession, Owner, Store};
use bytes::Bytes;

const PROMPTED: &str = r#"{"type":"baton.prompt_accepted","data":{"promptId":"0190c2f0-0000-7000-8000-00000000000a","prompt":{"text":"hello"}},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}"#;

async fn add(store: &MemoryStore, name: &str, created: Timestamp, owner: Owner, body: &'static str) {
    let kind = if body.is_empty() { "x" } else { "baton.prompt_accepted" };
    let records = vec![NewRecord { kind: kind.into(), body: Bytes::from_static(body.as_bytes()) }];
    let session = name.parse().unwrap();
    let new = NewSession { session, owner, created, records, meta: Bytes::new(), busy: false };
    store.create(new).await.unwrap();
}

#[tokio::test]
async fn only_old_sessions_that_nobody_uses_are_deleted() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::default());
    let options = Options::new("test", home.path(), home.path());
    let runtime = Runtime::new(options, store.clone());
    let dead = || Owner { boot: "another".into(), ..owner::this_process() };
    let old = Timestamp(1);
    add(&store, "old", old, dead(), "").await;
    add(&store, "new", Timestamp::now(), dead(), "").await;
    add(&store, "open-elsewhere", old, owner::this_process(), "").await;
    add(&store, "with-a-queue", old, dead(), PROMPTED).await;
    add(&store, "in-memory", old, dead(), "").await;
    let handle = runtime.registry.open(&runtime, &"in-memory".parse().unwrap());
    handle.inspect().await.unwrap();
    let files = home.path().join("session-state/old");
    std::fs::create_dir_all(&files).unwrap();

    let keep = Duration::from_secs(24 * 3600);
    let deleted = runtime.delete_sessions_older_than(keep).await.unwrap();
    assert_eq!(deleted, ["old".parse().unwrap()]);
    assert!(!files.exists(), "its files are deleted, too");
    let left = store.list().await.unwrap();
    assert_eq!(left.len(), 4);
    let queue = left.iter().find(|summary| summary.session.as_str() == "with-a-queue").unwrap();
    assert_eq!((queue.modified, &queue.holder), (old, &None), "looking at it changes nothing");
    assert!(runtime.delete_sessions_older_than(keep).await.unwrap().is_empty());
}
