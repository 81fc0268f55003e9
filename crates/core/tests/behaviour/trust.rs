//! Questions whether to trust the workspace, before the model is called.

use super::*;
use baton_core::{PreparedPrompt, RequestAnswer, TRUST_TOOL, TrustQuestion, TrustTerm};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, Json};

fn distrusted_prompt() -> WorkResult {
    let wants = PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: "trust".into(),
        tool_args: None,
        hook_message: Some("trust it?".into()),
    };
    let trust = Some(Box::new(TrustQuestion { arguments: Json::empty_object(), wants }));
    WorkResult::PreparePrompt(PreparedPrompt { content: "prompt".into(), trust, ..PreparedPrompt::default() })
}

/// A session whose first prompt came with a question.
fn asked() -> World {
    let mut world = World::new();
    world.attach(1, &[]);
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), distrusted_prompt());
    world
}

/// Returns how long the workspace is trusted; none if it is not.
fn trusted(world: &World) -> Option<TrustTerm> {
    world.running.values().find_map(|work| match work {
        Work::Trust { term, .. } => Some(*term),
        _ => None,
    })
}

#[test]
fn model_is_called_after_the_answer() {
    let mut world = asked();
    assert!(!world.running.values().any(is_ask), "not before the answer");
    world.answer(&the_request(&world), approve());
    assert_eq!(trusted(&world), Some(TrustTerm::UntilChanged));
    world.finish(
        world.only(|w| matches!(w, Work::Trust { .. })),
        WorkResult::RunTool(ToolResult::success("ok")),
    );
    world.finish(world.only(is_ask), model_answer(1, &[]));
    assert!(world.session.durable.turn.is_none(), "the turn is over");
}

#[test]
fn refusal_does_not_end_the_turn() {
    let mut world = asked();
    world.answer(&the_request(&world), permission_answer(Verdict::Reject { feedback: None }));
    assert_eq!(trusted(&world), None);
    assert!(world.running.values().any(is_ask), "the model is called without what was refused");
}

#[test]
fn question_survives_a_crash() {
    let mut world = asked();
    let request = the_request(&world);
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!(the_request(&world), request);
    assert!(!world.running.values().any(is_ask));
    world.answer(&request, approve());
    assert_eq!(trusted(&world), Some(TrustTerm::UntilChanged));
}

#[test]
fn client_that_approves_everything_trusts_for_the_session() {
    let mut world = asked();
    world.answer(&the_request(&world), RequestAnswer::ApproveUnattended(Author::unattended()));
    assert_eq!(trusted(&world), Some(TrustTerm::Session), "nobody was shown it");
}

#[test]
fn allow_all_mode_trusts_for_the_session_without_asking() {
    let mut world = World::new();
    world.attach(1, &[]);
    world.allow_all();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), distrusted_prompt());
    assert!(world.open_requests().is_empty());
    assert_eq!(trusted(&world), Some(TrustTerm::Session));
}

#[test]
fn model_cannot_answer_for_the_user() {
    let mut world = acting(TRUST_TOOL, |_| {
        WorkResult::PrepareCall(baton_core::Prepared::Finished(ToolResult::failure("no such tool")))
    });
    assert_eq!(trusted(&world), None);
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert!(world.session.durable.turn.is_none());
}
