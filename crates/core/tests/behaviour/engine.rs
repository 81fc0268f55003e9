//! Turns that another agent's program works on.

use super::*;
use baton_core::{EngineControl, EngineReport};
use baton_protocol::rules::{RuleListEdit, RulesEdit};
use baton_protocol::{Json, ToolCallId};

fn driven() -> World {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_for_engine());
    world
}

fn drive(world: &World) -> baton_core::WorkId {
    world.only(|w| matches!(w, Work::Drive { .. }))
}

fn allow_all(world: &mut World) {
    let change = baton_core::Change::Permissions(baton_protocol::event::PermissionMode::AllowAll);
    world.take(Input::Change { reply: baton_core::ReplyTo(9002), change });
}

fn told(outputs: &[Output]) -> Vec<EngineControl> {
    let told = outputs.iter().filter_map(|o| match o {
        Output::Tell(_, control) => Some(control.clone()),
        _ => None,
    });
    told.collect()
}

fn begin_call(world: &mut World) -> ToolCallId {
    let call = ToolCallId::from("item_1");
    let (tool, arguments) = ("bash".to_owned(), Json::empty_object());
    world.report(drive(world), EngineReport::CallStarted { call: call.clone(), tool, arguments });
    call
}

#[test]
fn what_an_engine_does_is_recorded_as_our_own_work_is() {
    let mut world = driven();
    let call = begin_call(&mut world);
    world.report(drive(&world), EngineReport::CallFinished { call, result: ToolResult::success("done") });
    let said = EngineReport::Said { message_id: "m".into(), text: "hi".into(), reasoning: None, model: None };
    world.report(drive(&world), said);
    world.finish(drive(&world), WorkResult::Drive(Ok(())));
    let kinds = &world.kinds()[2..];
    let expected = [
        "user.message",
        "assistant.turn_start",
        "baton.engine_turn",
        "tool.execution_start",
        "tool.execution_complete",
        "assistant.message",
        "assistant.turn_end",
        "baton.turn_settled",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn what_it_wants_is_asked_once_and_told_back() {
    let mut world = driven();
    let call = begin_call(&mut world);
    let wants = Box::new(wish(&call, Route::BuiltIn));
    world.report(
        drive(&world),
        EngineReport::Wants { reference: "r1".into(), call: Some(call), wants, cwd: None },
    );
    let request = only_request(&world);
    let reply = baton_core::ReplyTo(9001);
    let out = world.take(Input::Answer { reply, request: request.clone(), answer: approve() });
    assert_eq!(told(&out), [EngineControl::Decide { reference: "r1".into(), verdict: Verdict::ApproveOnce }]);
    let late = world.answer(&request, reject());
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn what_it_does_not_wait_for_any_more_is_not_asked_any_more() {
    let mut world = driven();
    let call = begin_call(&mut world);
    for call in [Some(call), None] {
        let wants = Box::new(wish(&"item_1".into(), Route::BuiltIn));
        world.report(drive(&world), EngineReport::Wants { reference: "r".into(), call, wants, cwd: None });
        let request = only_request(&world);
        world.report(drive(&world), EngineReport::Withdrawn { reference: "r".into() });
        assert!(world.open_requests().is_empty());
        let late = world.answer(&request, approve());
        assert_eq!(world.replies[&late], Reply::TooLate);
    }
    world.report(drive(&world), EngineReport::Withdrawn { reference: "never".into() });
}

#[test]
fn what_it_uses_is_counted() {
    let mut world = driven();
    let tokens = baton_protocol::event::TokenCounts { input: 7, ..Default::default() };
    world.report(drive(&world), EngineReport::Used { model: Some("m".into()), tokens });
    assert_eq!(world.session.durable.totals.models["m"].1.input, 7);
}

#[test]
fn a_grant_answers_for_the_user() {
    let mut world = driven();
    allow_all(&mut world);
    let wants = Box::new(wish(&"x".into(), Route::BuiltIn));
    let out = world
        .report(drive(&world), EngineReport::Wants { reference: "r".into(), call: None, wants, cwd: None });
    assert_eq!(told(&out).len(), 1);
    assert!(world.open_requests().is_empty());
}

#[test]
fn a_rule_decides_without_asking_and_a_deny_rule_wins() {
    let mut world = driven();
    allow_all(&mut world);
    for (denied, verdict) in [(Vec::new(), Verdict::ApproveOnce), (vec![read_rule()], Verdict::DeniedByRules)]
    {
        let denied = RuleListEdit { replace: Some(denied), ..RuleListEdit::default() };
        set_rules(&mut world, RulesEdit { denied, ..RulesEdit::default() });
        let wants = Box::new(wish(&"x".into(), Route::BuiltIn));
        let wants = EngineReport::Wants { reference: "r".into(), call: None, wants, cwd: None };
        let out = world.report(drive(&world), wants);
        assert_eq!(told(&out), [EngineControl::Decide { reference: "r".into(), verdict }]);
        assert!(world.open_requests().is_empty());
    }
    let calls = &world.session.durable.turn.as_ref().unwrap().calls;
    assert!(calls.iter().all(|call| call.stage.is_done()), "what stood for the questions has ended");
}

#[test]
fn a_grant_for_the_session_is_not_passed_on_to_the_program() {
    let mut world = driven();
    let call = begin_call(&mut world);
    let wants = Box::new(wish(&call, Route::BuiltIn));
    let report = EngineReport::Wants { reference: "r1".into(), call: Some(call), wants, cwd: None };
    world.report(drive(&world), report);
    let answer = decided(Verdict::ApproveForSession(None));
    let request = only_request(&world);
    let out = world.take(Input::Answer { reply: baton_core::ReplyTo(9001), request, answer });
    assert_eq!(told(&out), [EngineControl::Decide { reference: "r1".into(), verdict: Verdict::ApproveOnce }]);
    assert_eq!(world.session.durable.grants.len(), 1);
}

#[test]
fn an_immediate_prompt_is_told_to_it_at_once() {
    let mut world = driven();
    world.prompt(SendMode::Immediate);
    let prepare = world.only(|w| matches!(w, Work::PreparePrompt { .. }));
    world.running.remove(&prepare);
    let out = world.take(Input::Finished { work: prepare, result: Box::new(prepared_for_engine()) });
    assert_eq!(told(&out), [EngineControl::Steer("prompt".into())]);
    world.finish(drive(&world), WorkResult::Drive(Ok(())));
    assert_eq!(world.outcomes().len(), 2);
}

#[test]
fn its_own_name_of_the_conversation_survives_a_crash_and_its_turn_does_not() {
    let mut world = driven();
    world.report(drive(&world), EngineReport::Thread("t-1".into()));
    begin_call(&mut world);
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(outcome(&world).0, Outcome::Interrupted);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_for_engine());
    let token = world.running.values().find_map(|w| match w {
        Work::Drive { token, .. } => token.clone(),
        _ => None,
    });
    assert_eq!(token.as_deref(), Some("t-1"));
}

#[test]
fn a_cancel_stops_it_and_what_it_says_afterwards_is_ignored() {
    let mut world = driven();
    let id = drive(&world);
    world.abort();
    let before = world.log.len();
    world.report(id, EngineReport::Thread("late".into()));
    assert_eq!((world.log.len(), world.running.len()), (before, 0));
    assert_eq!(outcome(&world).0, Outcome::Cancelled);
}
