//! Sub-agents: tasks that the model hands on.

use super::*;
use baton_protocol::AgentId;
use baton_protocol::event::ExecutionMode;

/// A turn in which the model has handed one task on.
fn delegated(mode: ExecutionMode) -> (World, AgentId) {
    let world = acting("task", |_| delegation(mode));
    let agents = world.agents();
    assert_eq!(agents.len(), 1);
    (world, agents[0].clone())
}

fn asks_for(agent: &AgentId) -> impl Fn(&Work) -> bool {
    let ask = Work::Ask { agent: Some(agent.clone()) };
    move |work| *work == ask
}

fn is_finish(work: &Work) -> bool {
    matches!(work, Work::FinishCall { .. })
}

fn kinds_of(world: &World, agent: &AgentId) -> Vec<String> {
    let events = world.log.iter().filter(|event| event.agent_id.as_ref() == Some(agent));
    events.map(|event| event.body.kind().to_owned()).collect()
}

fn result_text(world: &World, work: baton_core::WorkId) -> String {
    let Work::FinishCall { result, .. } = &world.running[&work] else { return String::new() };
    result.text_result_for_llm.clone()
}

#[test]
fn a_task_is_worked_on_in_rounds_of_its_own_and_its_answer_is_the_result() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    assert!(!world.running.values().any(is_ask), "the main conversation waits");
    world.finish(world.only(asks_for(&agent)), said(1, &["view"]));
    world.finish(world.only(|w| matches!(w, Work::PrepareCall { .. })), runnable(Route::BuiltIn));
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    assert_eq!(world.running[&run].agent(), Some(&agent), "although its call has the name of the main one's");
    world.finish(run, WorkResult::RunTool(ToolResult::success("seen")));
    world.finish(world.only(asks_for(&agent)), said(2, &[]));
    assert_eq!(
        kinds_of(&world, &agent),
        [
            "subagent.started",
            "system.message",
            "user.message",
            "assistant.turn_start",
            "assistant.message",
            "tool.execution_start",
            "tool.execution_complete",
            "assistant.turn_end",
            "assistant.turn_start",
            "assistant.message",
            "assistant.turn_end",
            "subagent.completed",
        ]
    );
    let finish = world.only(is_finish);
    assert_eq!(result_text(&world, finish), "text");
    world.finish(finish, WorkResult::RunTool(ToolResult::success("text")));
    world.finish(world.only(is_ask), said(3, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn a_turn_stays_open_for_agents_in_the_background_and_the_model_hears_of_them() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    let finish = world.only(is_finish);
    assert!(result_text(&world, finish).contains(&agent.0));
    world.finish(finish, WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), said(2, &[]));
    assert!(world.session.is_busy() && world.outcomes().is_empty(), "the turn waits for its agent");
    world.finish(world.only(asks_for(&agent)), said(3, &[]));
    let told = world.log.iter().find_map(|event| match &event.body {
        Body::SystemNotification(notice) => Some(notice.content.clone()),
        _ => None,
    });
    assert!(told.unwrap().contains("completed successfully"));
    world.finish(world.only(is_ask), said(4, &[]));
    assert_eq!((outcome(&world).0, world.last_shown()), (Outcome::Completed, Some("session.idle")));
}

/// What happens while the model is being asked is not in its question: it is asked once more.
#[test]
fn an_agent_that_ends_while_the_model_answers_is_heard_of_afterwards() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(asks_for(&agent)), said(2, &[]));
    world.finish(world.only(is_ask), said(3, &[]));
    world.finish(world.only(is_ask), said(4, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn a_prompt_joins_a_turn_that_only_waits_for_agents() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), said(2, &[]));
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), said(3, &[]));
    world.finish(world.only(asks_for(&agent)), said(4, &[]));
    world.finish(world.only(is_ask), said(5, &[]));
    assert_eq!(world.outcomes().len(), 2);
}

#[test]
fn cancel_ends_agents_with_their_calls_and_requests() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    world.finish(world.only(asks_for(&agent)), said(1, &["client_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, wants(&"call-1-0".into(), Route::Client));
    let request = only_request(&world);
    world.abort();
    assert!(world.running.is_empty() && world.open_requests().is_empty());
    let cancelled = world.log.iter().any(
        |event| matches!(&event.body, Body::SubagentCompleted(completed) if completed.cancelled == Some(true)),
    );
    assert!(cancelled);
    let late = world.answer(&request, approve());
    assert_eq!(world.replies[&late], Reply::TooLate);
}

#[test]
fn an_agent_that_cannot_ask_its_model_fails_and_its_turn_goes_on() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    world.finish(world.only(asks_for(&agent)), failed());
    assert!(kinds_of(&world, &agent).contains(&"subagent.failed".to_owned()));
    let finish = world.only(is_finish);
    assert!(result_text(&world, finish).contains("The agent failed: no"));
    world.finish(finish, WorkResult::RunTool(ToolResult::failure("no")));
    world.only(is_ask);
}

#[test]
fn one_agent_can_be_stopped_alone() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), said(2, &[]));
    assert_eq!(world.stop_agent(&agent), Reply::Aborted { had_work: true });
    assert_eq!(world.stop_agent(&agent), Reply::Aborted { had_work: false });
    world.only(is_ask);
}

#[test]
fn a_call_that_waits_for_an_agent_is_run_when_it_has_ended() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), said(2, &["read_agent"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, WorkResult::PrepareCall(Prepared::AfterAgent(agent.clone())));
    assert!(!world.running.values().any(|w| matches!(w, Work::RunTool { .. })));
    world.finish(world.only(asks_for(&agent)), said(3, &[]));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

/// A client's agent has a turn of its own where there is none, and nobody's prompt has an outcome because of it.
#[test]
fn a_client_starts_an_agent_in_a_session_at_rest() {
    let mut world = World::new();
    let started = world.start_agent();
    let agent = world.agents()[0].clone();
    assert_eq!(started, Reply::AgentStarted(agent.clone()));
    world.finish(world.only(asks_for(&agent)), said(1, &[]));
    world.finish(world.only(is_ask), said(2, &[]));
    assert!(!world.session.is_busy() && world.outcomes().is_empty());
    let known: Vec<_> = world.session.durable.known_agents().map(|agent| agent.answer.as_str()).collect();
    assert_eq!(known, ["text"], "what came of it can still be asked for");
}

/// The turn of a client's agent outlives a prompt that is taken back, and a prompt that comes joins it.
#[test]
fn prompts_join_the_turn_of_a_clients_agent() {
    let mut world = World::new();
    world.start_agent();
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.prompt(SendMode::Enqueue);
    world.withdraw(true);
    assert_eq!(world.agents().len(), 1);
    world.finish(world.only(is_ask), said(1, &[]));
    world.finish(world.only(asks_for(&world.agents()[0])), said(2, &[]));
    world.finish(world.only(is_ask), said(3, &[]));
    assert_eq!((world.session.is_busy(), world.outcomes().len()), (false, 2));
}

/// P4: what an agent was doing at a crash is interrupted, and so is the agent; nothing of it runs again.
#[test]
fn agents_do_not_survive_a_crash() {
    for mode in [ExecutionMode::Sync, ExecutionMode::Background] {
        let (mut world, agent) = delegated(mode);
        if mode == ExecutionMode::Background {
            world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
        }
        world.finish(world.only(asks_for(&agent)), said(1, &["client_tool"]));
        let prepare = world.only(|w| matches!(w, Work::PrepareCall { call } if call.agent.is_some()));
        world.finish(prepare, wants(&"call-1-0".into(), Route::Client));
        world.crash();
        world.resume(2, &[], Some(true));
        assert!(world.agents().is_empty() && world.open_requests().is_empty());
        let kinds = kinds_of(&world, &agent);
        assert_eq!(kinds.last().map(String::as_str), Some("subagent.failed"), "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool.execution_complete").count(), 1);
        while world.session.is_busy() {
            world.finish(world.only(is_ask), said(9, &[]));
        }
        assert_eq!(outcome(&world).0, Outcome::Completed);
    }
}
