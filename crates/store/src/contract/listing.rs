//! Listing, deleting and probing.

use baton_protocol::Timestamp;

use super::{Stores, all_records, append, assert_fenced, assert_records, create, id, owner, summary};
use crate::{Append, Epoch, Seq, Span, StoreError, Take};

pub(super) async fn list_is_sorted_by_last_write(stores: &Stores) {
    assert_eq!(stores.ours.list().await.unwrap(), []);
    let mut leases = Vec::new();
    for name in ["c", "a", "B", "b"] {
        leases.push(create(stores, name, &[]).await);
    }
    let check = async |expected: [&str; 4]| {
        for store in [&stores.ours, &stores.theirs] {
            let found = store.list().await.unwrap();
            let names: Vec<_> = found.iter().map(|summary| summary.session.as_str()).collect();
            assert_eq!(names, expected);
        }
    };
    check(["B", "a", "b", "c"]).await;
    let touch = |place: usize, time| Append { modified: Timestamp(time), ..append(&leases[place], 0, &[]) };
    stores.ours.append(touch(0, 3000)).await.unwrap();
    check(["c", "B", "a", "b"]).await;
    stores.ours.append(touch(3, 3000)).await.unwrap();
    check(["b", "c", "B", "a"]).await;
    // Times are the writer's: a clock that was set back is accepted as it is.
    stores.ours.append(touch(3, -5)).await.unwrap();
    check(["c", "B", "a", "b"]).await;
}

pub(super) async fn list_equals_the_summaries(stores: &Stores) {
    let lease = create(stores, "s", &["a", "bc"]).await;
    let released = create(stores, "t", &[]).await;
    stores.ours.release(released).await.unwrap();
    stores.ours.append(Append { busy: true, ..append(&lease, 2, &["d"]) }).await.unwrap();
    let expected = vec![summary(&stores.ours, "s").await, summary(&stores.ours, "t").await];
    assert_eq!(stores.theirs.list().await.unwrap(), expected);
}

pub(super) async fn deleted_session_is_gone(stores: &Stores) {
    assert!(!stores.ours.delete(&id("s")).await.unwrap());
    let lease = create(stores, "s", &["a", "b"]).await;
    create(stores, "neighbour", &["n"]).await;
    assert!(stores.theirs.delete(&id("s")).await.unwrap(), "even while it is held");

    for store in [&stores.ours, &stores.theirs] {
        assert_eq!(store.summary(&id("s")).await.unwrap(), None);
        assert_eq!(store.list().await.unwrap().len(), 1);
        let read = store.read(&id("s"), Span::After { after: Seq::ZERO, limit: 9 }).await;
        assert!(matches!(read, Err(StoreError::NotFound(_))));
        let taken = store.acquire(&id("s"), owner("theirs"), Take::From(lease.epoch)).await;
        assert!(matches!(taken, Err(StoreError::NotFound(_))));
        assert!(!store.delete(&id("s")).await.unwrap());
    }
    assert_fenced(stores.ours.append(append(&lease, 2, &["late"])).await);
    stores.ours.release(lease).await.unwrap();
    assert_records(&all_records(&stores.ours, "neighbour").await, &["n"]);
}

pub(super) async fn conditional_delete_respects_the_holder(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    stores.ours.append(Append { busy: true, ..append(&lease, 1, &["b"]) }).await.unwrap();
    let old = Epoch(lease.epoch.0 - 1);
    for take in [Take::IfFree, Take::FromIdle(lease.epoch), Take::From(old)] {
        match stores.theirs.delete_if(&id("s"), take).await {
            Err(StoreError::Held { session, holder }) => {
                assert_eq!((session, holder.epoch), (id("s"), lease.epoch), "{take:?}");
            }
            other => panic!("{take:?}: {other:?}"),
        }
    }
    assert_records(&all_records(&stores.ours, "s").await, &["a", "b"]);
    assert!(stores.theirs.delete_if(&id("s"), Take::From(lease.epoch)).await.unwrap());
    assert!(!stores.theirs.delete_if(&id("s"), Take::IfFree).await.unwrap(), "it is gone");
    assert_fenced(stores.ours.append(append(&lease, 2, &["late"])).await);
}

pub(super) async fn probe_leaves_no_trace(stores: &Stores) {
    stores.ours.probe().await.unwrap();
    assert_eq!(stores.ours.list().await.unwrap(), []);
}

pub(super) async fn id_of_a_deleted_session_can_be_reused(stores: &Stores) {
    let lease = create(stores, "s", &["a", "b"]).await;
    let snapshot = Append { snapshot: Some("old".into()), ..append(&lease, 2, &["c"]) };
    stores.ours.append(snapshot).await.unwrap();
    stores.ours.delete(&id("s")).await.unwrap();

    let lease = create(stores, "s", &["new"]).await;
    assert_eq!(summary(&stores.theirs, "s").await.size, 3);
    let opened = stores.theirs.acquire(&id("s"), owner("theirs"), Take::From(lease.epoch)).await.unwrap();
    assert_eq!(opened.snapshot, None, "the old snapshot is gone");
    assert_records(&opened.tail, &["new"]);
}
