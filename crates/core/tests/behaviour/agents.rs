//! Sub-agents.

use baton_core::AgentLimits;
use baton_core::ask::{AgentReport, RunAgent, WithdrawAsk};
use baton_protocol::AgentId;
use baton_protocol::event::ExecutionMode;

use super::*;

/// A turn in which the model has started one sub-agent.
fn delegated(mode: ExecutionMode) -> (World, AgentId) {
    let world = acting("task", |_| delegation(mode));
    let agents = world.agents();
    assert_eq!(agents.len(), 1);
    (world, agents[0].clone())
}

fn asks_for(agent: &AgentId) -> impl Fn(&Work) -> bool {
    let ask = Work::CallModel { agent: Some(agent.clone()) };
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
fn sub_agent_answer_is_the_result_of_its_call() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    assert!(!world.running.values().any(is_ask), "the main conversation waits");
    world.finish(world.only(asks_for(&agent)), model_answer(1, &["view"]));
    world.finish(world.only(|w| matches!(w, Work::PrepareCall { .. })), runnable(Route::BuiltIn));
    let run = world.only(|w| matches!(w, Work::RunTool { .. }));
    assert_eq!(
        world.running[&run].agent(),
        Some(&agent),
        "although its call has the id of a call of the main conversation"
    );
    world.finish(run, WorkResult::RunTool(ToolResult::success("seen")));
    world.finish(world.only(asks_for(&agent)), model_answer(2, &[]));
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
    world.finish(world.only(is_ask), model_answer(3, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn turn_stays_open_for_background_agents() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    let finish = world.only(is_finish);
    assert!(result_text(&world, finish).contains(&agent.0));
    world.finish(finish, WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert!(world.session.is_busy() && world.outcomes().is_empty(), "the turn waits for its agent");
    world.finish(world.only(asks_for(&agent)), model_answer(3, &[]));
    let told = world.log.iter().find_map(|event| match &event.body {
        Body::SystemNotification(notice) => Some(notice.content.clone()),
        _ => None,
    });
    assert!(told.unwrap().contains("completed successfully"));
    world.finish(world.only(is_ask), model_answer(4, &[]));
    assert_eq!((outcome(&world).0, world.last_shown()), (Outcome::Completed, Some("session.idle")));
}

/// The running model call does not include the notification, so there is another round.
#[test]
fn end_of_an_agent_during_a_model_call_causes_another_round() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(asks_for(&agent)), model_answer(2, &[]));
    world.finish(world.only(is_ask), model_answer(3, &[]));
    world.finish(world.only(is_ask), model_answer(4, &[]));
    assert_eq!(outcome(&world).0, Outcome::Completed);
}

#[test]
fn prompt_joins_a_turn_that_waits_for_agents() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), model_answer(2, &[]));
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.finish(world.only(is_ask), model_answer(3, &[]));
    world.finish(world.only(asks_for(&agent)), model_answer(4, &[]));
    world.finish(world.only(is_ask), model_answer(5, &[]));
    assert_eq!(world.outcomes().len(), 2);
}

#[test]
fn cancel_ends_agents_with_their_calls_and_requests() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    world.finish(world.only(asks_for(&agent)), model_answer(1, &["client_tool"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, needs_permission(&"call-1-0".into(), Route::Client));
    let request = the_request(&world);
    world.abort();
    assert!(world.running.is_empty() && world.open_requests().is_empty());
    let cancelled = world.log.iter().any(
        |event| matches!(&event.body, Body::SubagentCompleted(completed) if completed.cancelled == Some(true)),
    );
    assert!(cancelled);
    let late = world.answer(&request, approve());
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn failed_model_call_fails_the_agent_but_not_the_turn() {
    let (mut world, agent) = delegated(ExecutionMode::Sync);
    world.finish(world.only(asks_for(&agent)), model_failure());
    assert!(kinds_of(&world, &agent).contains(&"subagent.failed".to_owned()));
    let finish = world.only(is_finish);
    assert!(result_text(&world, finish).contains("The agent failed: no"));
    world.finish(finish, WorkResult::RunTool(ToolResult::failure("no")));
    world.only(is_ask);
}

#[test]
fn agent_can_be_stopped_alone() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert!(world.stop_agent(&agent));
    assert!(!world.stop_agent(&agent));
    world.only(is_ask);
}

#[test]
fn call_that_waits_for_an_agent_runs_after_its_end() {
    let (mut world, agent) = delegated(ExecutionMode::Background);
    world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
    world.finish(world.only(is_ask), model_answer(2, &["read_agent"]));
    let prepare = world.only(|w| matches!(w, Work::PrepareCall { .. }));
    world.finish(prepare, WorkResult::PrepareCall(Prepared::AfterAgent(agent.clone())));
    assert!(!world.running.values().any(|w| matches!(w, Work::RunTool { .. })));
    world.finish(world.only(asks_for(&agent)), model_answer(3, &[]));
    world.only(|w| matches!(w, Work::RunTool { .. }));
}

/// A turn without a prompt is opened for the agent, and no prompt gets an outcome from it.
#[test]
fn client_starts_an_agent_in_an_idle_session() {
    let mut world = World::new();
    let started = world.start_agent();
    let agent = world.agents()[0].clone();
    assert_eq!(started, Ok(agent.clone()));
    world.finish(world.only(asks_for(&agent)), model_answer(1, &[]));
    world.finish(world.only(is_ask), model_answer(2, &[]));
    assert!(!world.session.is_busy() && world.outcomes().is_empty());
    let known: Vec<_> = world.session.durable.known_agents().map(|agent| agent.answer.as_str()).collect();
    assert_eq!(known, ["text"], "its answer can still be read");
}

/// The turn of a client's agent survives the withdrawal of a prompt, and later prompts join it.
#[test]
fn prompts_join_the_turn_of_a_clients_agent() {
    let mut world = World::new();
    world.start_agent().expect("started");
    world.prompt(SendMode::Enqueue);
    world.finish(world.only(|w| matches!(w, Work::PreparePrompt { .. })), prepared_prompt());
    world.prompt(SendMode::Enqueue);
    world.withdraw(Withdrawn::All);
    assert_eq!(world.agents().len(), 1);
    world.finish(world.only(is_ask), model_answer(1, &[]));
    world.finish(world.only(asks_for(&world.agents()[0])), model_answer(2, &[]));
    world.finish(world.only(is_ask), model_answer(3, &[]));
    assert_eq!((world.session.is_busy(), world.outcomes().len()), (false, 2));
}

/// P4: an agent and its calls are interrupted by a crash, and never run again.
#[test]
fn agents_do_not_survive_a_crash() {
    for mode in [ExecutionMode::Sync, ExecutionMode::Background] {
        let (mut world, agent) = delegated(mode);
        if mode == ExecutionMode::Background {
            world.finish(world.only(is_finish), WorkResult::RunTool(ToolResult::success("started")));
        }
        world.finish(world.only(asks_for(&agent)), model_answer(1, &["client_tool"]));
        let prepare = world.only(|w| matches!(w, Work::PrepareCall { call } if call.agent.is_some()));
        world.finish(prepare, needs_permission(&"call-1-0".into(), Route::Client));
        world.crash();
        world.resume(2, &[], Some(true));
        assert!(world.agents().is_empty() && world.open_requests().is_empty());
        let kinds = kinds_of(&world, &agent);
        assert_eq!(kinds.last().map(String::as_str), Some("subagent.failed"), "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool.execution_complete").count(), 1);
        while world.session.is_busy() {
            world.finish(world.only(is_ask), model_answer(9, &[]));
        }
        assert_eq!(outcome(&world).0, Outcome::Completed);
    }
}

/// Runs an agent for code of a client. Returns the ask that waits for it, and the agent.
fn awaited(world: &mut World) -> (baton_core::AskId, AgentId) {
    let run = RunAgent { task: Box::new(task(ExecutionMode::Sync)), key: "k".into() };
    let asked = world.send(run);
    (asked, world.agents().pop().expect("an agent"))
}

#[test]
fn awaited_agent_reports_to_its_client_and_not_to_the_model() {
    let mut world = World::new();
    let (asked, agent) = awaited(&mut world);
    assert_eq!(world.reply::<RunAgent>(asked), None, "it works");
    world.finish(world.only(asks_for(&agent)), model_answer(1, &[]));
    let report = AgentReport { answer: "text".into(), error: None };
    assert_eq!(world.reply::<RunAgent>(asked), Some(Ok(report)));
    assert!(!world.running.values().any(is_ask), "the model is not called");
    assert!(!world.log.iter().any(|event| event.body.kind() == "system.notification"));
    assert!(world.session.durable.turn.is_none(), "the turn has ended");
}

#[test]
fn awaited_agent_is_stopped_by_name_and_with_its_turn() {
    let mut world = World::new();
    let (asked, _) = awaited(&mut world);
    let (other, _) = awaited(&mut world);
    let stopped = |world: &World, asked| {
        world.reply::<RunAgent>(asked).is_some_and(|report| report.is_ok_and(|report| report.error.is_some()))
    };
    assert!(world.ask(WithdrawAsk { key: "k".into() }).unwrap());
    assert!(stopped(&world, asked) != stopped(&world, other), "one of them");
    world.abort();
    assert!(stopped(&world, asked) && stopped(&world, other));
}

/// A turn in which one answer of the model calls `task` so many times, with these limits.
fn swarm(calls: usize, limits: AgentLimits) -> World {
    let mut world = asking();
    world.finish(world.only(is_ask), model_answer(1, &vec!["task"; calls]));
    let prepared = || {
        let task = Box::new(task(ExecutionMode::Background));
        WorkResult::PrepareCall(Prepared::Handoff { task, limits })
    };
    let is_prepare = |work: &Work| matches!(work, Work::PrepareCall { .. });
    while let Some(work) = world.running.iter().find(|(_, work)| is_prepare(work)).map(|(id, _)| *id) {
        world.finish(work, prepared());
    }
    world
}

fn failed_calls(world: &World) -> Vec<String> {
    let ended = world.log.iter().filter_map(|event| match &event.body {
        Body::ToolComplete(ended) if !ended.success => Some(format!("{ended:?}")),
        _ => None,
    });
    ended.collect()
}

#[test]
fn model_starts_a_limited_number_of_sub_agents() {
    let world = swarm(30, AgentLimits::default());
    assert_eq!(world.agents().len(), 16);
    assert_eq!(failed_calls(&world).len(), 14);
    assert!(failed_calls(&world)[0].contains("at_once"), "{:?}", failed_calls(&world)[0]);

    let world = swarm(5, AgentLimits { at_once: 10, per_turn: 3 });
    assert_eq!(world.agents().len(), 3);
    assert!(failed_calls(&world)[0].contains("per_turn"), "{:?}", failed_calls(&world)[0]);
    assert!(failed_calls(&swarm(5, AgentLimits { at_once: 5, per_turn: 5 })).is_empty());
}
