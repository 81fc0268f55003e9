//! Scenarios of a session. Laws that hold for all scenarios are in `laws.rs`.
#![allow(clippy::expect_used, reason = "a test without its subject must fail")]

#[path = "behaviour/agents.rs"]
mod agents;
#[path = "behaviour/authors.rs"]
mod authors;
#[path = "behaviour/cancel_turn.rs"]
mod cancel_turn;
#[path = "behaviour/consent.rs"]
mod consent;
#[path = "behaviour/engine.rs"]
mod engine;
#[path = "behaviour/logins.rs"]
mod logins;
#[path = "behaviour/permissions.rs"]
mod permissions;
#[path = "behaviour/plan.rs"]
mod plan;
#[path = "behaviour/queue.rs"]
mod queue;
#[path = "behaviour/resume.rs"]
mod resume;
#[path = "behaviour/switch.rs"]
mod switch;
#[path = "behaviour/trust.rs"]
mod trust;
#[path = "behaviour/walls.rs"]
mod walls;
mod world;

use baton_core::ask::SendPrompt;
use baton_core::{AnswerOutcome, Input, Output, Prepared, RequestAnswer, Route, Withdrawn, Work, WorkResult};
use baton_protocol::RequestId;
use baton_protocol::event::{Body, Outcome, Question, SendMode};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::tool::{ResultType, ToolResult};
use world::*;

fn is_ask(work: &Work) -> bool {
    *work == Work::CallModel { agent: None }
}

/// A turn whose model call is running.
fn asking() -> World {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    let prepare = world.only(|w| matches!(w, Work::PreparePrompt { .. }));
    world.finish(prepare, prepared_prompt());
    world
}

/// A turn in which the model has called one tool, with the prepared call.
fn acting(tool: &str, prepared: impl FnOnce(&baton_protocol::ToolCallId) -> WorkResult) -> World {
    let mut world = asking();
    world.finish(world.only(is_ask), model_answer(1, &[tool]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, prepared(&"call-1-0".into()));
    world
}

fn the_request(world: &World) -> RequestId {
    let open = world.open_requests();
    assert_eq!(open.len(), 1);
    open[0].0.clone()
}

fn outcome(world: &World) -> (Outcome, String) {
    let settled = world.log.iter().rev().find_map(|event| match &event.body {
        Body::TurnSettled(settled) => Some((settled.outcome, settled.reason.clone())),
        _ => None,
    });
    settled.expect("no outcome yet")
}

fn last_result(world: &World) -> (bool, String) {
    let complete = world.log.iter().rev().find_map(|event| match &event.body {
        Body::ToolComplete(c) => Some((c.success, c.result.clone().unwrap_or_default().content)),
        _ => None,
    });
    complete.expect("no call is done yet")
}

#[test]
fn simple_turn_records_its_events_in_order() {
    let mut world = asking();
    world.finish(world.only(is_ask), model_answer(1, &[]));
    let expected = [
        "session.start",
        "baton.prompt_accepted",
        "user.message",
        "assistant.turn_start",
        "assistant.message",
        "assistant.turn_end",
        "baton.turn_settled",
    ];
    assert_eq!(world.kinds(), expected);
    assert_eq!(outcome(&world).0, Outcome::Completed);
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn reply_to_a_prompt_precedes_its_work() {
    let mut world = World::new();
    let (_, out) = world.send_for_outputs(SendPrompt { prompt: Box::default() });
    let at = |f: fn(&Output) -> bool| out.iter().position(f).unwrap();
    let recorded = at(|o| matches!(o, Output::Record(_)));
    let acknowledged = at(|o| matches!(o, Output::Reply(_, Ok(_))));
    let started = at(|o| matches!(o, Output::Start(..)));
    assert!(recorded < acknowledged && acknowledged < started);
}

#[test]
fn repeated_key_returns_the_same_prompt_even_after_a_crash() {
    let mut world = World::new();
    let send = |world: &mut World| {
        let key = Some("k1".to_owned());
        world.prompt_with(baton_protocol::event::Prompt { text: "hi".into(), key, ..Default::default() })
    };
    let first = send(&mut world);
    assert_eq!(send(&mut world), first);
    world.crash();
    assert_eq!(send(&mut world), first);
    assert_eq!(world.accepted.len(), 1);
}

#[test]
fn built_in_tool_runs_and_the_next_round_starts() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    world.finish(run, WorkResult::RunTool(ToolResult::success("contents")));
    assert_eq!(last_result(&world), (true, "contents".into()));
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    let rounds: Vec<&str> = world.kinds().into_iter().filter(|k| *k == "assistant.turn_start").collect();
    assert_eq!(rounds.len(), 2);
}

#[test]
fn skill_follows_the_result_of_its_call() {
    let mut world = acting("skill", |_| runnable(Route::BuiltIn));
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    let skill = baton_protocol::event::SkillInvoked { name: "pdf".into(), ..Default::default() };
    world.finish(run, WorkResult::RunSkill(Box::new((ToolResult::success("loaded"), skill))));
    let kinds = world.kinds();
    let at = |kind: &str| kinds.iter().rposition(|other| *other == kind).unwrap();
    assert!(
        at("tool.execution_complete") < at("skill.invoked") && at("skill.invoked") < at("assistant.turn_end")
    );
    world.only(is_ask);
}

#[test]
fn first_answer_to_a_permission_request_counts() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    let request = the_request(&world);
    assert!(world.running.is_empty(), "nothing runs without permission");
    let first = world.answer(&request, approve());
    let second = world.answer(&request, reject());
    assert_eq!(
        (world.outcome_of(first), world.outcome_of(second)),
        (Some(AnswerOutcome::Counted), Some(AnswerOutcome::TooLate))
    );
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn answer_to_an_unknown_request_and_mismatched_answer_do_not_count() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    let unknown = world.answer(&"no-such-request".into(), approve());
    assert_eq!(world.outcome_of(unknown), Some(AnswerOutcome::NoSuchRequest));
    let mismatch = world.answer(&the_request(&world), tool_result());
    assert_eq!(world.outcome_of(mismatch), Some(AnswerOutcome::Mismatch));
    assert_eq!(world.open_requests().len(), 1, "the request is still open");
}

#[test]
fn rejection_ends_the_turn() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    world.answer(&the_request(&world), reject());
    assert_eq!(last_result(&world), (false, "The user rejected this tool call.".into()));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world), (Outcome::Completed, "The user rejected this tool call.".into()));
}

#[test]
fn rejection_with_feedback_continues_the_turn() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    let verdict = Verdict::Reject { feedback: Some("use the other file".into()) };
    world.answer(&the_request(&world), permission_answer(verdict));
    assert!(last_result(&world).1.contains("use the other file"));
    world.only(is_ask);
}

#[test]
fn unavailable_user_denies_and_the_turn_continues() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    world.answer(&the_request(&world), permission_answer(Verdict::UserNotAvailable));
    assert_eq!(last_result(&world).1, "Permission denied and could not request permission from user");
    world.only(is_ask);
}

#[test]
fn session_grant_survives_a_crash() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    world.answer(&the_request(&world), permission_answer(Verdict::ApproveForSession(None)));
    world.abort();
    world.crash();
    world.resume(1, &[], None);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(2, &["view"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, needs_permission(&"call-2-0".into(), Route::BuiltIn));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn client_tool_result_counts_once_it_is_durable() {
    let mut world = acting("client_tool", |_| runnable(Route::Client));
    let request = the_request(&world);
    let reply = world.answer(&request, tool_result());
    assert!(world.outcome_of(reply).is_none(), "not before hooks and limits");
    let rival = world.answer(&request, tool_result());
    assert_eq!(world.outcome_of(rival), Some(AnswerOutcome::TooLate));
    let finish = world.only(|w| matches!(w, Work::FinishCall { .. }));
    world.finish(finish, WorkResult::RunTool(ToolResult::success("42")));
    assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
    assert_eq!(last_result(&world), (true, "42".into()));
}

#[test]
fn rejected_tool_result_ends_the_turn() {
    let mut world = acting("client_tool", |_| runnable(Route::Client));
    world.answer(&the_request(&world), tool_result());
    let finish = world.only(|w| matches!(w, Work::FinishCall { .. }));
    let rejected = ToolResult { result_type: ResultType::Rejected, ..ToolResult::failure("no") };
    world.finish(finish, WorkResult::RunTool(rejected));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn successful_terminal_tool_ends_the_turn() {
    let mut world = World::new();
    world.attach(2, &["terminal_tool"]);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &["terminal_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, WorkResult::PrepareCall(Prepared::Finished(ToolResult::success("bye"))));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world), (Outcome::Completed, "the tool terminal_tool ended the turn".into()));
}

#[test]
fn queued_prompts_run_in_order() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.prompt(SendMode::Enqueue);
    for round in 1..=3 {
        world.finish(world.only(is_ask), model_answer(round, &[]));
        if round < 3 {
            assert_ne!(world.last_shown(), Some("session.idle"), "not idle while the queue has items");
            world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
        }
    }
    assert_eq!(world.outcomes().len(), 3);
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn queued_prompt_can_be_withdrawn_and_running_one_cannot() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.prompt(SendMode::Enqueue);
    world.withdraw(Withdrawn::Newest);
    assert_eq!((world.session.durable.inbox.len(), outcome(&world).0), (1, Outcome::Cancelled));
    world.withdraw(Withdrawn::All);
    assert_eq!(world.session.durable.inbox.len(), 0);
    world.withdraw(Withdrawn::All);
    world.only(is_ask);
}

#[test]
fn immediate_prompt_joins_the_turn_at_the_next_round() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    world.prompt(SendMode::Immediate);
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    world.finish(run, WorkResult::RunTool(ToolResult::success("contents")));
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert_eq!(world.outcomes().len(), 2, "both prompts have their outcome in one turn");
    let settled = world.kinds().into_iter().filter(|k| *k == "baton.turn_settled").count();
    assert_eq!(settled, 1);
}

#[test]
fn cancel_ends_the_turn_and_the_queue_but_no_later_prompt() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    world.prompt(SendMode::Enqueue);
    assert!(world.abort());
    assert!(world.running.is_empty());
    assert_eq!(last_result(&world), (false, baton_core::INTERRUPTED.into()));
    assert_eq!(world.outcomes().len(), 2);
    assert_eq!(outcome(&world).0, Outcome::Cancelled);
    let messages = world.kinds().into_iter().filter(|k| *k == "user.message").count();
    assert_eq!(messages, 2, "a cancelled prompt is in the history too");
    world.prompt(SendMode::Enqueue);
    world.only(|w| matches!(w, Work::PreparePrompt { .. }));
}

#[test]
fn call_of_an_unknown_tool_ends_at_once() {
    let mut world = asking();
    let WorkResult::CallModel(mut answer) = model_answer(1, &["nothing", "bash"]) else { panic!() };
    answer.refused.insert("call-1-0".into(), ToolResult::failure("there is no such tool"));
    world.finish(world.only(is_ask), WorkResult::CallModel(answer));
    world.only(|w| matches!(w, Work::PrepareCall { call } if call.id.0 == "call-1-1"));
    assert_eq!(last_result(&world), (false, "there is no such tool".into()));
    world.abort();
    let over = world.log.iter().filter(|event| matches!(&event.body, Body::ToolComplete(_)));
    assert_eq!(over.count(), 2);
}

#[test]
fn cancel_during_preparation_cancels_the_prompt() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    let prepare = world.only(|w| matches!(w, Work::PreparePrompt { .. }));
    world.abort();
    world.finish(prepare, prepared_prompt());
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world).0, Outcome::Cancelled);
}

#[test]
fn cancel_of_an_idle_session_records_nothing() {
    let mut world = World::new();
    let before = world.log.len();
    assert!(!world.abort());
    assert_eq!((world.log.len(), world.shown.len()), (before, 0));
}

#[test]
fn cancel_closes_open_requests() {
    let mut world = acting("view", |call| needs_permission(call, Route::BuiltIn));
    let request = the_request(&world);
    world.abort();
    let closed = world.log.iter().find_map(|event| match &event.body {
        Body::PermissionCompleted(c) => Some((c.request_id.clone(), c.result.clone())),
        _ => None,
    });
    let (id, result) = closed.unwrap();
    assert_eq!(id, request);
    assert!(matches!(result, PermissionOutcome::Cancelled { .. }));
    let late = world.answer(&request, approve());
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn failed_model_call_fails_the_turn_and_the_queue_continues() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(is_ask), model_failure());
    assert_eq!(outcome(&world), (Outcome::Failed, "no".into()));
    world.only(|w| matches!(w, Work::PreparePrompt { .. }));
}

#[test]
fn question_goes_to_the_newest_client_and_then_to_the_next() {
    let mut world = World::new();
    world.attach(2, &[]);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &["ask_user"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, asks_user(Question::UserInput(user_question())));
    let to = |world: &World| {
        world.running.values().find_map(|w| match w {
            Work::DeliverQuestion { client, .. } => Some(client.0),
            _ => None,
        })
    };
    assert_eq!(to(&world), Some(2));
    world.detach(2);
    assert_eq!(to(&world), Some(1));
    let request = the_request(&world);
    world.answer(&request, RequestAnswer::UserInput { answer: "the left".into(), was_freeform: true });
    assert_eq!(last_result(&world), (true, "User responded: the left".into()));
}

#[test]
fn question_without_a_user_fails_and_the_turn_continues() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &["ask_user"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, asks_user(Question::UserInput(user_question())));
    let request = the_request(&world);
    world.answer(&request, RequestAnswer::NoUser);
    let (success, told) = last_result(&world);
    assert!(!success);
    assert!(told.contains("could not be asked"), "{told}");
    world.only(is_ask);
    world.answer(&request, RequestAnswer::UserInput { answer: "late".into(), was_freeform: true });
    assert!(!last_result(&world).0, "the first answer counted");
}

#[test]
fn tools_of_a_detached_client_are_removed_and_the_model_is_informed_once() {
    let mut world = World::new();
    let updates = |world: &World| {
        world.shown.iter().filter(|event| event.body.kind() == "session.tools_updated").count()
    };
    world.attach(2, &["ephemeral_tool"]);
    assert_eq!(updates(&world), 1, "clients are notified of new tools");
    world.detach(2);
    assert_eq!(updates(&world), 2, "and of removed ones");
    world.prompt(SendMode::Enqueue);
    let gone = |world: &World| {
        world.running.values().find_map(|w| match w {
            Work::PreparePrompt { tools_gone, .. } => Some(tools_gone.clone()),
            _ => None,
        })
    };
    assert_eq!(gone(&world), Some(vec!["ephemeral_tool".to_owned()]));
    world.abort();
    world.prompt(SendMode::Enqueue);
    assert_eq!(gone(&world), Some(vec![]));
}
