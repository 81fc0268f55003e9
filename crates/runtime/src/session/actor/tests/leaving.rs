//! Unloading of sessions: when, and what happens to messages that arrive meanwhile.

use std::time::Duration;

use baton_ask::StopCompaction;
use baton_core::Profile;
use baton_protocol::event::{CompactionStart, CompactionTrigger};
use baton_protocol::params::SessionParams;
use baton_protocol::provider::ProviderConfig;
use tokio::sync::{mpsc, oneshot};

use super::world::{World, gone, note, noted, prompt, settle};
use crate::session::actor::LINGER;
use crate::session::{ActorMessage, Compact, Failure};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn idle_session_without_clients_is_unloaded_after_linger() {
    let world = World::new();
    let (handle, client) = world.create().await;
    handle.leave(client.id);
    tokio::time::sleep(LINGER - SECOND).await;
    assert!(world.is_live() && world.holder().await.is_some());
    assert!(
        world.store.take_lease_checks().is_empty(),
        "a session that is about to leave does not check its lease"
    );
    tokio::time::sleep(2 * SECOND).await;
    gone(&handle).await;
    assert!(!world.is_live());
    assert!(world.holder().await.is_none(), "the lease is released");
    let failure = handle.inspect().await.unwrap_err();
    assert!(matches!(failure, Failure::NotFound(_)), "{failure}");
    world.open().inspect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn session_stays_while_a_client_is_attached() {
    let world = World::new();
    let (handle, first) = world.create().await;
    let second = world.join(&handle).await.unwrap();
    handle.leave(first.id);
    tokio::time::sleep(10 * LINGER).await;
    assert!(world.is_live());
    handle.leave(second.id);
    tokio::time::sleep(LINGER / 2).await;
    let third = world.join(&handle).await.unwrap();
    tokio::time::sleep(2 * LINGER).await;
    assert!(world.is_live(), "a client that joins in time keeps it");
    handle.leave(third.id);
    tokio::time::sleep(LINGER + SECOND).await;
    gone(&handle).await;
}

#[tokio::test(start_paused = true)]
async fn session_stays_while_it_is_busy() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    handle.leave(client.id);
    tokio::time::sleep(2 * LINGER).await;
    assert!(world.is_live());
    hook.reply();
    tokio::time::sleep(LINGER + SECOND).await;
    gone(&handle).await;
    assert!(!world.is_live());
}

#[tokio::test(start_paused = true)]
async fn stopping_server_leaves_busy_sessions_to_the_other_servers_of_its_store() {
    let world = World::shared();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    world.runtime.stop().await;
    hook.stopped().await;
    assert!(
        world.holder().await.is_some_and(|holder| holder.busy),
        "they look for busy sessions of dead servers"
    );

    let world = World::shared();
    let (_handle, _client) = world.create().await;
    world.runtime.stop().await;
    assert!(world.holder().await.is_none(), "the lease of an idle session is released");
}

#[tokio::test(start_paused = true)]
async fn session_stays_while_a_compaction_runs() {
    let world = World::new();
    // The model waits for a token of its client, so the compaction runs for as long as the test wants.
    let provider = ProviderConfig {
        base_url: "http://127.0.0.1:9".into(),
        has_bearer_token_provider: Some(true),
        model_id: Some("m".into()),
        ..ProviderConfig::default()
    };
    let params = SessionParams { provider: Some(provider), model: Some("m".into()), ..world.params() };
    let (handle, mut client) = world.create_with(Profile::default(), params).await;
    let (done, _result) = oneshot::channel();
    let start = CompactionStart { trigger: Some(CompactionTrigger::Threshold), ..CompactionStart::default() };
    handle.send(ActorMessage::Compact(Box::new(Compact { start, instructions: None, done }))).unwrap();
    let token = client.called().await;
    handle.leave(client.id);
    tokio::time::sleep(2 * LINGER).await;
    assert!(world.is_live());
    assert!(handle.ask(StopCompaction { manual: false }).await.unwrap());
    token.stopped().await;
    tokio::time::sleep(LINGER - SECOND).await;
    assert!(world.is_live());
    tokio::time::sleep(2 * SECOND).await;
    gone(&handle).await;
    assert!(!world.is_live());
}

#[tokio::test(start_paused = true)]
async fn message_at_the_moment_of_unloading_is_served() {
    let world = World::new();
    let (_handle, client) = world.create().await;
    let (sender, mut inbox) = mpsc::unbounded_channel();
    drop(sender.send(ActorMessage::Leave(client.id)));
    let registry = &world.runtime.registry;
    assert!(matches!(registry.try_remove(&world.id, &mut inbox), Some(ActorMessage::Leave(_))));
    assert!(world.is_live(), "the actor has a message to serve");
    assert!(registry.try_remove(&world.id, &mut inbox).is_none());
    assert!(!world.is_live());
}

#[tokio::test(start_paused = true)]
async fn messages_to_an_unloading_session_reach_the_next_actor_or_fail() {
    let world = World::new();
    let (old, client) = world.create().await;
    world.store.releasing.close();
    old.leave(client.id);
    world.store.releasing.reached().await;
    let asked = old.ask(note("too late"));
    let (joined, ()) = tokio::join!(world.join(&old), async {
        settle().await;
        world.store.releasing.open();
    });
    let mut client = joined.unwrap();
    let failure = asked.await.unwrap_err();
    assert!(matches!(failure, Failure::NotFound(_)), "{failure}");
    let new = world.open();
    assert!(!new.is_same(&old));
    noted(&new, "served").await.unwrap();
    client.next("session.info").await;
}

#[tokio::test(start_paused = true)]
async fn session_can_be_opened_while_its_old_actor_ends() {
    let world = World::new();
    let (old, client) = world.create().await;
    world.store.releasing.close();
    old.leave(client.id);
    world.store.releasing.reached().await;
    let new = world.open();
    noted(&new, "from the new actor").await.unwrap();
    world.store.releasing.open();
    gone(&old).await;
    assert!(world.is_live(), "the old actor removes only itself");
    noted(&new, "and again").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_server_releases_the_session_and_leaves_its_work_pending() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    let prompt = prompt(&handle, "hello").await;
    let hook = client.called().await;
    let head = world.summary().await.head;
    world.runtime.stop().await;
    hook.stopped().await;
    client.closed().await;
    assert_eq!(world.summary().await.head, head, "nothing is written");
    assert!(world.holder().await.is_none());
    let queued = world.open().inspect().await.unwrap().session.durable.inbox;
    assert_eq!(queued.iter().map(|item| item.id).collect::<Vec<_>>(), [prompt]);
}

#[tokio::test(start_paused = true)]
async fn provider_of_a_session_without_clients_outlives_its_actor() {
    let world = World::new();
    let provider = ProviderConfig { base_url: "http://localhost:1/v1".into(), ..ProviderConfig::default() };
    let params = SessionParams { keep: true, provider: Some(provider.clone()), ..world.params() };
    let (handle, client) = world.create_with(Profile::default(), params).await;
    handle.leave(client.id);
    tokio::time::sleep(LINGER + SECOND).await;
    gone(&handle).await;
    assert!(!String::from_utf8_lossy(&world.summary().await.meta).contains("localhost"), "it is not stored");
    assert_eq!(world.open().inspect().await.unwrap().settings.provider, Some(provider));
}

#[tokio::test]
async fn client_that_has_left_is_not_counted_while_the_actor_is_busy() {
    let world = World::new();
    let (handle, client) = world.create().await;
    assert_eq!(handle.hub.clients(), 1);
    // The actor has no chance to run in between: this thread is the only one.
    handle.leave(client.id);
    assert_eq!(handle.hub.clients(), 0);
}
