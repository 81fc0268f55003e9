//! The state that a new holder continues from: the newest snapshot and the records after it.

use baton_protocol::Timestamp;
use bytes::Bytes;

use super::{Stores, append, assert_records, create, id, owner, summary};
use crate::{Append, Lease, Opened, Seq, Take};

async fn reopen(stores: &Stores, lease: &Lease) -> Opened {
    stores.theirs.acquire(&lease.session, owner("theirs"), Take::From(lease.epoch)).await.unwrap()
}

fn with_snapshot(snapshot: &'static str, write: Append) -> Append {
    Append { snapshot: Some(Bytes::from_static(snapshot.as_bytes())), ..write }
}

fn snapshot_of(opened: &Opened) -> Option<(u64, &str)> {
    opened.snapshot.as_ref().map(|(seq, body)| (seq.0, std::str::from_utf8(body).unwrap()))
}

fn tail_of(opened: &Opened) -> Vec<(u64, &str)> {
    opened.tail.iter().map(|record| (record.seq.0, std::str::from_utf8(&record.body).unwrap())).collect()
}

pub(super) async fn tail_without_a_snapshot_is_the_whole_history(stores: &Stores) {
    let empty = create(stores, "empty", &[]).await;
    let opened = reopen(stores, &empty).await;
    assert_eq!((opened.head, opened.snapshot, opened.tail), (Seq::ZERO, None, Vec::new()));

    let lease = create(stores, "s", &["a", "b"]).await;
    stores.ours.append(append(&lease, 2, &["c"])).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!((opened.head, snapshot_of(&opened)), (Seq(3), None));
    assert_records(&opened.tail, &["a", "b", "c"]);
}

pub(super) async fn tail_starts_after_the_newest_snapshot(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    stores.ours.append(with_snapshot("of two", append(&lease, 1, &["b"]))).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!(snapshot_of(&opened), Some((2, "of two")));
    assert_eq!(tail_of(&opened), [], "a snapshot covers the records of its own append");

    let lease = opened.lease;
    stores.ours.append(append(&lease, 2, &["c", "d"])).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!(snapshot_of(&opened), Some((2, "of two")));
    assert_eq!(tail_of(&opened), [(3, "c"), (4, "d")]);

    let lease = opened.lease;
    stores.ours.append(with_snapshot("of five", append(&lease, 4, &["e"]))).await.unwrap();
    stores.ours.append(append(&lease, 5, &["f"])).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!(snapshot_of(&opened), Some((5, "of five")));
    assert_eq!((opened.head, tail_of(&opened)), (Seq(6), vec![(6, "f")]));
    assert_records(&super::all_records(&stores.ours, "s").await, &["a", "b", "c", "d", "e", "f"]);
}

pub(super) async fn snapshot_can_be_written_without_records(stores: &Stores) {
    let lease = create(stores, "s", &["a", "b"]).await;
    stores.ours.append(with_snapshot("late", append(&lease, 2, &[]))).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!((snapshot_of(&opened), tail_of(&opened)), (Some((2, "late")), vec![]));

    let empty = create(stores, "empty", &[]).await;
    stores.ours.append(with_snapshot("", append(&empty, 0, &[]))).await.unwrap();
    assert_eq!(
        snapshot_of(&reopen(stores, &empty).await),
        Some((0, "")),
        "an empty snapshot is still a snapshot"
    );
}

pub(super) async fn acquired_session_has_the_written_state(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    let write = Append {
        meta: Some(Bytes::from_static(b"new")),
        modified: Timestamp(5000),
        ..append(&lease, 1, &["b"])
    };
    stores.ours.append(write).await.unwrap();
    let opened = reopen(stores, &lease).await;
    assert_eq!((opened.created, opened.modified), (Timestamp(1000), Timestamp(5000)));
    assert_eq!(&opened.meta[..], b"new");
    assert_eq!(opened.lease.session, id("s"));

    stores.theirs.release(opened.lease).await.unwrap();
    let found = summary(&stores.ours, "s").await;
    assert_eq!(found.modified, Timestamp(5000), "acquiring and releasing a session is not a write");
}
