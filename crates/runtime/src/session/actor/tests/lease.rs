//! The lease: checked while the session lives, and the end of the actor when it is lost.

use std::time::Duration;

use baton_store::StoreError;
use baton_store::faults::Fault;

use super::world::{World, gone, noted, prompt};
use crate::session::Failure;
use crate::session::actor::LINGER;

fn is_fenced(failure: &Failure) -> bool {
    matches!(failure, Failure::Store(StoreError::Fenced(_)))
}

#[tokio::test(start_paused = true)]
async fn fenced_ask_fails_and_ends_the_actor_with_its_work() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    world.take_over().await;
    let failure = noted(&handle, "too late").await.unwrap_err();
    assert!(is_fenced(&failure), "{failure}");
    assert_eq!(client.next("session.error").await["errorType"], "taken_over");
    client.closed().await;
    hook.stopped().await;
    gone(&handle).await;
    assert!(!world.is_live());
    let failure = noted(&handle, "later still").await.unwrap_err();
    assert!(is_fenced(&failure), "{failure}");
    assert!(world.holder().await.is_some(), "the lease of the other server stays");
}

#[tokio::test(start_paused = true)]
async fn busy_session_checks_its_lease_every_3_seconds() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.store.take_lease_checks(), [3, 6, 9]);
    world.take_over().await;
    assert_eq!(client.next("session.error").await["errorType"], "taken_over");
    assert_eq!(world.store.take_lease_checks(), [12]);
    hook.stopped().await;
    client.closed().await;
    assert!(is_fenced(&handle.inspect().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn idle_session_with_a_client_checks_its_lease_every_10_seconds() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(world.store.take_lease_checks(), [10, 20, 30]);
    world.take_over().await;
    assert_eq!(client.next("session.error").await["errorType"], "taken_over");
    assert_eq!(world.store.take_lease_checks(), [40]);
    client.closed().await;
    assert!(is_fenced(&handle.inspect().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn deleted_session_ends_with_the_next_lease_check() {
    use baton_store::Store;
    let world = World::new();
    let (handle, mut client) = world.create().await;
    world.store.memory.delete(&world.id).await.unwrap();
    assert_eq!(client.next("session.error").await["errorType"], "taken_over");
    client.closed().await;
    assert!(is_fenced(&handle.inspect().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn unreadable_store_does_not_end_the_session() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    world.store.faults.plan(Fault::From(0));
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(world.store.take_lease_checks(), [10, 20]);
    world.store.faults.heal();
    noted(&handle, "still here").await.unwrap();
    client.next("session.info").await;
}

#[tokio::test(start_paused = true)]
async fn client_that_attaches_to_a_fenced_session_gets_the_next_actor() {
    let world = World::new();
    let (old, mut client) = world.create().await;
    world.take_over().await;
    let mut second = world.join(&old).await.unwrap();
    assert_eq!(client.next("session.error").await["errorType"], "taken_over");
    client.closed().await;
    let new = world.open();
    assert!(!new.is_same(&old));
    noted(&new, "from the next actor").await.unwrap();
    second.next("session.info").await;
}

#[tokio::test(start_paused = true)]
async fn session_that_another_server_works_on_is_not_opened() {
    use baton_store::{Append, Store, Take};
    let world = World::new();
    let (handle, client) = world.create().await;
    handle.leave(client.id);
    tokio::time::sleep(2 * LINGER).await;
    gone(&handle).await;
    let other = baton_history::owner::this_process();
    let opened = world.store.memory.acquire(&world.id, other, Take::IfFree).await.unwrap();
    let busy = Append {
        lease: opened.lease,
        expected: opened.head,
        records: Vec::new(),
        modified: baton_protocol::Timestamp::now(),
        meta: None,
        snapshot: None,
        busy: true,
    };
    world.store.memory.append(busy).await.unwrap();
    let handle = world.open();
    let failure = handle.inspect().await.unwrap_err();
    assert!(matches!(failure, Failure::Store(StoreError::Held { .. })), "{failure}");
    let failure = handle.inspect().await.unwrap_err();
    assert!(
        matches!(failure, Failure::Store(StoreError::Held { .. })),
        "later asks learn the same: {failure}"
    );
    assert!(!world.is_live());
}
