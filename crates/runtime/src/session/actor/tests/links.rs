//! Edges whose links are lost and opened again.

use baton_core::Profile;
use baton_protocol::ClientId;
use tokio::sync::mpsc;

use super::world::{World, joining, noted};
use crate::session::remote::{EdgeLink, FromOwner, Link, Service, ToOwner, serve};
use crate::session::{JoinKind, JoinRequest};

const TAP: ClientId = ClientId(1 << 32);
pub(super) const CLIENT: ClientId = ClientId((1 << 32) + 1);

/// Opens a link to the session, as the same edge each time.
pub(super) async fn link(world: &World) -> Link {
    let (to_edge, from_owner) = mpsc::unbounded_channel();
    let (to_owner, from_edge) = mpsc::unbounded_channel();
    let handle = world.runtime.registry.open(&world.runtime, &world.id);
    let (tasks, tunnel) = (world.runtime.tasks.clone(), world.runtime.models.tunnel.clone());
    tokio::spawn(serve(Service { handle, tasks, tunnel }, TAP, EdgeLink { to_edge, from_edge }));
    let mut link = Link { to_owner, from_owner };
    assert!(matches!(link.from_owner.recv().await, Some(FromOwner::Opened { .. })));
    link
}

pub(super) async fn join(world: &World, link: &mut Link) {
    join_as(joining(CLIENT, Profile::default(), world.params(), JoinKind::Resume), link).await;
}

pub(super) async fn join_as(joining: JoinRequest, link: &mut Link) {
    link.to_owner.send(ToOwner::Join { id: 1, joining: Box::new(joining) }).unwrap();
    while !matches!(link.from_owner.recv().await.unwrap(), FromOwner::Joined { result: Ok(_), .. }) {}
}

#[tokio::test(start_paused = true)]
async fn lost_link_does_not_end_the_one_that_replaced_it() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    let mut first = link(&world).await;
    join(&world, &mut first).await;
    let mut second = link(&world).await;
    join(&world, &mut second).await;
    // The owner notices late that the first link is lost.
    drop(first.to_owner);
    while first.from_owner.recv().await.is_some() {}
    while second.from_owner.try_recv().is_ok() {}
    noted(&handle, "after the loss").await.unwrap();
    let attached = handle.inspect().await.unwrap().session.live.clients;
    assert!(attached.contains_key(&CLIENT), "the client has joined again through the second link");
    let mut received = Vec::new();
    while let Ok(message) = second.from_owner.try_recv() {
        received.push(message);
    }
    assert!(received.iter().any(|message| matches!(message, FromOwner::Events(_))), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn clients_leave_with_the_only_link_of_their_edge() {
    let world = World::new();
    let (handle, _client) = world.create().await;
    let mut only = link(&world).await;
    join(&world, &mut only).await;
    drop(only.to_owner);
    while only.from_owner.recv().await.is_some() {}
    let attached = handle.inspect().await.unwrap().session.live.clients;
    assert!(!attached.contains_key(&CLIENT));
}
