//! Another model in the middle of a turn, and what a model had said before it failed.

use baton_protocol::event::SwitchAnswer;

use super::*;

const YES: Answer = Answer::Switch(SwitchAnswer::Yes);

/// A turn whose model wants to be asked less often, and another is offered.
fn offered() -> (World, RequestId) {
    let mut world = asking();
    world.finish(world.only(is_ask), limited());
    let request = world.offer().expect("an offer");
    (world, request)
}

fn model(world: &World) -> Option<&str> {
    world.session.durable.facts.model.as_deref()
}

fn shown(world: &World) -> Vec<&str> {
    let kinds = world.shown.iter().map(|event| event.body.kind());
    kinds.filter(|kind| kind.starts_with("auto_mode_switch")).collect()
}

fn said_by_the_model(world: &World) -> Vec<&str> {
    let messages = world.log.iter().filter_map(|event| match &event.body {
        Body::AssistantMessage(message) => Some(message.content.as_str()),
        _ => None,
    });
    messages.collect()
}

#[test]
fn a_turn_goes_on_with_another_model_if_somebody_agrees() {
    let (mut world, request) = offered();
    assert_eq!(shown(&world), ["auto_mode_switch.requested"]);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    let reply = world.answer(&request, YES);
    assert_eq!((world.replies[&reply].clone(), model(&world)), (Reply::Counted, Some("another")));
    assert_eq!(shown(&world).last(), Some(&"auto_mode_switch.completed"));
    assert!(!world.running.values().any(|w| matches!(w, Work::DeliverQuestion { .. })));
    let late = world.answer(&request, YES);
    assert_eq!(world.replies[&late], Reply::TooLate);
    world.finish(world.only(is_ask), said(1, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    assert_eq!(said_by_the_model(&world), ["text"], "half an answer that is given again is not kept");
}

#[test]
fn a_turn_fails_with_the_first_error_if_nobody_agrees() {
    for answer in [Answer::Switch(SwitchAnswer::No), Answer::NoUser] {
        let (mut world, request) = offered();
        world.answer(&request, answer);
        assert_eq!((outcome(&world), model(&world)), ((Outcome::Failed, "no".into()), None));
        assert!(world.running.is_empty());
    }
    let (mut world, request) = offered();
    let wrong = world.answer(&request, approve());
    assert_eq!((world.replies[&wrong].clone(), world.offer()), (Reply::Mismatch, Some(request)));
}

#[test]
fn two_models_in_a_row_that_cannot_be_asked_are_enough() {
    let (mut world, request) = offered();
    world.answer(&request, YES);
    world.finish(world.only(is_ask), limited());
    assert_eq!((world.offer(), outcome(&world).0), (None, Outcome::Failed));
}

#[test]
fn who_always_agrees_is_asked_once() {
    let (mut world, request) = offered();
    world.answer(&request, Answer::Switch(SwitchAnswer::YesAlways));
    world.finish(world.only(is_ask), said(1, &[]));
    world.crash();
    world.resume(1, &[], None);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), limited());
    assert_eq!(world.offer(), None);
    world.finish(world.only(is_ask), said(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn an_offer_survives_a_crash_under_its_id() {
    let (mut world, request) = offered();
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(world.offer(), Some(request.clone()));
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    world.answer(&request, YES);
    assert_eq!(model(&world), Some("another"));
    world.only(is_ask);

    let (mut world, request) = offered();
    world.crash();
    world.resume(2, &[], None);
    assert_eq!((world.offer(), outcome(&world).0), (None, Outcome::Interrupted));
    let late = world.answer(&request, YES);
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn an_offer_ends_with_its_turn() {
    let (mut world, _) = offered();
    world.abort();
    assert_eq!((world.offer(), outcome(&world).0), (None, Outcome::Cancelled));
    assert_eq!(shown(&world).last(), Some(&"auto_mode_switch.completed"));
}

#[test]
fn nobody_who_cannot_answer_is_asked() {
    let mut world = asking();
    world.take(Input::Attach {
        client: baton_protocol::ClientId(1),
        profile: baton_core::Profile::default(),
        arrival: baton_core::Arrival::Made,
    });
    world.finish(world.only(is_ask), limited());
    assert_eq!((world.offer(), outcome(&world).0), (None, Outcome::Failed));
}

#[test]
fn what_a_model_had_said_before_it_failed_is_kept() {
    let mut world = asking();
    world.finish(world.only(is_ask), failed());
    assert_eq!(said_by_the_model(&world), ["half an"]);
    assert_eq!(outcome(&world).0, Outcome::Failed);
}

#[test]
fn nobody_is_asked_directly_while_somebody_listens() {
    let nobody_asked =
        |world: &World| !world.running.values().any(|w| matches!(w, Work::DeliverQuestion { .. }));
    let mut world = asking();
    let (first, second) = (world.listen(1), world.listen(1));
    assert!(world.stop_listening(&first) && !world.stop_listening(&first), "once each");
    world.finish(world.only(is_ask), limited());
    let request = world.offer().expect("an offer");
    assert_eq!(shown(&world), ["auto_mode_switch.requested"], "whoever listens is told");
    world.attach(2, &[]);
    assert!(nobody_asked(&world));
    world.stop_listening(&second);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
    world.answer(&request, YES);
    assert_eq!(model(&world), Some("another"));

    let mut world = asking();
    world.attach(2, &[]);
    world.listen(1);
    world.finish(world.only(is_ask), limited());
    assert!(nobody_asked(&world));
    world.detach(1);
    world.only(|w| matches!(w, Work::DeliverQuestion { .. }));
}

#[test]
fn who_listens_need_not_be_one_who_can_be_asked() {
    let mut world = asking();
    world.take(Input::Attach {
        client: baton_protocol::ClientId(1),
        profile: baton_core::Profile::default(),
        arrival: baton_core::Arrival::Made,
    });
    world.listen(1);
    world.finish(world.only(is_ask), limited());
    world.offer().expect("an offer");
}
