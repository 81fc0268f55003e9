//! What a session does, told as short stories. The laws that hold for all stories are in `laws.rs`.
#![allow(clippy::expect_used, reason = "a test that finds nothing to look at must fail")]

#[path = "behaviour/agents.rs"]
mod agents;
#[path = "behaviour/engine.rs"]
mod engine;
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
mod world;

use baton_core::{Answer, Input, Output, Prepared, Reply, Route, Work, WorkResult};
use baton_protocol::RequestId;
use baton_protocol::event::{Body, Outcome, Question, SendMode};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::tool::{ResultType, ToolResult};
use world::*;

fn is_ask(work: &Work) -> bool {
    *work == Work::Ask { agent: None }
}

/// Sends a prompt and brings it to the model.
fn asking() -> World {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    let prepare = world.only(|w| matches!(w, Work::PreparePrompt { .. }));
    world.finish(prepare, prepared_prompt());
    world
}

/// A turn in which the model has called one tool, and `prepared` is known of it.
fn acting(tool: &str, prepared: impl FnOnce(&baton_protocol::ToolCallId) -> WorkResult) -> World {
    let mut world = asking();
    world.finish(world.only(is_ask), said(1, &[tool]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, prepared(&"call-1-0".into()));
    world
}

fn only_request(world: &World) -> RequestId {
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
    complete.expect("no call is over yet")
}

#[test]
fn a_simple_turn() {
    let mut world = asking();
    world.finish(world.only(is_ask), said(1, &[]));
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
fn a_prompt_is_acknowledged_before_anything_is_started_for_it() {
    let mut world = World::new();
    let reply = baton_core::ReplyTo(77);
    let out = world.take(Input::Prompt { reply, prompt: Default::default() });
    let at = |f: fn(&Output) -> bool| out.iter().position(f).unwrap();
    let recorded = at(|o| matches!(o, Output::Record(_)));
    let acknowledged = at(|o| matches!(o, Output::Reply(_, Reply::Accepted(_))));
    let started = at(|o| matches!(o, Output::Start(..)));
    assert!(recorded < acknowledged && acknowledged < started);
}

#[test]
fn the_same_key_is_the_same_prompt_also_after_a_crash() {
    let mut world = World::new();
    let send = |world: &mut World, n: u64| {
        let (reply, key) = (baton_core::ReplyTo(n), Some("k1".to_owned()));
        let prompt = baton_protocol::event::Prompt { text: "hi".into(), key, ..Default::default() };
        world.take(Input::Prompt { reply, prompt });
        world.replies[&reply].clone()
    };
    let first = send(&mut world, 1001);
    assert_eq!(send(&mut world, 1002), first);
    world.crash();
    assert_eq!(send(&mut world, 1003), first);
    assert_eq!(world.accepted.len(), 1);
}

#[test]
fn a_built_in_tool_runs_and_the_model_is_asked_again() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    world.finish(run, WorkResult::RunTool(ToolResult::success("contents")));
    assert_eq!(last_result(&world), (true, "contents".into()));
    world.finish(world.only(is_ask), said(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    let rounds: Vec<&str> = world.kinds().into_iter().filter(|k| *k == "assistant.turn_start").collect();
    assert_eq!(rounds.len(), 2);
}

#[test]
fn a_permission_waits_and_the_first_answer_counts() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    let request = only_request(&world);
    assert!(world.running.is_empty(), "nothing runs before somebody allows it");
    let first = world.answer(&request, approve());
    let second = world.answer(&request, reject());
    assert_eq!((&world.replies[&first], &world.replies[&second]), (&Reply::Counted, &Reply::TooLate));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn an_answer_to_nothing_is_told_so() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    let stranger = world.answer(&"no-such-request".into(), approve());
    assert_eq!(world.replies[&stranger], Reply::NoSuchRequest);
    let misfit = world.answer(&only_request(&world), tool_result());
    assert_eq!(world.replies[&misfit], Reply::Mismatch);
    assert_eq!(world.open_requests().len(), 1, "the request still waits");
}

#[test]
fn a_rejection_ends_the_turn_without_asking_the_model_again() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    world.answer(&only_request(&world), reject());
    assert_eq!(last_result(&world), (false, "The user rejected this tool call.".into()));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world), (Outcome::Completed, "The user rejected this tool call.".into()));
}

#[test]
fn a_rejection_with_feedback_is_told_to_the_model() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    let verdict = Verdict::Reject { feedback: Some("use the other file".into()) };
    world.answer(&only_request(&world), decided(verdict));
    assert!(last_result(&world).1.contains("use the other file"));
    world.only(is_ask);
}

#[test]
fn when_nobody_can_be_asked_the_model_is_told_and_goes_on() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    world.answer(&only_request(&world), decided(Verdict::UserNotAvailable));
    assert_eq!(last_result(&world).1, "Permission denied and could not request permission from user");
    world.only(is_ask);
}

#[test]
fn a_grant_for_the_session_is_remembered_across_a_crash() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    world.answer(&only_request(&world), decided(Verdict::ApproveForSession(None)));
    world.abort();
    world.crash();
    world.resume(1, &[], None);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(2, &["view"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, wants(&"call-2-0".into(), Route::BuiltIn));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

#[test]
fn a_clients_tool_counts_when_its_result_is_durable() {
    let mut world = acting("client_tool", |_| runnable(Route::Client));
    let request = only_request(&world);
    let reply = world.answer(&request, tool_result());
    assert!(!world.replies.contains_key(&reply), "not before hooks and limits had their say");
    let rival = world.answer(&request, tool_result());
    assert_eq!(world.replies[&rival], Reply::TooLate);
    let finish = world.only(|w| matches!(w, Work::FinishCall { .. }));
    world.finish(finish, WorkResult::RunTool(ToolResult::success("42")));
    assert_eq!(world.replies[&reply], Reply::Counted);
    assert_eq!(last_result(&world), (true, "42".into()));
}

#[test]
fn a_result_that_rejects_ends_the_turn() {
    let mut world = acting("client_tool", |_| runnable(Route::Client));
    world.answer(&only_request(&world), tool_result());
    let finish = world.only(|w| matches!(w, Work::FinishCall { .. }));
    let rejected = ToolResult { result_type: ResultType::Rejected, ..ToolResult::failure("no") };
    world.finish(finish, WorkResult::RunTool(rejected));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn a_terminal_tool_ends_the_turn_when_it_succeeds() {
    let mut world = World::new();
    world.attach(2, &["terminal_tool"]);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(1, &["terminal_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, WorkResult::PrepareCall(Prepared::Finished(ToolResult::success("bye"))));
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world), (Outcome::Completed, "the tool terminal_tool ended the turn".into()));
}

#[test]
fn prompts_wait_their_turn_in_order() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.prompt(SendMode::Enqueue);
    for round in 1..=3 {
        world.finish(world.only(is_ask), said(round, &[]));
        if round < 3 {
            assert_ne!(world.last_shown(), Some("session.idle"), "idle only when nothing waits");
            world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
        }
    }
    assert_eq!(world.outcomes().len(), 3);
    assert_eq!(world.last_shown(), Some("session.idle"));
}

#[test]
fn a_prompt_that_waits_can_be_taken_back_and_one_that_runs_cannot() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.prompt(SendMode::Enqueue);
    world.withdraw(false);
    assert_eq!((world.session.durable.inbox.len(), outcome(&world).0), (1, Outcome::Cancelled));
    world.withdraw(true);
    assert_eq!(world.session.durable.inbox.len(), 0);
    world.withdraw(true);
    world.only(is_ask);
}

#[test]
fn an_immediate_prompt_joins_the_running_turn_at_the_next_model_call() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    world.prompt(SendMode::Immediate);
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    world.finish(run, WorkResult::RunTool(ToolResult::success("contents")));
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(2, &[]));
    assert_eq!(world.outcomes().len(), 2, "both prompts had their outcome in one turn");
    let settled = world.kinds().into_iter().filter(|k| *k == "baton.turn_settled").count();
    assert_eq!(settled, 1);
}

#[test]
fn cancel_ends_what_runs_and_what_waits_and_nothing_later() {
    let mut world = acting("view", |_| runnable(Route::BuiltIn));
    world.prompt(SendMode::Enqueue);
    assert_eq!(world.abort(), Reply::Aborted { had_work: true });
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
fn a_call_of_a_tool_that_is_not_there_is_over_before_a_cancel_can_reach_it() {
    let mut world = asking();
    let WorkResult::Ask(mut answer) = said(1, &["nothing", "bash"]) else { panic!() };
    answer.refused.insert("call-1-0".into(), ToolResult::failure("there is no such tool"));
    world.finish(world.only(is_ask), WorkResult::Ask(answer));
    world.only(|w| matches!(w, Work::PrepareCall { call } if call.id.0 == "call-1-1"));
    assert_eq!(last_result(&world), (false, "there is no such tool".into()));
    world.abort();
    let over = world.log.iter().filter(|event| matches!(&event.body, Body::ToolComplete(_)));
    assert_eq!(over.count(), 2);
}

#[test]
fn a_cancel_while_a_prompt_is_being_prepared_is_not_lost() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    let prepare = world.only(|w| matches!(w, Work::PreparePrompt { .. }));
    world.abort();
    world.finish(prepare, prepared_prompt());
    assert!(world.running.is_empty());
    assert_eq!(outcome(&world).0, Outcome::Cancelled);
}

#[test]
fn a_cancel_of_an_idle_session_leaves_nothing_behind() {
    let mut world = World::new();
    let before = world.log.len();
    assert_eq!(world.abort(), Reply::Aborted { had_work: false });
    assert_eq!((world.log.len(), world.shown.len()), (before, 0));
}

#[test]
fn cancel_closes_open_requests_so_that_nobody_goes_on_showing_them() {
    let mut world = acting("view", |call| wants(call, Route::BuiltIn));
    let request = only_request(&world);
    world.abort();
    let closed = world.log.iter().find_map(|event| match &event.body {
        Body::PermissionCompleted(c) => Some((c.request_id.clone(), c.result.clone())),
        _ => None,
    });
    let (id, result) = closed.unwrap();
    assert_eq!(id, request);
    assert!(matches!(result, PermissionOutcome::Cancelled { .. }));
    let late = world.answer(&request, approve());
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn a_model_that_fails_ends_the_turn_and_the_next_prompt_runs() {
    let mut world = asking();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(is_ask), failed());
    assert_eq!(outcome(&world), (Outcome::Failed, "no".into()));
    world.only(|w| matches!(w, Work::PreparePrompt { .. }));
}

#[test]
fn a_question_goes_to_the_newest_client_and_to_the_next_when_that_one_leaves() {
    let mut world = World::new();
    world.attach(2, &[]);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(1, &["ask_user"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, asks(Question::UserInput(user_question())));
    let to = |world: &World| {
        world.running.values().find_map(|w| match w {
            Work::DeliverQuestion { client, .. } => Some(client.0),
            _ => None,
        })
    };
    assert_eq!(to(&world), Some(2));
    world.detach(2);
    assert_eq!(to(&world), Some(1));
    let request = only_request(&world);
    world.answer(&request, Answer::UserInput { answer: "the left".into(), was_freeform: true });
    assert_eq!(last_result(&world), (true, "User responded: the left".into()));
}

#[test]
fn a_question_that_cannot_be_put_to_the_user_fails_and_the_turn_goes_on() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(1, &["ask_user"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, asks(Question::UserInput(user_question())));
    let request = only_request(&world);
    world.answer(&request, Answer::NoUser);
    let (success, told) = last_result(&world);
    assert!(!success);
    assert!(told.contains("could not be asked"), "{told}");
    world.only(is_ask);
    world.answer(&request, Answer::UserInput { answer: "late".into(), was_freeform: true });
    assert!(!last_result(&world).0, "the first answer counted");
}

#[test]
fn a_client_that_leaves_takes_its_tools_and_the_model_is_told_once() {
    let mut world = World::new();
    let updates = |world: &World| {
        world.shown.iter().filter(|event| event.body.kind() == "session.tools_updated").count()
    };
    world.attach(2, &["ephemeral_tool"]);
    assert_eq!(updates(&world), 1, "everybody is told when tools come");
    world.detach(2);
    assert_eq!(updates(&world), 2, "and when they go");
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
