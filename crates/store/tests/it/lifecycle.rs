//! Creating, opening and closing the file, and files that are refused.

use std::path::Path;

use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Store, StoreError, Take};
use rusqlite::Connection;

use crate::support::{assert_whole, id, new_session, next, owner, read_all, sqlite};

#[tokio::test]
async fn reads_do_not_create_the_file() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("not/there");
    let store = sqlite(&directory.join("baton.db"));
    assert!(store.list().await.unwrap().is_empty());
    assert_eq!(store.summary(&id("s")).await.unwrap(), None);
    assert!(matches!(read_all(&store, "s").await, Err(StoreError::NotFound(_))));
    assert!(matches!(
        store.acquire(&id("s"), owner("ours"), Take::IfFree).await,
        Err(StoreError::NotFound(_))
    ));
    assert!(!store.delete(&id("s")).await.unwrap());
    store.close().await.unwrap();
    assert!(!root.path().join("not").exists());
}

#[tokio::test]
async fn written_state_outlives_the_store() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("deep/down/baton.db");
    for close in [true, false] {
        let store = sqlite(&path);
        let name = format!("closed-{close}");
        let lease = store.create(new_session(&name, 2)).await.unwrap();
        store.append(next(&lease, 2)).await.unwrap();
        if close {
            store.close().await.unwrap();
            assert!(!path.with_extension("db-wal").exists());
        }
        drop(store);
        let again = sqlite(&path);
        assert_eq!(assert_whole(&again, &name).await, 3);
        let holder = again.summary(&id(&name)).await.unwrap().unwrap().holder.unwrap();
        assert_eq!((holder.owner, holder.epoch), (owner("ours"), lease.epoch));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn file_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state/baton.db");
    let store = sqlite(&path);
    store.create(new_session("s", 1)).await.unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("state")), 0o700);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_servers_can_create_the_file_concurrently() {
    for _ in 0..5 {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/baton.db");
        let servers: Vec<_> = (0..6)
            .map(|number| {
                let store = SqliteStore::new(&path, Durability::Relaxed);
                tokio::spawn(async move {
                    store.create(new_session(&format!("s{number}"), 1)).await.map(|_| store)
                })
            })
            .collect();
        let mut stores = Vec::new();
        for server in servers {
            stores.push(server.await.unwrap().unwrap());
        }
        assert_eq!(stores[0].list().await.unwrap().len(), 6);
    }
}

/// Asserts that every call fails with a text that contains this, and none panics.
async fn assert_refused(path: &Path, expected: &str) {
    let store = sqlite(path);
    let errors = [
        store.create(new_session("s", 1)).await.map(drop).unwrap_err(),
        store.list().await.map(drop).unwrap_err(),
        read_all(&store, "s").await.map(drop).unwrap_err(),
        store.acquire(&id("s"), owner("ours"), Take::IfFree).await.map(drop).unwrap_err(),
        store.delete(&id("s")).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Medium { .. }), "{text}");
        assert!(text.contains(expected) && text.contains(&path.display().to_string()), "{text}");
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn file_of_a_newer_version_is_refused_and_left_unchanged() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    let store = sqlite(&path);
    store.create(new_session("s", 1)).await.unwrap();
    store.close().await.unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_refused(&path, "newer Baton (format 999").await;
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn file_of_another_program_is_refused_and_left_unchanged() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("baton.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_refused(&path, "some other program").await;
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn directory_at_the_path_of_the_file_is_reported() {
    let root = tempfile::tempdir().unwrap();
    assert_refused(root.path(), "Check that").await;
}

#[tokio::test]
async fn directory_that_cannot_be_created_is_reported() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "in the way").unwrap();
    let store = sqlite(&root.path().join("file/baton.db"));
    let error = store.create(new_session("s", 1)).await.unwrap_err().to_string();
    assert!(error.contains("Check that the directory can be created"), "{error}");
    std::fs::remove_file(root.path().join("file")).unwrap();
    store.create(new_session("s", 1)).await.unwrap();
}
