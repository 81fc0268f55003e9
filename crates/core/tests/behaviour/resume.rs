//! Resume: pending work after clients detached or the server was killed.

use super::*;

fn waiting_for_client() -> (World, RequestId) {
    let world = acting("client_tool", |_| runnable(Route::Client));
    let request = the_request(&world);
    (world, request)
}

fn was_active(world: &World) -> Option<bool> {
    world.log.iter().rev().find_map(|event| match &event.body {
        Body::SessionResume(resume) => resume.session_was_active,
        _ => None,
    })
}

#[test]
fn pending_work_stays_while_another_client_is_attached() {
    let (mut world, request) = waiting_for_client();
    world.resume(2, &[], Some(false));
    assert_eq!(was_active(&world), Some(true));
    assert_eq!(the_request(&world), request);
}

#[test]
fn continued_request_keeps_its_id_after_a_crash() {
    let (mut world, request) = waiting_for_client();
    world.crash();
    world.resume(2, &["client_tool"], Some(true));
    assert_eq!((was_active(&world), the_request(&world)), (Some(false), request.clone()));
    world.answer(&request, tool_result());
    world.finish(
        world.only(|w| matches!(w, Work::FinishCall { .. })),
        WorkResult::RunTool(ToolResult::success("42")),
    );
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn work_that_is_not_continued_after_a_crash_is_interrupted() {
    let (mut world, request) = waiting_for_client();
    world.crash();
    world.resume(2, &[], None);
    assert_eq!(last_result(&world), (false, baton_core::INTERRUPTED.into()));
    assert_eq!(outcome(&world).0, Outcome::Interrupted);
    assert!(world.running.is_empty());
    let late = world.answer(&request, tool_result());
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn resuming_client_with_the_pending_tool_starts_over() {
    let (mut world, _) = waiting_for_client();
    world.detach(1);
    world.resume(2, &["client_tool"], Some(false));
    assert_eq!((was_active(&world), world.open_requests().len()), (Some(false), 0));
}

#[test]
fn resuming_client_without_tools_can_answer_pending_requests() {
    let (mut world, request) = waiting_for_client();
    world.detach(1);
    world.resume(2, &[], Some(false));
    assert_eq!((was_active(&world), the_request(&world)), (Some(true), request));
}

#[test]
fn running_tool_is_not_run_again_after_a_crash() {
    let mut world = acting("bash", |_| runnable(Route::BuiltIn));
    world.only(|w| matches!(w, Work::RunTool { .. }));
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(last_result(&world), (false, baton_core::INTERRUPTED.into()));
    world.only(is_ask);
}

#[test]
fn model_call_without_a_result_is_repeated_after_a_crash() {
    let mut world = asking();
    world.crash();
    world.resume(2, &[], Some(true));
    world.only(is_ask);
    let starts = world.kinds().into_iter().filter(|k| *k == "assistant.turn_start").count();
    assert_eq!(starts, 1, "it is the same round");
}

#[test]
fn accepted_prompt_survives_a_crash() {
    let mut world = World::new();
    world.prompt(SendMode::Enqueue);
    world.crash();
    world.resume(2, &[], Some(true));
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}
