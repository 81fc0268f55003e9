//! Results of work on a full disk: retried, and given up after the last retry.

use std::time::Duration;

use baton_store::StoreError;
use baton_store::faults::Fault;

use super::store::Attempt;
use super::world::{World, gone, prompt};
use crate::session::Failure;

/// Returns the times of the attempts after the first failure, in milliseconds.
fn times(attempts: &[Attempt]) -> Vec<u128> {
    let first = attempts.iter().find(|append| append.head.is_none()).unwrap().at;
    attempts
        .iter()
        .filter(|append| append.at >= first)
        .map(|append| (append.at - first).as_millis())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn result_of_work_is_retried_until_it_is_written() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    world.store.take_attempts();
    world.store.faults.plan(Fault::Full);
    hook.reply();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let attempts = world.store.take_attempts();
    assert_eq!(times(&attempts), [0, 100, 500, 1500]);
    assert!(attempts.iter().all(|append| append.kinds[0] == "hook.end" && append.head.is_none()));
    world.store.faults.heal();
    client.reply_to_calls();
    client.next("hook.end").await;
    let attempts = world.store.take_attempts();
    assert!(attempts[0].kinds[0] == "hook.end" && attempts[0].head.is_some());
    client.next("session.idle").await;
    assert!(!handle.inspect().await.unwrap().session.is_busy(), "the turn ended as usual");
}

#[tokio::test(start_paused = true)]
async fn session_gives_up_after_the_last_retry_and_notifies_its_clients() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    let prompt = prompt(&handle, "hello").await;
    let hook = client.called().await;
    world.store.take_attempts();
    world.store.faults.plan(Fault::Full);
    hook.reply();
    let error = client.next("session.error").await;
    assert_eq!(error["errorType"], "storage");
    assert_eq!(times(&world.store.take_attempts()), [0, 100, 500, 1500, 4500, 10500]);
    client.closed().await;
    let failure = handle.inspect().await.unwrap_err();
    assert!(matches!(failure, Failure::Store(StoreError::Medium { .. })), "{failure}");
    gone(&handle).await;
    assert!(!world.is_live());
    world.store.faults.heal();
    let reopened = world.open().inspect().await.unwrap();
    let queued: Vec<_> = reopened.session.durable.inbox.iter().map(|item| item.id).collect();
    assert_eq!(queued, [prompt], "the prompt is pending, as after a crash");
}
