//! Fallback models, and messages of failed model calls.

use baton_protocol::event::SwitchAnswer;

use super::*;

const YES: RequestAnswer = RequestAnswer::Switch(SwitchAnswer::Yes);

/// A turn with a pending offer of a fallback model.
fn offered() -> (World, RequestId) {
    let mut world = asking();
    world.finish(world.only(is_ask), rate_limited());
    let request = world.fallback_request().expect("a request");
    (world, request)
}

fn model(world: &World) -> Option<&str> {
    world.session.durable.facts.model.as_deref()
}

fn shown(world: &World) -> Vec<&str> {
    let kinds = world.shown.iter().map(|event| event.body.kind());
    kinds.filter(|kind| kind.starts_with("auto_mode_switch")).collect()
}

fn model_messages(world: &World) -> Vec<&str> {
    let messages = world.log.iter().filter_map(|event| match &event.body {
        Body::AssistantMessage(message) => Some(message.content.as_str()),
        _ => None,
    });
    messages.collect()
}

#[test]
fn turn_continues_with_the_fallback_model_after_agreement() {
    let (mut world, request) = offered();
    assert_eq!(shown(&world), ["auto_mode_switch.requested"]);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    let reply = world.answer(&request, YES);
    assert_eq!((world.outcome_of(reply), model(&world)), (Some(AnswerOutcome::Counted), Some("another")));
    assert_eq!(shown(&world).last(), Some(&"auto_mode_switch.completed"));
    assert!(!world.running.values().any(|w| matches!(w, Work::DeliverQuestion { .. })));
    let late = world.answer(&request, YES);
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
    world.finish(world.only(is_ask), model_answer(1, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    assert_eq!(
        model_messages(&world),
        ["text"],
        "the partial message is not recorded, because the answer is given again"
    );
}

#[test]
fn refused_offer_fails_the_turn_with_the_first_error() {
    for answer in [RequestAnswer::Switch(SwitchAnswer::No), RequestAnswer::NoUser] {
        let (mut world, request) = offered();
        world.answer(&request, answer);
        assert_eq!((outcome(&world), model(&world)), ((Outcome::Failed, "no".into()), None));
        assert!(world.running.is_empty());
    }
    let (mut world, request) = offered();
    let wrong = world.answer(&request, approve());
    assert_eq!(
        (world.outcome_of(wrong), world.fallback_request()),
        (Some(AnswerOutcome::Mismatch), Some(request))
    );
}

#[test]
fn failing_fallback_model_fails_the_turn() {
    let (mut world, request) = offered();
    world.answer(&request, YES);
    world.finish(world.only(is_ask), rate_limited());
    assert_eq!((world.fallback_request(), outcome(&world).0), (None, Outcome::Failed));
}

#[test]
fn yes_always_switches_later_turns_without_a_request() {
    let (mut world, request) = offered();
    world.answer(&request, RequestAnswer::Switch(SwitchAnswer::YesAlways));
    world.finish(world.only(is_ask), model_answer(1, &[]));
    world.crash();
    world.resume(1, &[], None);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), rate_limited());
    assert_eq!(world.fallback_request(), None);
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn offer_survives_a_crash_or_is_closed() {
    let (mut world, request) = offered();
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(world.fallback_request(), Some(request.clone()));
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    world.answer(&request, YES);
    assert_eq!(model(&world), Some("another"));
    world.only(is_ask);

    let (mut world, request) = offered();
    world.crash();
    world.resume(2, &[], None);
    assert_eq!((world.fallback_request(), outcome(&world).0), (None, Outcome::Interrupted));
    let late = world.answer(&request, YES);
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn cancel_closes_the_fallback_request() {
    let (mut world, _) = offered();
    world.abort();
    assert_eq!((world.fallback_request(), outcome(&world).0), (None, Outcome::Cancelled));
    assert_eq!(shown(&world).last(), Some(&"auto_mode_switch.completed"));
}

#[test]
fn no_offer_without_a_capable_client() {
    let mut world = asking();
    world.take(Input::Attach {
        client: baton_protocol::ClientId(1),
        profile: baton_core::Profile::default(),
        arrival: baton_core::Arrival::Made,
    });
    world.finish(world.only(is_ask), rate_limited());
    assert_eq!((world.fallback_request(), outcome(&world).0), (None, Outcome::Failed));
}

#[test]
fn partial_message_of_a_failed_model_is_recorded() {
    let mut world = asking();
    world.finish(world.only(is_ask), model_failure());
    assert_eq!(model_messages(&world), ["half an"]);
    assert_eq!(outcome(&world).0, Outcome::Failed);
}

#[test]
fn offers_are_not_delivered_while_a_client_listens() {
    let no_client_asked =
        |world: &World| !world.running.values().any(|w| matches!(w, Work::DeliverQuestion { .. }));
    let mut world = asking();
    let (first, second) = (world.listen(1), world.listen(1));
    assert!(world.stop_listening(&first) && !world.stop_listening(&first), "once each");
    world.finish(world.only(is_ask), rate_limited());
    let request = world.fallback_request().expect("a request");
    assert_eq!(shown(&world), ["auto_mode_switch.requested"], "the listener sees the offer");
    world.attach(2, &[]);
    assert!(no_client_asked(&world));
    world.stop_listening(&second);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    world.answer(&request, YES);
    assert_eq!(model(&world), Some("another"));

    let mut world = asking();
    world.attach(2, &[]);
    world.listen(1);
    world.finish(world.only(is_ask), rate_limited());
    assert!(no_client_asked(&world));
    world.detach(1);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
}

#[test]
fn listener_without_the_ability_still_gets_offers() {
    let mut world = asking();
    world.take(Input::Attach {
        client: baton_protocol::ClientId(1),
        profile: baton_core::Profile::default(),
        arrival: baton_core::Arrival::Made,
    });
    world.listen(1);
    world.finish(world.only(is_ask), rate_limited());
    world.fallback_request().expect("a request");
}
