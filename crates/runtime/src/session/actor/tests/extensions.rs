//! When the runtime has extensions started and ended, for clients of all servers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use baton_ask::extensions::{
    ExtensionEntry, ExtensionStatus, ExtensionsAsk, ExtensionsReply, ListExtensions, StartExtensions,
};
use baton_ask::{Ask, Close};
use baton_core::Profile;
use baton_protocol::ClientId;

use super::links::{CLIENT, join, link};
use super::world::World;
use crate::extension_host::{Awaited, ExtensionHost};
use crate::session::Handle;
use crate::session::remote::{FromOwner, ToOwner};

/// Notes what it is asked for.
#[derive(Default)]
struct NotingHost(Mutex<Vec<String>>);

impl NotingHost {
    fn new(world: &World) -> Arc<Self> {
        let host = Arc::<Self>::default();
        world.runtime.host_extensions(host.clone());
        host
    }

    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ExtensionHost for NotingHost {
    fn start(&self, _: &Handle, client: ClientId, _: Option<PathBuf>) -> Awaited<()> {
        self.note(format!("start {client}"));
        Box::pin(async {})
    }

    fn release(&self, _: &Handle, client: ClientId) {
        self.note(format!("release {client}"));
    }

    fn end(&self, _: &Handle) {
        self.note("end".into());
    }

    fn serve(&self, _: &Handle, _: ExtensionsAsk) -> Awaited<Result<ExtensionsReply, String>> {
        Box::pin(async { Ok(ExtensionsReply::ListExtensions(Box::new(vec![entry()]))) })
    }
}

fn entry() -> ExtensionEntry {
    let status = ExtensionStatus::Running;
    ExtensionEntry { id: "user:e".into(), name: "e".into(), source: "user".into(), status, pid: None }
}

fn start(client: ClientId) -> StartExtensions {
    StartExtensions { client, sdk: None }
}

#[tokio::test(start_paused = true)]
async fn extensions_are_started_by_the_owner_for_a_client_of_another_server_until_it_leaves() {
    let world = World::new();
    let host = NotingHost::new(&world);
    let (handle, local) = world.create().await;
    let mut link = link(&world).await;
    let refused = handle.ask(start(CLIENT)).await.unwrap_err().to_string();
    assert!(refused.contains("the client has left the session"), "or has not joined it yet: {refused}");
    join(&world, &mut link).await;
    let ask = Box::new(start(CLIENT).into_message());
    link.to_owner.send(ToOwner::Ask { id: 2, ask }).unwrap();
    while !matches!(link.from_owner.recv().await.unwrap(), FromOwner::Reply { id: 2, result: Ok(_) }) {}
    handle.ask(start(local.id)).await.unwrap();
    assert_eq!(host.take(), [format!("start {CLIENT}"), format!("start {}", local.id)]);
    assert_eq!(handle.ask(ListExtensions {}).await.unwrap(), [entry()]);
    drop(link);
    handle.leave(local.id);
    while world.is_live() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let mut ended = host.take();
    ended.dedup();
    ended[..2].sort();
    let mut expected = [format!("release {CLIENT}"), format!("release {}", local.id)];
    expected.sort();
    assert_eq!(ended[..2], expected);
    assert_eq!(ended[2..], ["end"]);
}

#[tokio::test(start_paused = true)]
async fn extension_keeps_no_session_open() {
    let world = World::new();
    let host = NotingHost::new(&world);
    let (handle, local) = world.create().await;
    let profile = Profile { is_extension: true, ..Profile::default() };
    let mut extension = world.join_with(&handle, profile).await.unwrap();
    handle.ask(Close { client: local.id }).await.unwrap();
    assert!(extension.closed().await.contains(&"session.shutdown".to_owned()), "it was the last client");
    let mut ended = host.take();
    ended.dedup();
    assert_eq!(ended, ["end"]);
}
