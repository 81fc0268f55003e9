//! Invariants of a session.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::state::Accepted;
use baton_core::{AskId, ClientRequest, Durable, Work};
use baton_protocol::event::{Body, PlanAnswer, Question, RequestOpened, SendMode};
use baton_protocol::{AgentId, RequestId, ToolCallId};

use crate::world::*;

pub(super) fn is_delivery(work: &Work) -> bool {
    matches!(work, Work::DeliverQuestion { .. })
}

/// A session can be serialised and read back at any moment.
pub(super) fn check_serialisation(world: &World) {
    over_the_wire(&world.session);
}

/// After the approval of a plan for later, the turn ends with its current round.
pub(super) fn check_plans(world: &World) {
    let (mut plans, mut is_stopped) = (BTreeSet::new(), false);
    for event in &world.log {
        match &event.body {
            Body::RequestOpened(RequestOpened { request_id, question: Question::Plan(_), .. }) => {
                plans.insert(request_id.clone());
            }
            Body::RequestClosed(closed) if plans.contains(&closed.request_id) => {
                let answer = closed.answer.as_ref().map(|answer| answer.parse::<PlanAnswer>().unwrap());
                is_stopped |= answer.is_some_and(|answer| answer.ends_turn());
            }
            Body::TurnSettled(_) => is_stopped = false,
            Body::TurnStart(_) if event.agent_id.is_none() => {
                assert!(!is_stopped, "a round after the end of the turn");
            }
            _ => {}
        }
    }
}

/// Checks the invariants that hold after every step.
pub(super) fn check_now(world: &World) {
    let durable = &world.session.durable;
    assert_eq!(&Durable::of(&world.log), durable, "the state is the fold of the log");
    assert_eq!(durable.seq as usize, world.log.len(), "the sequence has no gaps");
    assert!(world.outcomes().values().all(|n| *n == 1), "no prompt has two outcomes");
    let agents = world.agents();
    for agent in agents.iter().map(Some).chain([None]) {
        let asking = Work::CallModel { agent: agent.cloned() };
        let asking = world.running.values().filter(|w| **w == asking).count();
        assert!(asking <= 1, "one model call at a time");
        let mut calls = durable.turn.iter().flat_map(|t| t.calls_of(agent));
        assert!(
            asking == 0 || calls.all(|call| call.stage.is_done()),
            "no model call while tool calls are open"
        );
    }
    let mut workers = world.running.values().filter_map(Work::agent);
    assert!(workers.all(|agent| agents.contains(agent)), "no work for an agent that has ended");
    if !world.session.live.is_recovered {
        let idle = durable.turn.iter().flat_map(|turn| turn.working_agents()).any(|agent| {
            let calls = durable.turn.iter().flat_map(|turn| turn.calls_of(Some(&agent.id)));
            !world.running.values().any(|work| work.agent() == Some(&agent.id))
                && calls.filter(|call| call.stage.request().is_some()).count() == 0
        });
        assert!(!idle, "a working agent has work or a request");
    }
    let driven = durable.turn.as_ref().is_some_and(|turn| turn.engine.is_some());
    let driving = world.running.values().filter(|w| matches!(w, Work::Drive { .. })).count();
    assert!(driving == usize::from(driven && !world.session.live.is_recovered), "one engine for its turn");
    assert_eq!(world.session.live.work, world.running, "the session knows all running work");
    let command = world.session.live.client_command;
    assert!(
        command.is_none_or(|id| durable.inbox.iter().any(|item| item.id == id)),
        "the current command is in the inbox"
    );
    let starts = |item: &&Accepted| item.held && item.prompt.mode != SendMode::Immediate;
    assert!(
        !durable.inbox.iter().filter(starts).any(|item| world.session.has_begun(item.id)),
        "what is held does not start"
    );
    let commands = world.running.values().filter(|w| matches!(w, Work::RunCommand { .. })).count();
    assert!(commands + usize::from(command.is_some()) <= 1, "one command at a time");
    let live = &world.session.live;
    let asking = live.asks.values().map(|pending| match pending {
        ClientRequest::Elicit(to, _) => to.id(),
        ClientRequest::Sample(to, _) => to.id(),
        ClientRequest::Consent(to, ..) => to.id(),
        ClientRequest::InvokeCommand(to, _) => to.id(),
    });
    let waiting = live.waiting_for_hosts.values().flatten().map(|to| to.id());
    let awaited = live.awaited_agents.values().map(|(to, _)| to.id());
    let unanswered: BTreeSet<AskId> =
        asking.chain(waiting).chain(awaited).chain(live.claimed.values().map(|to| to.id())).collect();
    assert_eq!(unanswered, world.pending, "the session remembers every ask without a reply");
    let mut parent = None;
    for (_, event) in world.counting() {
        assert_eq!(event.parent_id, parent, "parents form a chain of the events that count");
        parent = Some(event.id);
    }
    assert_eq!(durable.last_public, parent, "the next event follows the last one that counts");
}

/// Whether the end of the log was lost.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum History {
    Whole,
    Torn,
}

/// Checks the invariants of an idle session.
pub(super) fn check_idle(world: &World, history: History) {
    assert!(!world.session.is_busy());
    let outcomes = world.outcomes();
    assert!(
        world.accepted.iter().all(|id| outcomes.get(id) == Some(&1)),
        "every accepted prompt has one outcome"
    );
    let mut open: BTreeMap<(Option<AgentId>, String), i32> = BTreeMap::new();
    let mut agents: BTreeMap<AgentId, i32> = BTreeMap::new();
    for event in &world.log {
        let key = |call: &ToolCallId| (event.agent_id.clone(), call.0.clone());
        match (&event.body, &event.agent_id) {
            (Body::ToolStart(start), _) => *open.entry(key(&start.tool_call_id)).or_default() += 1,
            (Body::ToolComplete(end), _) => *open.entry(key(&end.tool_call_id)).or_default() -= 1,
            (Body::SubagentStarted(_), Some(id)) => *agents.entry(id.clone()).or_default() += 1,
            (Body::SubagentCompleted(_) | Body::SubagentFailed(_), Some(id)) => {
                *agents.entry(id.clone()).or_default() -= 1;
            }
            _ => {}
        }
    }
    assert!(agents.values().all(|n| *n == 0), "every sub-agent ends once: {agents:?}");
    // A torn history may have lost the start of a call that the model's message announces, never its end.
    let balanced = |n: &i32| *n == 0 || (history == History::Torn && *n == -1);
    assert!(open.values().all(balanced), "every tool call ends once: {open:?}");
    let mut requests: BTreeMap<RequestId, i32> = BTreeMap::new();
    for event in &world.log {
        match &event.body {
            Body::PermissionRequested(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::ExternalToolRequested(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::RequestOpened(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::SwitchOffered(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            // A login that is requested again, for another reason, is the same request.
            Body::LoginRequested(e) => *requests.entry(e.request_id.clone()).or_default() = 1,
            Body::PermissionCompleted(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            Body::ExternalToolCompleted(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            Body::RequestClosed(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            _ => {}
        }
    }
    assert!(requests.values().all(|n| *n == 0), "every request is opened and closed once: {requests:?}");
}
