//! Coming back: what becomes of pending work when clients leave, return, or the server was killed.

use super::*;

fn waiting_for_client() -> (World, RequestId) {
    let world = acting("client_tool", |_| runnable(Route::Client));
    let request = only_request(&world);
    (world, request)
}

fn was_active(world: &World) -> Option<bool> {
    world.log.iter().rev().find_map(|event| match &event.body {
        Body::SessionResume(resume) => resume.session_was_active,
        _ => None,
    })
}

#[test]
fn while_another_client_is_attached_pending_work_stays() {
    let (mut world, request) = waiting_for_client();
    world.resume(2, &[], Some(false));
    assert_eq!(was_active(&world), Some(true));
    assert_eq!(only_request(&world), request);
}

#[test]
fn continued_after_a_crash_the_request_keeps_its_id_and_the_turn_goes_on() {
    let (mut world, request) = waiting_for_client();
    world.crash();
    world.resume(2, &["client_tool"], Some(true));
    assert_eq!((was_active(&world), only_request(&world)), (Some(false), request.clone()));
    world.answer(&request, tool_result());
    world.finish(
        world.only(|w| matches!(w, Work::FinishCall { .. })),
        WorkResult::RunTool(ToolResult::success("42")),
    );
    world.finish(world.only(is_ask), said(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn not_continued_after_a_crash_it_is_closed_as_interrupted_and_nothing_runs() {
    let (mut world, request) = waiting_for_client();
    world.crash();
    world.resume(2, &[], None);
    assert_eq!(last_result(&world), (false, baton_core::INTERRUPTED.into()));
    assert_eq!(outcome(&world).0, Outcome::Interrupted);
    assert!(world.running.is_empty());
    let late = world.answer(&request, tool_result());
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn a_newcomer_with_the_pending_tool_starts_over() {
    let (mut world, _) = waiting_for_client();
    world.detach(1);
    world.resume(2, &["client_tool"], Some(false));
    assert_eq!((was_active(&world), world.open_requests().len()), (Some(false), 0));
}

#[test]
fn a_newcomer_without_tools_may_answer_what_is_pending() {
    let (mut world, request) = waiting_for_client();
    world.detach(1);
    world.resume(2, &[], Some(false));
    assert_eq!((was_active(&world), only_request(&world)), (Some(true), request));
}

#[test]
fn a_tool_that_was_running_is_never_run_again() {
    let mut world = acting("bash", |_| runnable(Route::BuiltIn));
    world.only(|w| matches!(w, Work::RunTool { .. }));
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(last_result(&world), (false, baton_core::INTERRUPTED.into()));
    world.only(is_ask);
}

#[test]
fn a_model_call_that_left_nothing_is_made_again() {
    let mut world = asking();
    world.crash();
    world.resume(2, &[], Some(true));
    world.only(is_ask);
    let starts = world.kinds().into_iter().filter(|k| *k == "assistant.turn_start").count();
    assert_eq!(starts, 1, "it is the same round");
}

#[test]
fn an_accepted_prompt_survives_a_crash() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.crash();
    world.resume(2, &[], Some(true));
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(1, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}
