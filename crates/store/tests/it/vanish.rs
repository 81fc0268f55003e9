//! The file is removed or replaced while the store is in use.

use std::path::{Path, PathBuf};

use baton_store::sqlite::SqliteStore;
use baton_store::{Append, Lease, Seq, Store, StoreError, Take};
use bytes::Bytes;

use crate::support::{assert_whole, id, new_session, next, owner, read_all, sqlite};

struct Home {
    root: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("state/baton.db")
    }

    fn remove(&self) {
        std::fs::remove_dir_all(self.root.path().join("state")).unwrap();
    }
}

/// Creates a held session and a released one.
async fn live_and_idle(store: &SqliteStore) -> Lease {
    let live = store.create(new_session("live", 2)).await.unwrap();
    let snapshot = Some(Bytes::from_static(b"snapshot"));
    store.append(Append { snapshot, busy: true, ..next(&live, 2) }).await.unwrap();
    let idle = store.create(new_session("idle", 2)).await.unwrap();
    store.release(idle).await.unwrap();
    live
}

fn names(summaries: Vec<baton_store::Summary>) -> Vec<String> {
    let mut names: Vec<_> = summaries.into_iter().map(|summary| summary.session.to_string()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn held_session_continues_and_the_rest_is_gone() {
    let home = Home::new();
    let store = sqlite(&home.path());
    let live = live_and_idle(&store).await;
    let before = store.summary(&id("live")).await.unwrap();
    for round in 0..3 {
        home.remove();
        let head = 3 + round;
        assert_eq!(store.append(Append { busy: true, ..next(&live, head) }).await.unwrap(), Seq(head + 1));
        assert_eq!(assert_whole(&store, "live").await, head + 1);
    }
    assert_eq!(names(store.list().await.unwrap()), ["live"]);
    let after = store.summary(&id("live")).await.unwrap().unwrap();
    let before = before.unwrap();
    assert_eq!((after.created, after.meta, after.holder), (before.created, before.meta, before.holder));

    // It is in the new file: another server finds it, with its snapshot.
    drop(store);
    let other = sqlite(&home.path());
    assert_eq!(assert_whole(&other, "live").await, 6);
    let opened = other.acquire(&id("live"), owner("other"), Take::From(live.epoch)).await.unwrap();
    assert_eq!(opened.snapshot, Some((Seq(3), Bytes::from_static(b"snapshot"))));
    assert_eq!(opened.tail.len(), 3);
    assert!(opened.lease.epoch > live.epoch);
}

#[tokio::test]
async fn readers_notice_a_removed_file() {
    let home = Home::new();
    let store = sqlite(&home.path());
    live_and_idle(&store).await;
    assert_eq!(names(store.list().await.unwrap()), ["idle", "live"]);
    home.remove();
    assert_eq!(names(store.list().await.unwrap()), ["live"]);
    home.remove();
    assert_eq!(assert_whole(&store, "live").await, 3);
    assert!(matches!(read_all(&store, "idle").await, Err(StoreError::NotFound(_))));
    assert_eq!(open_but_removed(home.root.path()), 0, "the old files are closed");
}

#[tokio::test]
async fn readers_notice_a_file_created_by_another_server() {
    let home = Home::new();
    let store = sqlite(&home.path());
    live_and_idle(&store).await;
    store.list().await.unwrap();
    home.remove();
    let other = sqlite(&home.path());
    other.create(new_session("other", 1)).await.unwrap();
    assert_eq!(names(store.list().await.unwrap()), ["live", "other"]);
    assert_eq!(names(other.list().await.unwrap()), ["live", "other"]);
}

#[tokio::test]
async fn epochs_continue_in_the_new_file() {
    let home = Home::new();
    let store = sqlite(&home.path());
    store.create(new_session("first", 0)).await.unwrap();
    // As if the clock had been set back since: a new file derives its first epoch from the clock.
    let far = 1_000_000_000_000_i64;
    let file = rusqlite::Connection::open(home.path()).unwrap();
    file.execute("UPDATE epochs SET last = last + ?1", [far]).unwrap();
    drop(file);
    let live = store.create(new_session("live", 0)).await.unwrap();
    home.remove();
    let opened = store.acquire(&id("live"), owner("ours"), Take::From(live.epoch)).await.unwrap();
    assert!(opened.lease.epoch > live.epoch);
}

/// Number of removed files below this directory that this process still has open.
fn open_but_removed(directory: &Path) -> usize {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|target| target.starts_with(directory) && target.to_string_lossy().ends_with(" (deleted)"))
        .count()
}

#[tokio::test]
async fn leftover_log_of_a_removed_file_is_ignored() {
    let home = Home::new();
    let store = sqlite(&home.path());
    let live = live_and_idle(&store).await;
    std::fs::remove_file(home.path()).unwrap();
    store.append(next(&live, 3)).await.unwrap();
    assert_eq!(assert_whole(&store, "live").await, 4);
    assert_eq!(names(store.list().await.unwrap()), ["live"]);
}

#[tokio::test]
async fn each_server_copies_its_own_sessions() {
    let home = Home::new();
    let (one, other) = (sqlite(&home.path()), sqlite(&home.path()));
    let ours = one.create(new_session("ours", 1)).await.unwrap();
    let theirs = other.create(new_session("theirs", 1)).await.unwrap();
    one.create(new_session("lost", 1)).await.map(|lease| one.release(lease)).unwrap().await.unwrap();
    // Held by the same owner, but through a store that was closed.
    let third = sqlite(&home.path());
    third.create(new_session("orphan", 1)).await.unwrap();
    third.close().await.unwrap();

    home.remove();
    one.append(next(&ours, 1)).await.unwrap();
    assert_eq!(names(one.list().await.unwrap()), ["ours"]);
    other.append(next(&theirs, 1)).await.unwrap();
    for store in [&one, &other] {
        assert_eq!(names(store.list().await.unwrap()), ["ours", "theirs"]);
        assert_eq!(assert_whole(store, "ours").await, 2);
        assert_eq!(assert_whole(store, "theirs").await, 2);
    }
}

#[tokio::test]
async fn session_with_the_same_id_in_the_new_file_wins() {
    let home = Home::new();
    let old = sqlite(&home.path());
    let lease = old.create(new_session("s", 5)).await.unwrap();
    home.remove();
    let new = sqlite(&home.path());
    let winner = new.create(new_session("s", 1)).await.unwrap();
    assert!(matches!(old.append(next(&lease, 5)).await, Err(StoreError::Fenced(_))));
    new.append(next(&winner, 1)).await.unwrap();
    assert_eq!(assert_whole(&old, "s").await, 2);
}

#[tokio::test]
async fn closing_after_removal_creates_no_file() {
    let home = Home::new();
    let store = sqlite(&home.path());
    live_and_idle(&store).await;
    home.remove();
    store.close().await.unwrap();
    assert!(!home.path().exists());
}

#[tokio::test]
async fn damaged_file_that_was_moved_away_is_replaced() {
    let home = Home::new();
    let store = sqlite(&home.path());
    // More than fits into the cache.
    let live = store.create(new_session("live", 20_000)).await.unwrap();
    for name in ["baton.db", "baton.db-wal"] {
        let path = home.root.path().join("state").join(name);
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::write(&path, vec![0xAB; usize::try_from(length).unwrap()]).unwrap();
    }
    let error = read_all(&store, "live").await.unwrap_err().to_string();
    assert!(error.contains("Move it away"), "{error}");
    home.remove();
    store.create(new_session("new", 1)).await.unwrap();
    assert_eq!(assert_whole(&store, "new").await, 1);
    assert!(
        matches!(store.append(next(&live, 20_000)).await, Err(StoreError::Fenced(_))),
        "an unreadable session cannot be copied"
    );
}
