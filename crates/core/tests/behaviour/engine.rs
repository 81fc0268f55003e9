//! Turns of engines.

use baton_core::EngineReport;
use baton_protocol::engine::EngineControl;
use baton_protocol::event::ToolRequest;
use baton_protocol::rules::{RuleListEdit, RulesEdit};
use baton_protocol::{Json, ToolCallId};

use super::*;

fn driven() -> World {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_for_engine());
    world
}

fn drive(world: &World) -> baton_core::WorkId {
    world.only(|w| matches!(w, Work::Drive { .. }))
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
fn engine_calls_and_messages_are_recorded() {
    let mut world = driven();
    let call = begin_call(&mut world);
    world.report(drive(&world), EngineReport::CallFinished { call, result: ToolResult::success("done") });
    let said =
        EngineReport::Message { message_id: "m".into(), text: "hi".into(), reasoning: None, model: None };
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
fn engine_permission_request_is_answered_once() {
    let mut world = driven();
    let call = begin_call(&mut world);
    let wants = Box::new(permission_request(&call, Route::BuiltIn));
    world.report(
        drive(&world),
        EngineReport::Wants { reference: "r1".into(), call: Some(call), wants, cwd: None },
    );
    let request = the_request(&world);
    let (_, out) = world.answer_for_outputs(&request, approve());
    assert_eq!(told(&out), [EngineControl::Decide { reference: "r1".into(), verdict: Verdict::ApproveOnce }]);
    let late = world.answer(&request, reject());
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn two_requests_about_one_call_are_both_answered() {
    let mut world = driven();
    let call = begin_call(&mut world);
    for reference in ["r1", "r2"] {
        let (reference, wants) = (reference.into(), Box::new(permission_request(&call, Route::BuiltIn)));
        let call = Some(call.clone());
        world.report(drive(&world), EngineReport::Wants { reference, call, wants, cwd: None });
    }
    let requests = world.open_requests();
    assert_eq!(requests.len(), 2, "the first one stays open");
    let mut decided = Vec::new();
    for (request, _) in requests {
        let (_, out) = world.answer_for_outputs(&request, approve());
        decided.extend(told(&out));
    }
    let decision = |reference: &str| EngineControl::Decide {
        reference: reference.into(),
        verdict: Verdict::ApproveOnce,
    };
    assert!(decided.contains(&decision("r1")) && decided.contains(&decision("r2")), "{decided:?}");
}

#[test]
fn engine_cannot_speak_for_a_call_of_a_session_tool() {
    let mut world = driven();
    let id = call_own_tool(&mut world);
    let asked = the_request(&world);
    let wants = Box::new(permission_request(&id, Route::BuiltIn));
    let call = Some(id.clone());
    world.report(drive(&world), EngineReport::Wants { reference: "r".into(), call, wants, cwd: None });
    let (own, _) = world.open_requests().into_iter().find(|(request, _)| *request != asked).unwrap();
    let (_, out) = world.answer_for_outputs(&own, approve());
    assert!(matches!(&*told(&out), [EngineControl::Decide { .. }]));
    assert!(!world.running.values().any(|work| matches!(work, Work::RunTool { .. })), "nobody approved it");
    let result = ToolResult::success("done");
    world.report(drive(&world), EngineReport::CallFinished { call: id, result });
    assert_eq!(the_request(&world), asked);
}

#[test]
fn request_that_the_engine_withdraws_is_closed() {
    let mut world = driven();
    let call = begin_call(&mut world);
    for call in [Some(call), None] {
        let wants = Box::new(permission_request(&"item_1".into(), Route::BuiltIn));
        world.report(drive(&world), EngineReport::Wants { reference: "r".into(), call, wants, cwd: None });
        let request = the_request(&world);
        world.report(drive(&world), EngineReport::Withdrawn { reference: "r".into() });
        assert!(world.open_requests().is_empty());
        let late = world.answer(&request, approve());
        assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
    }
    world.report(drive(&world), EngineReport::Withdrawn { reference: "never".into() });
}

#[test]
fn engine_usage_is_counted() {
    let mut world = driven();
    let tokens = baton_protocol::event::TokenCounts { input: 7, ..Default::default() };
    world.report(drive(&world), EngineReport::Used { model: Some("m".into()), tokens });
    assert_eq!(world.session.durable.totals.models["m"].1.input, 7);
}

#[test]
fn allow_all_answers_engine_requests() {
    let mut world = driven();
    world.allow_all();
    let wants = Box::new(permission_request(&"x".into(), Route::BuiltIn));
    let out = world
        .report(drive(&world), EngineReport::Wants { reference: "r".into(), call: None, wants, cwd: None });
    assert_eq!(told(&out).len(), 1);
    assert!(world.open_requests().is_empty());
}

#[test]
fn deny_rule_wins_over_allow_all_for_engines() {
    let mut world = driven();
    world.allow_all();
    for (denied, verdict) in [(Vec::new(), Verdict::ApproveOnce), (vec![read_rule()], Verdict::DeniedByRules)]
    {
        let denied = RuleListEdit { replace: Some(denied), ..RuleListEdit::default() };
        world.edit_rules(RulesEdit { denied, ..RulesEdit::default() });
        let wants = Box::new(permission_request(&"x".into(), Route::BuiltIn));
        let wants = EngineReport::Wants { reference: "r".into(), call: None, wants, cwd: None };
        let out = world.report(drive(&world), wants);
        assert_eq!(told(&out), [EngineControl::Decide { reference: "r".into(), verdict }]);
        assert!(world.open_requests().is_empty());
    }
    let calls = &world.session.durable.turn.as_ref().unwrap().calls;
    assert!(calls.iter().all(|call| call.stage.is_done()), "placeholder calls have ended");
}

#[test]
fn first_deny_rule_ends_an_engine_that_runs_without_approvals() {
    let mut world = driven();
    world.session.live.allow_all = true;
    let work = drive(&world);
    let denied = RuleListEdit { replace: Some(vec![read_rule()]), ..RuleListEdit::default() };
    world.edit_rules(RulesEdit { denied, ..RulesEdit::default() });
    assert!(!world.session.live.work.contains_key(&work), "the program is stopped");
    assert!(world.session.durable.turn.is_none());
    assert!(!world.session.is_busy());
}

#[test]
fn session_grant_reaches_the_engine_as_single_approval() {
    let mut world = driven();
    let call = begin_call(&mut world);
    let wants = Box::new(permission_request(&call, Route::BuiltIn));
    let report = EngineReport::Wants { reference: "r1".into(), call: Some(call), wants, cwd: None };
    world.report(drive(&world), report);
    let answer = permission_answer(Verdict::ApproveForSession(None));
    let request = the_request(&world);
    let (_, out) = world.answer_for_outputs(&request, answer);
    assert_eq!(told(&out), [EngineControl::Decide { reference: "r1".into(), verdict: Verdict::ApproveOnce }]);
    assert_eq!(world.session.durable.grants.len(), 1);
}

#[test]
fn immediate_prompt_steers_the_engine() {
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
fn engine_thread_survives_a_crash_and_its_turn_is_interrupted() {
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
fn reports_after_cancel_are_ignored() {
    let mut world = driven();
    let id = drive(&world);
    world.abort();
    let before = world.log.len();
    world.report(id, EngineReport::Thread("late".into()));
    assert_eq!((world.log.len(), world.running.len()), (before, 0));
    assert_eq!(outcome(&world).0, Outcome::Cancelled);
}

/// The engine calls a tool of the session. Returns the call, prepared: it wants a permission.
fn call_own_tool(world: &mut World) -> ToolCallId {
    let id = ToolCallId::from("own");
    let request = ToolRequest {
        tool_call_id: id.clone(),
        name: "first-echo".into(),
        arguments: Some(Json::empty_object()),
        kind: None,
        mcp_server_name: Some("first".into()),
        mcp_tool_name: Some("echo".into()),
        tool_title: None,
    };
    world.report(drive(world), EngineReport::Calls { request: Box::new(request) });
    let wants = Some(permission_request(&id, Route::BuiltIn));
    let prepared = Prepared::Runnable {
        route: Route::BuiltIn,
        wants,
        advice: baton_core::policy::Advice::None,
        cwd: None,
        arguments: None,
    };
    let preparing = world.only(|work| matches!(work, Work::PrepareCall { .. }));
    world.finish(preparing, WorkResult::PrepareCall(prepared));
    id
}

#[test]
fn call_of_a_session_tool_runs_when_it_is_approved_and_the_engine_gets_the_result() {
    let mut world = driven();
    let id = call_own_tool(&mut world);
    let request = the_request(&world);
    let (_, out) = world.answer_for_outputs(&request, approve());
    assert_eq!(told(&out), [], "the decision is the session's, not the engine's");
    let running = world.only(|work| matches!(work, Work::RunTool { .. }));
    let result = ToolResult::success("echo: hi");
    let out =
        world.take(Input::Finished { work: running, result: Box::new(WorkResult::RunTool(result.clone())) });
    assert_eq!(told(&out), [EngineControl::Returns { call: id, result: Box::new(result) }]);
    assert!(world.session.durable.turn.is_some(), "the engine works on");
    world.finish(drive(&world), WorkResult::Drive(Ok(())));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn rejected_call_of_a_session_tool_does_not_run() {
    let mut world = driven();
    let id = call_own_tool(&mut world);
    let request = the_request(&world);
    let (_, out) = world.answer_for_outputs(&request, reject());
    let told = told(&out);
    let [EngineControl::Returns { call, result }] = &*told else { panic!("{told:?}") };
    assert_eq!((call, result.result_type), (&id, ResultType::Denied));
    assert!(!world.running.values().any(|work| matches!(work, Work::RunTool { .. })));
    assert!(world.session.durable.turn.is_some(), "the engine works on");
}

#[test]
fn abandoned_call_of_a_session_tool_ends_with_its_request() {
    let mut world = driven();
    let id = call_own_tool(&mut world);
    let out = world.report(drive(&world), EngineReport::Abandons { call: id.clone() });
    assert!(matches!(&*told(&out), [EngineControl::Returns { call, .. }] if *call == id));
    assert_eq!(world.open_requests(), []);
    let again = world.report(drive(&world), EngineReport::Abandons { call: id });
    assert_eq!(told(&again), []);
}

#[test]
fn call_of_a_session_tool_ends_with_the_turn() {
    let mut world = driven();
    call_own_tool(&mut world);
    world.finish(drive(&world), WorkResult::Drive(Ok(())));
    assert_eq!(world.open_requests(), []);
    assert!(world.session.live.engine_calls.is_empty());
    assert_eq!(outcome(&world).0, Outcome::Completed);
}
