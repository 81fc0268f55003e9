//! Plans that need approval.

use baton_core::Change;
use baton_protocol::Author;
use baton_protocol::event::{AgentMode, PlanAction, PlanAnswer};
use baton_protocol::permission::Approval;

use super::*;

/// A turn in plan mode whose model has proposed a plan, in a session of `mode`.
fn planning(mode: AgentMode) -> (World, RequestId) {
    let mut world = World::new();
    world.change(Change::Mode(mode));
    world.prompt_in(AgentMode::Plan);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(1, &["exit_plan_mode"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, asks_user(Question::Plan(proposed_plan())));
    let request = the_request(&world);
    (world, request)
}

fn is_delivery(work: &Work) -> bool {
    matches!(work, Work::DeliverQuestion { .. })
}

fn shown(world: &World) -> Vec<&str> {
    let kinds = world.shown.iter().map(|event| event.body.kind());
    kinds.filter(|kind| kind.starts_with("exit_plan_mode")).collect()
}

fn mode_changes(world: &World) -> Vec<(AgentMode, AgentMode)> {
    let changes = world.log.iter().filter_map(|event| match &event.body {
        Body::ModeChanged(change) => Some((change.previous_mode, change.new_mode)),
        _ => None,
    });
    changes.collect()
}

#[test]
fn approved_plan_continues_in_the_chosen_mode() {
    use AgentMode::{Autopilot, Interactive, Plan};
    for (session, action, mode) in [
        (Plan, PlanAction::Interactive, Interactive),
        (Plan, PlanAction::Autopilot, Autopilot),
        (Interactive, PlanAction::AutopilotFleet, Autopilot),
        (Interactive, PlanAction::Interactive, Interactive),
    ] {
        let (mut world, request) = planning(session);
        assert_eq!((world.session.durable.mode(), shown(&world)), (Plan, vec!["exit_plan_mode.requested"]));
        world.only(is_delivery);
        let reply = world.answer(&request, plan_approved(action));
        assert_eq!(world.outcome_of(reply), Some(AnswerOutcome::Counted));
        assert_eq!(shown(&world).last(), Some(&"exit_plan_mode.completed"));
        assert_eq!(mode_changes(&world).last(), Some(&(Plan, mode)));
        assert_eq!((world.session.durable.mode(), world.session.durable.facts.mode), (mode, mode));
        let (success, told) = last_result(&world);
        assert!(success && told.starts_with("Plan approved! Exited plan mode."), "{told}");
        let names_mode =
            told.contains(if mode == Autopilot { "in autopilot mode" } else { "in interactive mode" });
        assert!(
            names_mode && told.contains("sub-agents") == (action == PlanAction::AutopilotFleet),
            "{told}"
        );
        assert!(!world.running.values().any(is_delivery), "no client shows it any more");
        world.only(is_ask);
        let late = world.answer(&request, plan_refused(None));
        assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
    }
}

#[test]
fn plan_approved_for_later_ends_the_turn() {
    let later = PlanAnswer::Approved {
        action: PlanAction::Autopilot,
        approves_edits: false,
        defers: true,
        feedback: None,
    };
    let defers = RequestAnswer::Plan(later);
    for (session, answer, mode) in [
        (AgentMode::Plan, plan_approved(PlanAction::ExitOnly), AgentMode::Interactive),
        (AgentMode::Autopilot, plan_approved(PlanAction::ExitOnly), AgentMode::Autopilot),
        (AgentMode::Plan, defers, AgentMode::Autopilot),
    ] {
        let (mut world, request) = planning(session);
        world.answer(&request, answer);
        assert_eq!(outcome(&world).0, Outcome::Completed);
        assert!(world.running.is_empty(), "the model is not called again");
        assert_eq!(world.session.durable.mode(), mode);
        assert!(last_result(&world).1.contains("Do not start"));
    }
}

#[test]
fn plan_approved_for_later_lets_running_calls_finish() {
    let mut world = asking();
    world.finish(world.only(is_ask), model_answer(1, &["exit_plan_mode", "builtin"]));
    let prepare = |world: &World| {
        let mut found = world.running.iter().filter(|(_, w)| matches!(w, Work::PrepareCall { .. }));
        *found.next().expect("a call").0
    };
    world.finish(prepare(&world), asks_user(Question::Plan(proposed_plan())));
    world.finish(prepare(&world), runnable(Route::BuiltIn));
    world.answer(&the_request(&world), plan_approved(PlanAction::ExitOnly));
    let tool = world.only(|w| matches!(w, Work::RunTool { .. }));
    world.finish(tool, WorkResult::RunTool(ToolResult::success("done")));
    assert_eq!(outcome(&world).0, Outcome::Completed);
    assert!(world.running.is_empty());
}

#[test]
fn refused_plan_returns_feedback_to_the_model() {
    let (mut world, request) = planning(AgentMode::Plan);
    world.answer(&request, plan_refused(Some("shorter")));
    let (_, told) = last_result(&world);
    assert!(told.contains("not approved") && told.ends_with("User feedback: shorter"), "{told}");
    assert_eq!((world.session.durable.mode(), mode_changes(&world).len()), (AgentMode::Plan, 1));
    world.only(is_ask);
}

#[test]
fn plan_that_reaches_no_user_changes_nothing() {
    let (mut world, request) = planning(AgentMode::Plan);
    let wrong = world.answer(&request, RequestAnswer::UserInput { answer: "yes".into(), was_freeform: true });
    assert_eq!(
        (world.outcome_of(wrong), the_request(&world)),
        (Some(AnswerOutcome::Mismatch), request.clone())
    );
    world.answer(&request, RequestAnswer::NoUser);
    let (success, told) = last_result(&world);
    assert!(!success && told.contains("still in plan mode"), "{told}");
    assert_eq!(world.session.durable.mode(), AgentMode::Plan);
    world.only(is_ask);
}

#[test]
fn plan_can_be_approved_with_edits() {
    let (mut world, request) = planning(AgentMode::Plan);
    let answer = PlanAnswer::Approved {
        action: PlanAction::Interactive,
        approves_edits: true,
        defers: false,
        feedback: None,
    };
    world.answer(&request, RequestAnswer::Plan(answer));
    let grant = &world.session.durable.grants[0];
    assert_eq!((&grant.approval, &grant.by), (&Approval::Write {}, &Some(Author::http())));
}

#[test]
fn plan_goes_to_the_newest_capable_client() {
    let (mut world, _) = planning(AgentMode::Plan);
    let to = |world: &World| {
        world.running.values().find_map(|w| match w {
            Work::DeliverQuestion { client, .. } => Some(client.0),
            _ => None,
        })
    };
    world.detach(1);
    assert_eq!(to(&world), None);
    let asks_only = baton_core::Profile { user_input: true, ..baton_core::Profile::default() };
    world.take(Input::Attach {
        client: baton_protocol::ClientId(7),
        profile: asks_only,
        arrival: baton_core::Arrival::Watching,
    });
    assert_eq!(to(&world), None, "a client that can show questions cannot necessarily show plans");
    world.attach(3, &[]);
    assert_eq!(to(&world), Some(3));
}

#[test]
fn plan_survives_a_crash_or_is_closed() {
    let (mut world, request) = planning(AgentMode::Interactive);
    world.crash();
    world.resume(2, &[], Some(true));
    assert_eq!((the_request(&world), world.session.durable.mode()), (request.clone(), AgentMode::Plan));
    world.only(is_delivery);
    world.answer(&request, plan_approved(PlanAction::Interactive));
    assert_eq!(world.session.durable.mode(), AgentMode::Interactive);
    world.only(is_ask);

    let (mut world, request) = planning(AgentMode::Interactive);
    world.crash();
    world.resume(2, &[], None);
    assert_eq!((world.open_requests().len(), outcome(&world).0), (0, Outcome::Interrupted));
    let late = world.answer(&request, plan_approved(PlanAction::Interactive));
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
    assert_eq!(mode_changes(&world), [], "a plan that was not approved changes nothing");
}

#[test]
fn cancel_closes_the_plan() {
    let (mut world, _) = planning(AgentMode::Plan);
    world.abort();
    assert_eq!((world.open_requests().len(), outcome(&world).0), (0, Outcome::Cancelled));
    assert_eq!(shown(&world).last(), Some(&"exit_plan_mode.completed"));
    assert_eq!(world.session.durable.mode(), AgentMode::Plan, "the session is still in plan mode");
}

#[test]
fn mode_of_a_prompt_ends_with_its_turn() {
    let mut world = World::new();
    world.prompt_in(AgentMode::Plan);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    assert_eq!(world.session.durable.mode(), AgentMode::Plan);
    world.finish(world.only(is_ask), model_answer(1, &[]));
    assert_eq!(world.session.durable.mode(), AgentMode::Interactive);
}
