//! Authors of changes, as the history keeps them.

use baton_core::ask::{Amend, EnqueueCommand};
use baton_core::{Arrival, Change, Profile};
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_protocol::{Author, ClientId};

use super::*;

fn author_of(body: &Body) -> Option<&Author> {
    match body {
        Body::SessionStart(start) => start.by.as_ref(),
        Body::ModelChange(change) => change.by.as_ref(),
        Body::ModeChanged(change) => change.by.as_ref(),
        Body::PermissionsChanged(change) => change.by.as_ref(),
        Body::Renamed(renamed) => renamed.by.as_ref(),
        Body::PromptAccepted(accepted) => accepted.prompt.by.as_ref(),
        _ => None,
    }
}

/// The events with an author since the start, as `kind author`.
fn authored(world: &World) -> Vec<String> {
    let events = world.log.iter().filter_map(|event| Some((event.body.kind(), author_of(&event.body)?)));
    events.map(|(kind, by)| format!("{kind} {by}")).collect()
}

#[test]
fn changes_name_their_author() {
    let mut world = World::new();
    let ada = || Author("ada".into());
    for change in [
        Change::Model { model: "m".into(), reasoning_effort: None },
        Change::Mode(AgentMode::Plan),
        Change::Permissions(PermissionMode::AllowAll),
        Change::Name { name: "n".into(), by_user: true },
    ] {
        world.ask(Amend::by(ada(), change)).unwrap();
    }
    world.change(Change::Permissions(PermissionMode::Manual));
    world.ask(EnqueueCommand { command: "/usage".into(), by: Some(ada()) }).unwrap();
    let expected = [
        "session.model_change ada",
        "session.mode_changed ada",
        "session.permissions_changed ada",
        "baton.renamed ada",
        "baton.prompt_accepted ada",
    ];
    assert_eq!(authored(&world), expected, "the change of the server has no author");
}

#[test]
fn client_that_resumes_with_another_model_is_the_author_of_the_change() {
    let mut world = World::new();
    let profile = Profile { user: Some(Author("bob".into())), ..Profile::default() };
    let arrival = Arrival::Resumed {
        continue_pending_work: None,
        record: true,
        context: Box::default(),
        model: Some("other".into()),
        reasoning_effort: None,
    };
    world.take(Input::Attach { client: ClientId(2), profile, arrival });
    assert_eq!(authored(&world), ["session.model_change bob"]);
}
