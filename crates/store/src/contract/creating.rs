//! Creating sessions.

use baton_protocol::{SessionId, Timestamp};
use tokio::task::JoinSet;

use super::{Stores, all_records, append, assert_records, create, id, new_session, owner, summary};
use crate::{Holder, Seq, StoreError};

pub(super) async fn new_session_is_complete_and_held(stores: &Stores) {
    let lease = stores.ours.create(new_session("s", &["a", "b"])).await.unwrap();
    assert_eq!(lease.session, id("s"));
    for store in [&stores.ours, &stores.theirs] {
        let found = summary(store, "s").await;
        assert_eq!((found.session, found.head, found.size), (id("s"), Seq(2), 2));
        assert_eq!((found.created, found.modified), (Timestamp(1000), Timestamp(1000)));
        assert_eq!(&found.meta[..], b"meta");
        assert_eq!(found.holder, Some(Holder { owner: owner("ours"), epoch: lease.epoch, busy: false }));
        assert_records(&all_records(store, "s").await, &["a", "b"]);
    }
    stores.ours.append(append(&lease, 2, &["c"])).await.unwrap();

    let busy = super::NewSession { busy: true, ..new_session("busy", &[]) };
    stores.ours.create(busy).await.unwrap();
    assert!(summary(&stores.theirs, "busy").await.holder.unwrap().busy);
}

pub(super) async fn session_can_start_without_records(stores: &Stores) {
    let lease = create(stores, "s", &[]).await;
    assert_eq!(summary(&stores.ours, "s").await.head, Seq::ZERO);
    assert_eq!(stores.ours.append(append(&lease, 0, &["a"])).await.unwrap(), Seq(1));
}

pub(super) async fn duplicate_id_is_refused(stores: &Stores) {
    let lease = create(stores, "s", &["a"]).await;
    for store in [&stores.ours, &stores.theirs] {
        let again = store.create(new_session("s", &["x", "y"])).await;
        assert!(matches!(again, Err(StoreError::Exists(name)) if name == id("s")));
    }
    assert_records(&all_records(&stores.ours, "s").await, &["a"]);
    stores.ours.append(append(&lease, 1, &["b"])).await.unwrap();
}

pub(super) async fn one_of_many_concurrent_creators_wins(stores: &Stores) {
    let mut racers = JoinSet::new();
    for number in 0..8 {
        let store = if number % 2 == 0 { &stores.ours } else { &stores.theirs }.clone();
        racers.spawn(async move { store.create(new_session("s", &["a"])).await });
    }
    let results = racers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_records(&all_records(&stores.ours, "s").await, &["a"]);
}

pub(super) async fn every_valid_id_works(stores: &Stores) {
    let longest = "x".repeat(SessionId::MAX_LEN);
    let names =
        ["a", "A", "1", "0x10", "-", "~", "a.b:c@d+e~f_g-h", "NULL", "sqlite_master", longest.as_str()];
    for name in names {
        create(stores, name, &["a"]).await;
    }
    for name in names {
        assert_eq!(summary(&stores.theirs, name).await.session, id(name));
        assert_records(&all_records(&stores.theirs, name).await, &["a"]);
    }
    assert_eq!(stores.theirs.list().await.unwrap().len(), names.len());
}

pub(super) async fn future_that_is_not_polled_does_nothing(stores: &Stores) {
    drop(stores.ours.create(new_session("never", &["a"])));
    assert_eq!(stores.ours.summary(&id("never")).await.unwrap(), None);

    let lease = create(stores, "s", &["a"]).await;
    drop(stores.ours.append(append(&lease, 1, &["b"])));
    drop(stores.ours.release(lease.clone()));
    drop(stores.ours.delete(&id("s")));
    assert_eq!(stores.ours.append(append(&lease, 1, &["c"])).await.unwrap(), Seq(2));
    assert_records(&all_records(&stores.ours, "s").await, &["a", "c"]);
}
