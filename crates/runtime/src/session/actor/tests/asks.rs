//! Asks that the actor serves itself.

use std::sync::{Arc, Mutex};

use baton_ask::{Close, Configure, ShutDown};
use baton_core::ask::RequestLogin;
use baton_core::policy::territory::Standing;
use baton_core::{Profile, Session};
use baton_protocol::SessionId;
use baton_settings::{OptionsEdit, SettingsEdit};
use baton_store::{Seq, StoreError};

use super::world::{World, gone, note, noted, rename};
use crate::lifecycle::Observer;
use crate::session::Failure;

#[tokio::test(start_paused = true)]
async fn close_of_the_last_client_closes_the_session() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    handle.ask(Close { client: client.id }).await.unwrap();
    assert!(client.closed().await.contains(&"session.shutdown".to_owned()));
    gone(&handle).await;
    assert!(!world.is_live() && world.holder().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn no_grant_covers_files_of_engines() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    let session = handle.inspect().await.unwrap().session;
    let territory = session.durable.territory(&session.live, None);
    assert_eq!(territory.write(&territory.cwd.join("src/main.rs")), Standing::Covered);
    for file in baton_engines::guarded_files() {
        let standing = territory.write(&territory.cwd.join("project").join(file));
        assert!(matches!(standing, Standing::EachTime(_)), "{file}: {standing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn close_of_another_client_detaches_it() {
    let world = World::new();
    let (handle, mut first) = world.create().await;
    let mut second = world.join(&handle).await.unwrap();
    handle.ask(Close { client: first.id }).await.unwrap();
    assert!(!first.closed().await.contains(&"session.shutdown".to_owned()));
    noted(&handle, "still open").await.unwrap();
    second.next("session.info").await;
    assert!(world.is_live());
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_the_hook_of_the_last_client() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    let closed = handle.ask(Close { client: client.id });
    let hook = client.called().await;
    assert_eq!(hook.params["hookType"], "sessionEnd");
    noted(&handle, "the session is open until the hook replies").await.unwrap();
    hook.reply();
    closed.await.unwrap();
    assert!(client.closed().await.contains(&"session.shutdown".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_longer_than_5_seconds_for_a_hook() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    let asked_at = tokio::time::Instant::now();
    let closed = handle.ask(Close { client: client.id });
    let _hook = client.called().await;
    closed.await.unwrap();
    assert_eq!(asked_at.elapsed().as_secs(), 5);
    client.closed().await;
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_the_session_for_all_clients() {
    use baton_protocol::event::ShutdownType;
    let world = World::new();
    let (handle, mut first) = world.create().await;
    let mut second = world.join(&handle).await.unwrap();
    handle.ask(ShutDown { how: ShutdownType::Routine, reason: "test".into() }).await.unwrap();
    for client in [&mut first, &mut second] {
        assert!(client.closed().await.contains(&"session.shutdown".to_owned()));
    }
    let failure = handle.inspect().await.unwrap_err();
    assert!(matches!(failure, Failure::NotFound(_)), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn inspect_sees_everything_that_was_sent_before() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    let head = handle.inspect().await.unwrap().head;
    let (noted, renamed) = (handle.ask(note("1")), handle.ask(rename("name")));
    let view = handle.inspect().await.unwrap();
    assert_eq!(view.head, head.plus(2));
    assert_eq!(view.session.durable.facts.name.as_deref(), Some("name"));
    noted.await.unwrap();
    renamed.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn configure_changes_settings_and_metadata() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    world.store.take_attempts();
    let options = OptionsEdit { client_name: Some("editor".into()), ..OptionsEdit::default() };
    let edit = Box::new(SettingsEdit::Options(Box::new(options)));
    handle.ask(Configure { edit }).await.unwrap();
    assert_eq!(handle.inspect().await.unwrap().settings.client_name.as_deref(), Some("editor"));
    assert!(world.store.take_attempts().is_empty(), "settings are no events");
    noted(&handle, "next write").await.unwrap();
    assert!(world.store.take_attempts()[0].has_meta, "and reach the metadata with the next write");
}

#[tokio::test(start_paused = true)]
async fn session_id_cannot_be_used_twice() {
    let world = World::new();
    let (handle, client) = world.create().await;
    let refused = world.try_create(Profile::default(), world.params()).await.err().unwrap();
    assert!(matches!(refused, Failure::Refused(_)), "{refused}");
    noted(&handle, "still here").await.unwrap();
    handle.ask(Close { client: client.id }).await.unwrap();
    gone(&handle).await;
    let refused = world.try_create(Profile::default(), world.params()).await.err().unwrap();
    assert!(
        matches!(refused, Failure::Store(StoreError::Exists(_))),
        "also while it is only stored: {refused}"
    );
    assert!(!world.is_live());
}

/// The number of pending logins whenever a session was reported.
#[derive(Default)]
struct Logins(Mutex<Vec<usize>>);

impl Observer for Logins {
    fn recorded(&self, session: &Session, _: Seq) {
        self.0.lock().unwrap().push(session.durable.logins.len());
    }

    fn deleted(&self, _: &SessionId) {}
}

#[tokio::test(start_paused = true)]
async fn observers_learn_of_pending_requests_when_a_session_is_opened() {
    let world = World::new();
    let (handle, mut client) = world.create().await;
    let login =
        RequestLogin { server: "m".into(), url: "https://m.example/".into(), reason: "initial".into() };
    handle.ask(login).await.unwrap();
    handle.ask(Close { client: client.id }).await.unwrap();
    client.closed().await;
    gone(&handle).await;
    let seen = Arc::<Logins>::default();
    let observer: Arc<dyn Observer> = seen.clone();
    world.runtime.lifecycle.add_observer(Arc::downgrade(&observer));
    world.open().inspect().await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), [1], "they compare later states with this one");
}
