//! Files that servers share. Stores without shared files pass.

use bytes::Bytes;

use super::{Stores, assert_fenced, create, id, owner};
use crate::Take;
use crate::shared_files::{FileChange, SharedFile};

fn file(path: &str, digest: &str) -> SharedFile {
    SharedFile { path: path.to_owned(), digest: digest.to_owned() }
}

fn put(path: &str, digest: &str, body: &'static [u8]) -> FileChange {
    FileChange::Put { file: file(path, digest), body: Bytes::from_static(body) }
}

pub(super) async fn files_are_read_as_written(stores: &Stores) {
    let (Some(ours), Some(theirs)) = (stores.ours.shared_files(), stores.theirs.shared_files()) else {
        return;
    };
    let lease = create(stores, "s", &[]).await;
    create(stores, "other", &[]).await;
    assert_eq!(ours.list_files(&id("s")).await.unwrap(), []);
    let changes = vec![put("b/ü \"x\"", "2", b"\0\xff"), put("a", "1", b"")];
    ours.change_files(&lease, changes).await.unwrap();
    assert_eq!(theirs.list_files(&id("s")).await.unwrap(), [file("a", "1"), file("b/ü \"x\"", "2")]);
    assert_eq!(theirs.read_file(&id("s"), "b/ü \"x\"").await.unwrap().unwrap(), &b"\0\xff"[..]);
    let changes = vec![put("a", "3", b"new"), FileChange::Delete { path: "b/ü \"x\"".into() }];
    ours.change_files(&lease, changes).await.unwrap();
    assert_eq!(theirs.list_files(&id("s")).await.unwrap(), [file("a", "3")]);
    assert_eq!(theirs.read_file(&id("s"), "a").await.unwrap().unwrap(), &b"new"[..]);
    assert_eq!(theirs.read_file(&id("s"), "b/ü \"x\"").await.unwrap(), None);
    assert_eq!(theirs.list_files(&id("other")).await.unwrap(), [], "each session has its own");
}

pub(super) async fn takeover_fences_changes_of_files(stores: &Stores) {
    let (Some(ours), Some(theirs)) = (stores.ours.shared_files(), stores.theirs.shared_files()) else {
        return;
    };
    let old = create(stores, "s", &[]).await;
    ours.change_files(&old, vec![put("plan", "1", b"old")]).await.unwrap();
    let new = stores.theirs.acquire(&id("s"), owner("theirs"), Take::From(old.epoch)).await.unwrap().lease;
    theirs.change_files(&new, vec![put("plan", "2", b"new")]).await.unwrap();
    assert_fenced(ours.change_files(&old, vec![put("plan", "3", b"late")]).await);
    assert_eq!(ours.read_file(&id("s"), "plan").await.unwrap().unwrap(), &b"new"[..]);
    stores.theirs.release(new.clone()).await.unwrap();
    assert_fenced(theirs.change_files(&new, vec![put("plan", "4", b"released")]).await);
}

pub(super) async fn files_are_deleted_with_their_session(stores: &Stores) {
    let Some(ours) = stores.ours.shared_files() else { return };
    let lease = create(stores, "s", &[]).await;
    ours.change_files(&lease, vec![put("plan", "1", b"x")]).await.unwrap();
    stores.ours.delete(&id("s")).await.unwrap();
    create(stores, "s", &[]).await;
    assert_eq!(ours.list_files(&id("s")).await.unwrap(), []);
}
