//! Sessions that move between servers, and what their clients changed after they had joined.

use baton_ask::{AskMessage, Configure, FamilyAsk};
use baton_core::ask::{Amend, ListenForSwitch, RegisterRunner};
use baton_core::{Change, Profile};
use baton_handle::attached::Attached;
use baton_protocol::ClientId;
use baton_protocol::params::SessionParams;
use baton_settings::{OptionsEdit, SettingsChange, SettingsEdit};
use baton_store::Seq;
use tokio::sync::mpsc;

use super::links::{join_as, link};
use super::world::{World, joining};
use crate::session::actor::{Loading, Mailbox};
use crate::session::edge::{Ending, follow};
use crate::session::remote::{FromOwner, Link, ToOwner};
use crate::session::{Handle, JoinKind, JoinReply, Returning};

const CLIENT: ClientId = ClientId((1 << 32) + 1);

fn exclude(tool: &str) -> SettingsEdit {
    let options = OptionsEdit { excluded_tools: Some(vec![tool.into()]), ..OptionsEdit::default() };
    SettingsEdit::Options(Box::new(options))
}

fn excluding(tool: &str) -> SessionParams {
    SessionParams { excluded_tools: Some(vec![tool.into()]), ..SessionParams::default() }
}

async fn configure(handle: &Handle, edit: SettingsEdit) {
    handle.ask(Configure { edit: Box::new(edit) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clients_keep_what_they_changed_when_their_server_loses_the_session() {
    let world = World::shared();
    let params = SessionParams { model: Some("first".into()), ..excluding("joined") };
    let (handle, client) = world.create_with(Profile::default(), params).await;
    configure(&handle, exclude("changed")).await;
    let runner = RegisterRunner { client: client.id, handle: "runner".into(), registered: true };
    handle.ask(runner).await.unwrap();
    let listener = handle.ask(ListenForSwitch { client: client.id }).await.unwrap();
    let model = Change::Model { model: "second".into(), reasoning_effort: None };
    handle.ask(Amend::unsigned(model)).await.unwrap();
    for _ in 0..2 {
        world.take_over().await;
        let failure = handle.ask(Amend::unsigned(Change::Name { name: "n".into(), by_user: true }));
        assert!(failure.await.is_err(), "the lease is lost");
        let view = handle.inspect().await.unwrap();
        assert_eq!(view.settings.excluded_tools, ["changed"]);
        assert_eq!(view.session.live.runners.get("runner"), Some(&client.id));
        assert_eq!(view.session.live.listeners.get(&listener), Some(&client.id));
        let facts = &view.session.durable.facts;
        assert_eq!(facts.model.as_deref(), Some("second"), "the model of the join is history");
    }
}

#[tokio::test(start_paused = true)]
async fn last_change_counts_whichever_server_comes_first() {
    for order in [[0, 1], [1, 0]] {
        let world = World::shared();
        let (handle, _client) = world.create().await;
        let mut edge = link(&world).await;
        let changes = [("earlier", 3), ("later", 5)];
        for which in order {
            let (tool, at) = changes[which];
            let client = ClientId(CLIENT.0 + which as u64);
            let mut request = joining(client, Profile::default(), excluding("joined"), JoinKind::Resume);
            let changes = vec![SettingsChange { at, edit: exclude(tool) }];
            request.returning = Some(Box::new(Returning { joined_at: Seq(2), changes }));
            join_as(request, &mut edge).await;
        }
        assert_eq!(handle.inspect().await.unwrap().settings.excluded_tools, ["later"], "{order:?}");
        configure(&handle, exclude("now")).await;
        assert_eq!(handle.inspect().await.unwrap().settings.excluded_tools, ["now"]);
    }
}

#[tokio::test(start_paused = true)]
async fn edge_remembers_what_its_clients_changed() {
    let world = World::shared();
    let (sender, receiver) = mpsc::unbounded_channel();
    let hub = baton_handle::Publisher::new(world.id.clone());
    let handle = Handle::new(world.id.clone(), &hub, sender.clone());
    let mailbox = Mailbox { sender, receiver };
    let loading = Loading { runtime: world.runtime.clone(), id: world.id.clone(), hub, mailbox };
    let (to_owner, mut asked) = mpsc::unbounded_channel();
    let (owner, from_owner) = mpsc::unbounded_channel();
    let following = follow(loading, Attached::default(), Link { to_owner, from_owner }, Seq(4));
    let following = tokio::spawn(following);

    let request = joining(CLIENT, Profile::default(), excluding("joined"), JoinKind::Resume);
    let joined = handle.join(request, world.client().1);
    let replies = async {
        let Some(ToOwner::Join { id, .. }) = asked.recv().await else { panic!("not a join") };
        let reply = JoinReply { elicitation: false, files: "".into(), at: Seq(4) };
        owner.send(FromOwner::Joined { id, result: Ok(reply) }).unwrap();
    };
    let (joined, ()) = tokio::join!(joined, replies);
    joined.unwrap();
    for (edit, is_served) in [(exclude("first"), true), (exclude("second"), true), (exclude("third"), false)]
    {
        let configured = handle.ask(Configure { edit: Box::new(edit) });
        let reply = async {
            let Some(ToOwner::Ask { id, ask }) = asked.recv().await else { panic!("not an ask") };
            assert!(matches!(*ask, AskMessage::Actor(_)));
            let reply = Ok(Box::new(Configure::wrap(())));
            let result = if is_served { reply } else { Err(handle.hub.gone()) };
            owner.send(FromOwner::Reply { id, result }).unwrap();
        };
        assert_eq!(tokio::join!(configured, reply).0.is_ok(), is_served);
    }
    let runner = RegisterRunner { client: CLIENT, handle: "runner".into(), registered: true };
    drop(handle.ask(runner));
    let Some(ToOwner::Ask { id, .. }) = asked.recv().await else { panic!("not an ask") };
    let reply = baton_ask::ReplyMessage::Core(Box::new(baton_core::Reply::RegisterRunner(())));
    owner.send(FromOwner::Reply { id, result: Ok(Box::new(reply)) }).unwrap();
    drop(owner);

    let Ending::Lost(survivors) = following.await.unwrap() else { panic!("the client is still here") };
    let (_, mut again) = survivors.attached.rejoin();
    let (request, _) = again.pop().unwrap();
    let returning = request.returning.unwrap();
    assert_eq!(returning.joined_at, Seq(4));
    let [SettingsChange { at: 4, edit: SettingsEdit::Options(options) }] = &returning.changes[..] else {
        panic!("{:?}", returning.changes)
    };
    assert_eq!(
        options.excluded_tools.as_deref(),
        Some(&["second".to_owned()][..]),
        "the last that was served"
    );
    assert!(request.profile.registered.runners.contains("runner"));
}
