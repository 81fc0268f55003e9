//! Durable first: replies, events and state follow the store.

use std::pin::pin;

use baton_core::ask::Amend;
use baton_history::owner;
use baton_store::faults::Fault;
use baton_store::{Store, StoreError, Take};
use futures_util::future::join_all;
use futures_util::poll;

use super::world::{World, gone, note, noted, rename, settle};
use crate::session::Failure;
use crate::session::actor::{BATCH, LINGER};

#[tokio::test(start_paused = true)]
async fn ask_is_replied_to_only_after_its_events_are_durable() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    client.arrived();
    let head = world.summary().await.head;
    world.store.appending.close();
    let mut reply = pin!(handle.ask(note("hello")));
    assert!(poll!(&mut reply).is_pending());
    world.store.appending.reached().await;
    settle().await;
    assert!(poll!(&mut reply).is_pending(), "replied before the append");
    assert!(client.arrived().is_empty(), "published before the append");
    assert_eq!(world.summary().await.head, head);
    world.store.appending.open();
    reply.await.unwrap();
    assert_eq!(world.summary().await.head, head.plus(1));
    assert_eq!(client.arrived(), ["session.info"]);
}

#[tokio::test(start_paused = true)]
async fn refused_write_fails_the_ask_and_changes_nothing() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    client.arrived();
    let before = handle.inspect().await.unwrap();
    world.store.faults.plan(Fault::Full);
    let failure = handle.ask(rename("lost")).await.unwrap_err();
    assert!(matches!(failure, Failure::Store(StoreError::Medium { .. })), "{failure}");
    let after = handle.inspect().await.unwrap();
    assert_eq!((after.session.durable, after.head), (before.session.durable, before.head));
    assert!(client.arrived().is_empty(), "clients see nothing of it");
    world.store.faults.heal();
    handle.ask(rename("found")).await.unwrap();
    let after = handle.inspect().await.unwrap();
    assert_eq!(after.session.durable.facts.name.as_deref(), Some("found"));
    assert_eq!(after.head, before.head.plus(1));
    assert_eq!(world.summary().await.head, after.head);
}

#[tokio::test(start_paused = true)]
async fn refused_write_does_not_attach_the_client() {
    let world = World::new();
    let (handle, _first) = world.create().await;
    world.store.faults.plan(Fault::Full);
    let failure = world.join(&handle).await.err().unwrap();
    assert!(matches!(failure, Failure::Store(StoreError::Medium { .. })), "{failure}");
    assert_eq!(handle.inspect().await.unwrap().session.live.clients.len(), 1);
    world.store.faults.heal();
    let _second = world.join(&handle).await.unwrap();
    assert_eq!(handle.inspect().await.unwrap().session.live.clients.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn asks_that_arrive_together_share_one_write() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    world.store.take_attempts();
    let asks =
        |count: usize| join_all((0..count).map(|n| handle.ask(note(&n.to_string()))).collect::<Vec<_>>());
    assert!(asks(BATCH).await.iter().all(Result::is_ok));
    let attempts = world.store.take_attempts();
    assert_eq!(attempts.iter().map(|append| append.kinds.len()).collect::<Vec<_>>(), [BATCH]);
    assert!(asks(BATCH + 1).await.iter().all(Result::is_ok));
    let attempts = world.store.take_attempts();
    assert_eq!(attempts.iter().map(|append| append.kinds.len()).collect::<Vec<_>>(), [BATCH, 1]);
}

#[tokio::test(start_paused = true)]
async fn refused_write_fails_every_ask_of_its_batch() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    world.store.take_attempts();
    world.store.faults.plan(Fault::Full);
    let asks: Vec<_> = (0..3).map(|n| handle.ask(note(&n.to_string()))).collect();
    assert!(join_all(asks).await.iter().all(Result::is_err));
    assert_eq!(world.store.take_attempts().len(), 1, "no retry: the callers wait");
}

#[tokio::test(start_paused = true)]
async fn actor_ends_when_a_write_happened_whose_acknowledgement_was_lost() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    world.store.lose_acknowledgement();
    let first = noted(&handle, "written").await.unwrap_err();
    assert!(matches!(first, Failure::Store(StoreError::Medium { .. })), "{first}");
    let second = noted(&handle, "refused").await.unwrap_err();
    assert!(matches!(second, Failure::Store(StoreError::OutOfStep { .. })), "{second}");
    client.closed().await;
    gone(&handle).await;
    let reopened = world.open();
    let head = world.summary().await.head;
    noted(&reopened, "again").await.unwrap();
    assert_eq!(reopened.inspect().await.unwrap().head, head.plus(1));
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_written_every_128_events() {
    let world = World::new();
    let (handle, client) = world.create().await;
    for _ in 0..300 {
        noted(&handle, "event").await.unwrap();
    }
    let heads = |snapshots: Vec<super::store::Attempt>| -> Vec<u64> {
        snapshots.into_iter().filter(|append| append.has_snapshot).filter_map(|append| append.head).collect()
    };
    assert_eq!(heads(world.store.take_attempts()), [128, 256]);
    let durable = handle.inspect().await.unwrap().session.durable;
    handle.leave(client.id);
    tokio::time::sleep(2 * LINGER).await;
    gone(&handle).await;
    let opened = world.store.memory.acquire(&world.id, owner::this_process(), Take::IfFree).await.unwrap();
    assert_eq!(opened.snapshot.as_ref().map(|(seq, _)| seq.0), Some(256));
    assert_eq!(opened.tail.len() as u64, durable.seq - 256);
    world.store.memory.release(opened.lease).await.unwrap();
    let handle = world.open();
    assert_eq!(
        handle.inspect().await.unwrap().session.durable,
        durable,
        "the same state from snapshot and tail"
    );
    for _ in durable.seq..400 {
        noted(&handle, "event").await.unwrap();
    }
    assert_eq!(heads(world.store.take_attempts()), [384], "counted from the stored snapshot");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_written_only_when_it_changed() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    world.store.take_attempts();
    let asks: [Amend; 5] = [note("1"), rename("name"), note("2"), rename("other"), note("3")];
    for ask in asks {
        handle.ask(ask).await.unwrap();
    }
    let written: Vec<bool> = world.store.take_attempts().iter().map(|append| append.has_meta).collect();
    assert_eq!(written, [false, true, false, true, false]);
    assert!(String::from_utf8_lossy(&world.summary().await.meta).contains("other"));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_a_refused_write_is_written_with_the_next() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    world.store.faults.plan(Fault::Full);
    handle.ask(rename("name")).await.unwrap_err();
    world.store.faults.heal();
    world.store.take_attempts();
    handle.ask(rename("name")).await.unwrap();
    assert!(world.store.take_attempts().iter().all(|append| append.has_meta && append.head.is_some()));
}
