//! Leases, epochs and takeover.

use tokio::task::JoinSet;

use super::{
    Stores, all_records, append, assert_fenced, assert_held_by, assert_records, create, id, owner, summary,
};
use crate::{Append, Epoch, Lease, StoreError, Take};

pub(super) async fn held_session_is_refused_with_its_holder(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    for store in [&stores.ours, &stores.theirs] {
        assert_held_by(store.acquire(&id("s"), owner("theirs"), Take::IfFree).await, "ours", lease.epoch);
    }
    stores.ours.append(append(&lease, 1, &["b"])).await.unwrap();
}

pub(super) async fn takeover_fences_the_previous_holder(stores: &Stores) {
    let old = create(stores, "s", &["a"]).await;
    stores.ours.append(Append { busy: true, ..append(&old, 1, &["b"]) }).await.unwrap();
    let opened = stores.theirs.acquire(&id("s"), owner("theirs"), Take::From(old.epoch)).await.unwrap();
    assert!(opened.lease.epoch > old.epoch);
    assert_records(&opened.tail, &["a", "b"]);
    let holder = summary(&stores.ours, "s").await.holder.unwrap();
    assert_eq!((holder.owner, holder.epoch), (owner("theirs"), opened.lease.epoch));
    assert!(!holder.busy, "a new holder is idle until its first write");

    // The previous holder can neither write, with the right head or a wrong one, nor release the session.
    assert_fenced(stores.ours.append(append(&old, 2, &["late"])).await);
    assert_fenced(stores.ours.append(append(&old, 0, &["late"])).await);
    stores.ours.release(old.clone()).await.unwrap();
    assert_eq!(summary(&stores.ours, "s").await.holder.unwrap().epoch, opened.lease.epoch);
    stores.theirs.append(append(&opened.lease, 2, &["c"])).await.unwrap();
    assert_fenced(stores.ours.append(append(&old, 3, &["late"])).await);
    assert_records(&all_records(&stores.ours, "s").await, &["a", "b", "c"]);
}

pub(super) async fn takeover_from_a_stale_epoch_is_refused(stores: &Stores) {
    let first = create(stores, "s", &["a"]).await;
    let second = stores.theirs.acquire(&id("s"), owner("theirs"), Take::From(first.epoch)).await.unwrap();
    let epoch = second.lease.epoch;
    for stale in [first.epoch, Epoch(epoch.0 + 1), Epoch(0)] {
        for take in [Take::From(stale), Take::FromIdle(stale)] {
            assert_held_by(stores.ours.acquire(&id("s"), owner("ours"), take).await, "theirs", epoch);
        }
    }
    stores.theirs.append(append(&second.lease, 1, &["b"])).await.unwrap();
}

pub(super) async fn busy_holder_keeps_its_session(stores: &Stores) {
    let first = create(stores, "s", &["a"]).await;
    stores.ours.append(Append { busy: true, ..append(&first, 1, &[]) }).await.unwrap();
    let take = Take::FromIdle(first.epoch);
    let refused = stores.theirs.acquire(&id("s"), owner("theirs"), take).await;
    assert_held_by(refused, "ours", first.epoch);
    stores.ours.append(append(&first, 1, &["b"])).await.unwrap();

    let second = stores.theirs.acquire(&id("s"), owner("theirs"), take).await.unwrap();
    assert_fenced(stores.ours.append(append(&first, 2, &["late"])).await);
    stores.theirs.append(append(&second.lease, 2, &["c"])).await.unwrap();
}

pub(super) async fn released_session_can_be_acquired(stores: &Stores) {
    let mut lease = create(stores, "s", &[]).await;
    for take in [Take::IfFree, Take::From(lease.epoch), Take::FromIdle(Epoch(0))] {
        stores.ours.append(Append { busy: true, ..append(&lease, 0, &[]) }).await.unwrap();
        stores.ours.release(lease.clone()).await.unwrap();
        assert_eq!(summary(&stores.theirs, "s").await.holder, None);
        assert_fenced(stores.ours.append(append(&lease, 0, &["late"])).await);
        stores.ours.release(lease.clone()).await.unwrap();

        let opened = stores.theirs.acquire(&id("s"), owner("theirs"), take).await.unwrap();
        assert!(opened.lease.epoch > lease.epoch);
        assert_fenced(stores.ours.append(append(&lease, 0, &["late"])).await);
        lease = opened.lease;
    }
}

pub(super) async fn one_of_many_concurrent_takeovers_wins(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    let winner = race(stores, Take::From(lease.epoch)).await;
    assert_fenced(stores.ours.append(append(&lease, 1, &["late"])).await);
    stores.ours.append(append(&winner, 1, &["b"])).await.unwrap();

    let winner = race(stores, Take::FromIdle(winner.epoch)).await;
    stores.ours.release(winner.clone()).await.unwrap();
    let last = race(stores, Take::IfFree).await;
    assert_fenced(stores.ours.append(append(&winner, 2, &["late"])).await);
    stores.ours.append(append(&last, 2, &["c"])).await.unwrap();
    assert_records(&all_records(&stores.ours, "s").await, &["a", "b", "c"]);
}

async fn race(stores: &Stores, take: Take) -> Lease {
    let mut racers = JoinSet::new();
    for number in 0..8 {
        let store = if number % 2 == 0 { &stores.ours } else { &stores.theirs }.clone();
        racers.spawn(async move { store.acquire(&id("s"), owner(&format!("server {number}")), take).await });
    }
    let mut winners = Vec::new();
    for result in racers.join_all().await {
        match result {
            Ok(opened) => winners.push(opened.lease),
            Err(StoreError::Held { .. }) => {}
            Err(other) => panic!("expected a late takeover to be refused as held, got {other}"),
        }
    }
    assert_eq!(winners.len(), 1, "{take:?}: exactly one must win");
    winners.remove(0)
}

pub(super) async fn epochs_never_repeat(stores: &Stores) {
    let mut leases = vec![create(stores, "s", &["a"]).await, create(stores, "other", &[]).await];
    assert!(leases[1].epoch > leases[0].epoch);
    leases.remove(1);
    for round in 0..3 {
        stores.theirs.delete(&id("s")).await.unwrap();
        let again = create(stores, "s", &["b"]).await;
        for old in &leases {
            assert!(again.epoch > old.epoch, "round {round}");
            assert_fenced(stores.ours.append(append(old, 1, &["for a session with the same id"])).await);
            stores.ours.release(old.clone()).await.unwrap();
        }
        assert_eq!(summary(&stores.ours, "s").await.holder.unwrap().epoch, again.epoch);
        leases.push(again);
    }
    assert_records(&all_records(&stores.ours, "s").await, &["b"]);
}

pub(super) async fn missing_session_cannot_be_acquired(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    for take in [Take::IfFree, Take::From(lease.epoch), Take::FromIdle(lease.epoch)] {
        let missing = stores.ours.acquire(&id("missing"), owner("ours"), take).await;
        assert!(matches!(missing, Err(StoreError::NotFound(name)) if name == id("missing")));
    }
    let forged = Lease { session: id("missing"), epoch: lease.epoch };
    assert_fenced(stores.ours.append(append(&forged, 0, &["a"])).await);
    stores.ours.release(forged).await.unwrap();
    let forged = Lease { session: id("s"), epoch: Epoch(u64::MAX) };
    assert_fenced(stores.ours.append(append(&forged, 1, &["a"])).await);
}
