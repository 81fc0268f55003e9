//! Appending to a held session.

use baton_protocol::Timestamp;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{Stores, all_records, append, assert_records, create, id, new_session, summary};
use crate::{Append, NewRecord, NewSession, Seq, StoreError};

pub(super) async fn sequence_numbers_have_no_gaps(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    assert_eq!(stores.ours.append(append(&lease, 1, &["b", "c"])).await.unwrap(), Seq(3));
    // A refused write leaves no gap.
    stores.ours.append(append(&lease, 1, &["x"])).await.unwrap_err();
    assert_eq!(stores.ours.append(append(&lease, 3, &["d"])).await.unwrap(), Seq(4));
    assert_records(&all_records(&stores.theirs, "s").await, &["a", "b", "c", "d"]);
}

pub(super) async fn wrong_expected_head_is_refused(stores: &Stores) {
    let lease = create(stores, "s", &["a", "b"]).await;
    let before = summary(&stores.ours, "s").await;
    for wrong in [0, 1, 3, u64::MAX] {
        let refused = Append {
            meta: Some(Bytes::from_static(b"wrong")),
            snapshot: Some(Bytes::from_static(b"wrong")),
            busy: true,
            ..append(&lease, wrong, &["x"])
        };
        match stores.ours.append(refused).await {
            Err(StoreError::OutOfStep { session, expected, actual }) => {
                assert_eq!((session, expected, actual), (id("s"), Seq(wrong), Seq(2)));
            }
            other => panic!("expected the wrong head to be refused, got {other:?}"),
        }
    }
    assert_eq!(summary(&stores.theirs, "s").await, before, "a refused write has no effect");
    stores.ours.release(lease).await.unwrap();
    let opened = stores.ours.acquire(&id("s"), super::owner("next"), crate::Take::IfFree).await.unwrap();
    assert_eq!(opened.snapshot, None);
    assert_records(&opened.tail, &["a", "b"]);
}

pub(super) async fn append_without_records_updates_the_rest(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    let change = Append {
        meta: Some(Bytes::from_static(b"new")),
        busy: true,
        modified: Timestamp(3000),
        ..append(&lease, 1, &[])
    };
    assert_eq!(stores.ours.append(change).await.unwrap(), Seq(1));
    let found = summary(&stores.theirs, "s").await;
    assert_eq!((found.head, found.size, found.modified), (Seq(1), 1, Timestamp(3000)));
    assert_eq!(&found.meta[..], b"new");
    assert!(found.holder.unwrap().busy);

    stores.ours.append(append(&lease, 1, &[])).await.unwrap();
    let found = summary(&stores.theirs, "s").await;
    assert_eq!(&found.meta[..], b"new", "an append without metadata keeps the old one");
    assert!(!found.holder.unwrap().busy);
}

pub(super) async fn arbitrary_bytes_are_preserved(stores: &Stores) {
    let lease = create(stores, "s", &[]).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = every_byte.repeat(20 * 1024);
    let kinds = ["", "plain", "with\0zero", "ünï\u{2028}code"];
    let bodies = [Vec::new(), vec![0], b"\0\0text\0".to_vec(), every_byte.clone(), large.clone()];
    let records: Vec<_> = kinds
        .iter()
        .flat_map(|kind| {
            bodies.iter().map(|body| NewRecord { kind: (*kind).to_owned(), body: body.clone().into() })
        })
        .collect();
    let write = Append {
        records: records.clone(),
        meta: Some(every_byte.clone().into()),
        snapshot: Some(large.clone().into()),
        ..append(&lease, 0, &[])
    };
    stores.ours.append(write).await.unwrap();

    let found = all_records(&stores.theirs, "s").await;
    assert_eq!(found.len(), records.len());
    for (found, written) in found.iter().zip(&records) {
        assert_eq!(found.kind, written.kind);
        assert!(found.body == written.body, "a body of {} bytes was changed", written.body.len());
    }
    assert_eq!(&summary(&stores.theirs, "s").await.meta[..], every_byte);
    stores.ours.release(lease).await.unwrap();
    let opened = stores.theirs.acquire(&id("s"), super::owner("theirs"), crate::Take::IfFree).await.unwrap();
    assert!(opened.snapshot.is_some_and(|(seq, body)| seq == opened.head && body == large));
}

pub(super) async fn size_is_the_sum_of_body_lengths(stores: &Stores) {
    let lease = create(stores, "s", &["12345", ""]).await;
    assert_eq!(summary(&stores.ours, "s").await.size, 5);
    let write =
        Append { snapshot: Some(Bytes::from_static(b"not counted")), ..append(&lease, 2, &["123", "1"]) };
    stores.ours.append(write).await.unwrap();
    assert_eq!(summary(&stores.ours, "s").await.size, 9);
    create(stores, "other", &["1234567"]).await;
    assert_eq!(summary(&stores.ours, "s").await.size, 9);
}

pub(super) async fn sessions_append_concurrently(stores: &Stores) {
    let mut writers = JoinSet::new();
    for number in 0..24 {
        let store = if number % 2 == 0 { &stores.ours } else { &stores.theirs }.clone();
        writers.spawn(async move {
            let lease = store.create(new_session(&format!("s{number}"), &["a"])).await.unwrap();
            for place in 1..8 {
                assert_eq!(store.append(append(&lease, place, &["a"])).await.unwrap(), Seq(place + 1));
            }
        });
    }
    writers.join_all().await;
    for number in 0..24 {
        assert_records(&all_records(&stores.ours, &format!("s{number}")).await, &["a"; 8]);
    }
}

pub(super) async fn one_of_many_appends_at_the_same_head_wins(stores: &Stores) {
    let lease = stores.ours.create(NewSession { busy: true, ..new_session("s", &["a"]) }).await.unwrap();
    let mut racers = JoinSet::new();
    for _ in 0..8 {
        let (store, write) = (stores.ours.clone(), append(&lease, 1, &["b"]));
        racers.spawn(async move { store.append(write).await });
    }
    let results = racers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_records(&all_records(&stores.ours, "s").await, &["a", "b"]);
}
