//! Panics of the actor and of work: they are logged with their session, and end neither the server nor the session.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

use baton_ask::ShutDown;
use baton_protocol::event::ShutdownType;
use tokio::sync::oneshot;

use super::world::{On, World, gone, noted, prompt};
use crate::session::Failure;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Log of the test's thread, which runs all of its tasks.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Starts logging, for the whole process: subscribers of single threads can miss entries of others' call sites.
    fn start() -> Self {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            tracing_subscriber::fmt().with_ansi(false).with_writer(|| Self).init();
            tracing::callsite::rebuild_interest_cache();
        });
        Self
    }

    /// Returns the only line with this text.
    fn line(&self, text: &str) -> String {
        let log = LOG.with_borrow(|log| String::from_utf8(log.clone())).unwrap();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
        let [line] = lines[..] else { panic!("{text:?} in {log}") };
        line.to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_actor_is_logged_and_fails_its_asks() {
    let log = Log::start();
    let world = World::new();
    let (handle, mut client) = world.create().await;
    let mut witness = world.join(&handle).await.unwrap();
    client.panic_on(On::Event);
    let failure = noted(&handle, "panics").await.unwrap_err();
    assert!(matches!(failure, Failure::Internal(_)), "{failure}");
    assert_eq!(witness.next("session.error").await["errorType"], "internal");
    client.closed().await;
    gone(&handle).await;
    let failure = handle.inspect().await.unwrap_err();
    assert!(matches!(failure, Failure::Internal(_)), "later asks learn the same: {failure}");
    let line = log.line("session panicked");
    assert!(line.contains("session{session=s1}") && line.contains("planned panic"), "{line}");
    let reopened = world.open();
    noted(&reopened, "works").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_actor_stops_its_work_and_releases_the_lease() {
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    prompt(&handle, "hello").await;
    let hook = client.called().await;
    client.panic_on(On::Event);
    noted(&handle, "panics").await.unwrap_err();
    hook.stopped().await;
    gone(&handle).await;
    assert!(world.holder().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_actor_fails_an_ask_that_it_was_serving() {
    let world = World::new();
    let (handle, client) = world.create().await;
    client.panic_on(On::Event);
    let (sender, receiver) = oneshot::channel();
    let ask = ShutDown { how: ShutdownType::Routine, reason: "test".into() };
    handle.ask_then(ask, move |reply| drop(sender.send(reply))).unwrap();
    let reply = receiver.await.unwrap();
    assert!(matches!(reply, Err(Failure::Internal(_))), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn panic_of_work_is_logged_with_its_session_and_turn() {
    let log = Log::start();
    let world = World::new();
    let (handle, mut client) = world.create_with_hooks().await;
    client.panic_on(On::Call);
    let prompt = prompt(&handle, "hello").await;
    client.reply_to_calls();
    client.next("session.idle").await;
    let line = log.line("work panicked");
    let spans = format!("session{{session=s1}}:turn{{turn=\"{prompt}\"}}:work{{kind=\"prepare_prompt\"}}");
    assert!(line.contains(&spans) && line.contains("planned panic"), "{line}");
}
