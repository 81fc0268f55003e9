//! Consent to actions outside of turns.

use baton_core::ask::{Amend, Consent, Elicited, WithdrawAsk};
use baton_core::{AnswerOutcome, AskId, Change, Output, Profile, RequestAnswer, TrustTerm};
use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Author, Json, RequestId};
use serde_json::json;

use crate::world::World;

fn consent() -> Consent {
    let wants = PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: "extension".into(),
        tool_args: None,
        hook_message: Some("start it?".into()),
    };
    Consent { wants: Box::new(wants), message: "start it?".into(), key: "k".into() }
}

/// Asks, and returns the ask, the pending request, and the kind of the event that shows it.
fn asked(world: &mut World) -> (AskId, RequestId, String) {
    let (id, outputs) = world.send_for_outputs(consent());
    let shown = outputs.iter().find_map(|output| match output {
        Output::Show(event) => Some(event.body.kind().to_owned()),
        _ => None,
    });
    let request = world.session.live.asks.keys().next().expect("a request").clone();
    (id, request, shown.expect("an event"))
}

fn form(action: &str, decision: &str) -> RequestAnswer {
    let content = Some(Json::from(json!({ "action": decision })));
    RequestAnswer::Elicitation(Elicited { action: action.into(), content })
}

#[test]
fn consent_is_a_permission_request_without_clients_that_show_forms() {
    let mut world = World::new();
    let (id, request, shown) = asked(&mut world);
    assert_eq!(shown, "permission.requested");
    let unrelated = world.answer(&request, RequestAnswer::NoUser);
    assert_eq!(world.outcome_of(unrelated), Some(AnswerOutcome::Mismatch));
    let verdict = RequestAnswer::Permission(Verdict::ApproveOnce, Author::http());
    let answered = world.answer(&request, verdict);
    assert_eq!(world.outcome_of(answered), Some(AnswerOutcome::Counted));
    assert_eq!(world.reply::<Consent>(id), Some(Ok(Some(TrustTerm::UntilChanged))));
}

#[test]
fn only_an_accepted_form_that_approves_is_consent() {
    for (action, decision, expected) in [
        ("accept", "approve", true),
        ("accept", "reject", false),
        ("accept", "yes", false),
        ("decline", "approve", false),
        ("cancel", "approve", false),
    ] {
        let mut world = World::new();
        world.attach_with(1, Profile { elicitation: true, ..Profile::default() });
        let (id, request, shown) = asked(&mut world);
        assert_eq!(shown, "elicitation.requested");
        world.answer(&request, form(action, decision));
        let expected = expected.then_some(TrustTerm::UntilChanged);
        assert_eq!(world.reply::<Consent>(id), Some(Ok(expected)), "{action} {decision}");
    }
}

#[test]
fn policy_decides_before_a_client_is_asked() {
    let mut world = World::new();
    world.ask(Amend::unsigned(Change::Permissions(PermissionMode::AllowAll))).unwrap();
    assert_eq!(world.ask(consent()), Ok(Some(TrustTerm::Session)), "nobody was shown it");
}

#[test]
fn withdrawn_question_is_no_consent() {
    let mut world = World::new();
    let (id, ..) = asked(&mut world);
    assert!(world.ask(WithdrawAsk { key: "k".into() }).unwrap());
    assert_eq!(world.reply::<Consent>(id), Some(Ok(None)));
    assert!(world.session.live.asks.is_empty());
}
