//! The injected faults, and their intended use: one at every call in turn.

use std::sync::Arc;

use baton_store::faults::{Fault, FaultyStore};
use baton_store::memory::MemoryStore;
use baton_store::{Lease, Seq, Store, StoreError, Take};

use crate::support::{assert_whole, id, new_session, next, owner};

fn faulty() -> FaultyStore {
    FaultyStore::new(Arc::new(MemoryStore::default()))
}

async fn lease_of(store: &FaultyStore, name: &str) -> Lease {
    store.create(new_session(name, 0)).await.unwrap()
}

#[tokio::test]
async fn fault_before_a_call_prevents_it_and_fault_after_hides_it() {
    let store = faulty();
    let lease = lease_of(&store, "s").await;
    store.plan(Fault::Before(2));
    assert!(matches!(store.append(next(&lease, 0)).await, Err(StoreError::Medium { .. })));
    assert_eq!(store.append(next(&lease, 0)).await.unwrap(), Seq(1), "the first attempt had no effect");

    store.plan(Fault::After(4));
    assert!(matches!(store.append(next(&lease, 1)).await, Err(StoreError::Medium { .. })));
    let again = store.append(next(&lease, 1)).await;
    assert!(
        matches!(again, Err(StoreError::OutOfStep { actual: Seq(2), .. })),
        "the first attempt took effect: {again:?}"
    );
    assert_eq!(store.calls(), 5);
}

#[tokio::test]
async fn lost_acknowledgement_does_not_hide_a_refusal() {
    let store = faulty();
    let lease = lease_of(&store, "s").await;
    store.plan(Fault::After(2));
    assert!(matches!(store.append(next(&lease, 7)).await, Err(StoreError::OutOfStep { .. })));
}

#[tokio::test]
async fn full_disk_stays_full_until_healed() {
    let store = faulty();
    let lease = lease_of(&store, "s").await;
    store.plan(Fault::From(3));
    store.append(next(&lease, 0)).await.unwrap();
    for _ in 0..3 {
        let error = store.append(next(&lease, 1)).await.unwrap_err().to_string();
        assert!(error.contains("planned to fail"), "{error}");
        assert!(store.list().await.is_err());
    }
    store.heal();
    assert_eq!(store.append(next(&lease, 1)).await.unwrap(), Seq(2));
}

/// Retries every call whose effect is unknown, and so survives a fault at any call.
async fn write_with_retries(store: &FaultyStore) {
    let lease = loop {
        match store.create(new_session("s", 0)).await {
            Ok(lease) => break lease,
            Err(StoreError::Exists(_)) => {
                // The acknowledgement was lost, and with it the epoch: look up the holder, which is this
                // process, and take over from it.
                let Ok(Some(summary)) = store.summary(&id("s")).await else { continue };
                let take = summary.holder.map_or(Take::IfFree, |holder| Take::From(holder.epoch));
                if let Ok(opened) = store.acquire(&id("s"), owner("ours"), take).await {
                    break opened.lease;
                }
            }
            Err(StoreError::Medium { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    };
    let mut head = 0;
    while head < 3 {
        match store.append(next(&lease, head)).await {
            Ok(seq) => head = seq.0,
            Err(StoreError::OutOfStep { actual, .. }) => head = actual.0,
            Err(StoreError::Medium { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    while store.release(lease.clone()).await.is_err() {}
}

#[tokio::test]
async fn retrying_writer_survives_a_fault_at_every_call() {
    let store = faulty();
    write_with_retries(&store).await;
    let calls = store.calls();
    assert_eq!(calls, 5);
    for call in 1..=calls {
        for fault in [Fault::Before(call), Fault::After(call)] {
            let store = faulty();
            store.plan(fault);
            write_with_retries(&store).await;
            assert!(store.calls() > calls, "{fault:?} caused no retry");
            store.heal();
            assert_eq!(assert_whole(&store, "s").await, 3, "{fault:?}");
            assert_eq!(store.summary(&id("s")).await.unwrap().unwrap().holder, None, "{fault:?}");
        }
    }
}
