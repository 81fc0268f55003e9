//! Laws of a session under any sequence of inputs, results, crashes and returns: P2, P3 and P5 of the promises.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a law that is broken must be loud")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use baton_core::{
    Answer, Arrangement, CallStage, Durable, EngineReport, Prepared, Reply, ReplyTo, Route, Work, WorkResult,
};
use baton_protocol::event::{
    Body, ExecutionMode, PlanAction, PlanAnswer, Prompt, Question, RequestOpened, SendMode, SessionError,
    SwitchAnswer,
};
use baton_protocol::permission::Verdict;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Json, PromptId, RequestId, ToolCallId};
use proptest::prelude::*;
use world::*;

#[derive(Debug, Clone)]
enum Op {
    Prompt(SendMode),
    Abort,
    Withdraw(bool),
    /// A command that waits for its turn.
    Enqueue,
    /// A client runs whatever commands come, or does not any more.
    Host(u64, bool),
    /// Something that waits, or that never was, is rearranged in some way.
    Arrange {
        which: usize,
        how: usize,
    },
    /// Somebody goes back to some event that counts.
    GoBack(usize),
    Attach(u64),
    Detach(u64),
    Resume {
        client: u64,
        with_tool: bool,
        wish: Option<bool>,
    },
    /// Some running work comes back, with one of its possible results.
    Finish {
        which: usize,
        how: usize,
    },
    /// An engine that works reports something.
    Report {
        what: usize,
    },
    /// A client starts a sub-agent.
    StartAgent,
    /// Some sub-agent, or one that never was, is stopped.
    StopAgent {
        which: usize,
    },
    /// Some open request, or one that never was, is answered in some way, twice in a row.
    Answer {
        which: usize,
        how: usize,
    },
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let wish = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    prop_oneof![
        3 => prop_oneof![3 => Just(SendMode::Enqueue), 1 => Just(SendMode::Immediate)].prop_map(Op::Prompt),
        1 => Just(Op::Abort),
        1 => any::<bool>().prop_map(Op::Withdraw),
        2 => Just(Op::Enqueue),
        1 => (1u64..4, any::<bool>()).prop_map(|(client, offers)| Op::Host(client, offers)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::Arrange { which, how }),
        1 => any::<usize>().prop_map(Op::GoBack),
        1 => (1u64..4).prop_map(Op::Attach),
        1 => (1u64..4).prop_map(Op::Detach),
        1 => (1u64..4, any::<bool>(), wish).prop_map(|(client, with_tool, wish)| Op::Resume { client, with_tool, wish }),
        10 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::Finish { which, how }),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::Answer { which, how }),
        6 => any::<usize>().prop_map(|what| Op::Report { what }),
        1 => any::<usize>().prop_map(|which| Op::StopAgent { which }),
        1 => Just(Op::StartAgent),
        1 => Just(Op::Crash),
    ]
}

/// One of the results that a piece of work can have.
fn result_of(work: &Work, how: usize, round: u64, agents: &[AgentId]) -> WorkResult {
    match work {
        Work::PreparePrompt { .. } if how.is_multiple_of(3) => prepared_for_engine(),
        Work::PreparePrompt { .. } => prepared_prompt(),
        Work::RunCommand { .. } if how.is_multiple_of(2) => WorkResult::RunCommand(Err("no".into())),
        Work::RunCommand { .. } => WorkResult::RunCommand(Ok(Some("done".into()))),
        Work::Ask { .. } => match how % 7 {
            0 => failed(),
            6 => limited(),
            1 | 2 => said(round, &[]),
            3 => said(round, &["client_tool"]),
            4 => said(round, &["builtin", "client_tool"]),
            _ => said(round, &["builtin", "client_tool", "terminal_tool"]),
        },
        Work::PrepareCall { call } => match how % 10 {
            0 => runnable(Route::BuiltIn),
            1 => runnable(Route::Client),
            2 => wants(&call.id, Route::BuiltIn),
            3 => wants(&call.id, Route::Client),
            4 => WorkResult::PrepareCall(Prepared::Finished(ToolResult::failure("no such tool"))),
            5 if (how / 10).is_multiple_of(2) => asks(Question::UserInput(user_question())),
            5 => asks(Question::Plan(proposed_plan())),
            6 | 7 => delegation(ExecutionMode::Background),
            8 => delegation(ExecutionMode::Sync),
            _ => {
                let agent = agents.get(how / 10 % agents.len().max(1));
                let agent = agent.cloned().unwrap_or_else(|| "never".into());
                WorkResult::PrepareCall(Prepared::AfterAgent(agent))
            }
        },
        Work::RunTool { .. } | Work::FinishCall { .. } => WorkResult::RunTool(ToolResult::success("ok")),
        Work::SaveGrant { .. } if how.is_multiple_of(2) => WorkResult::SaveGrant(Err("disk full".into())),
        Work::SaveGrant { .. } => WorkResult::SaveGrant(Ok(())),
        Work::DeliverQuestion { .. } => WorkResult::Undelivered,
        Work::Review => WorkResult::Review(None),
        Work::Drive { .. } if how.is_multiple_of(4) => WorkResult::Drive(Err(SessionError::default())),
        Work::Drive { .. } => WorkResult::Drive(Ok(())),
    }
}

const YES: Answer = Answer::Switch(SwitchAnswer::Yes);
const YES_ALWAYS: Answer = Answer::Switch(SwitchAnswer::YesAlways);

fn answer_for(stage: &CallStage, how: usize) -> Answer {
    match stage {
        _ if how % 7 == 6 => Answer::Tool(ToolResult::success("to whatever")),
        CallStage::AwaitingPermission { .. } if how.is_multiple_of(3) => reject(),
        CallStage::AwaitingPermission { .. } if how % 5 == 4 => {
            decided(Verdict::ApproveForLocation { approval: None, location_key: String::new() })
        }
        CallStage::AwaitingPermission { .. } => approve(),
        CallStage::AwaitingAnswer { question: Question::Plan(_), .. } => match how % 6 {
            0 => plan_refused(Some("more")),
            4 => Answer::NoUser,
            way => plan_approved(PlanAction::ALL[(way + 2) % 4]),
        },
        CallStage::AwaitingAnswer { .. } => Answer::UserInput { answer: "yes".into(), was_freeform: true },
        _ => tool_result(),
    }
}

struct Run {
    world: World,
    /// Which answers were given, and who waits to hear whether they count.
    asked: Vec<(RequestId, ReplyTo)>,
    rounds: u64,
}

impl Run {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Prompt(mode) => drop(self.world.prompt(*mode)),
            Op::Abort => drop(self.world.abort()),
            Op::Withdraw(all) => self.world.withdraw(*all),
            Op::Enqueue => drop(self.world.enqueue("/deploy now")),
            Op::Host(client, offers) => self.world.host(*client, *offers),
            Op::Arrange { which, how } => self.arrange(*which, *how),
            Op::GoBack(which) => self.world.go_back(*which),
            Op::Attach(client) => self.world.attach(*client, &["client_tool", "terminal_tool"]),
            Op::Detach(client) => self.world.detach(*client),
            Op::Resume { client, with_tool, wish } => {
                let tools: &[&str] = if *with_tool { &["client_tool"] } else { &[] };
                self.world.resume(*client, tools, *wish);
            }
            Op::Finish { which, how } => self.finish(*which, *how),
            Op::Answer { which, how } => self.answer(*which, *how),
            Op::Report { what } => self.report(*what),
            Op::StartAgent => drop(self.world.start_agent()),
            Op::StopAgent { which } => {
                let agents = self.world.agents();
                let agent = agents.get(which % (agents.len() + 1)).cloned();
                self.world.stop_agent(&agent.unwrap_or_else(|| "never".into()));
            }
            Op::Crash => {
                check_snapshot(&self.world);
                self.world.crash();
            }
        }
    }

    fn finish(&mut self, which: usize, how: usize) {
        self.rounds += 1;
        let running: Vec<_> = self.world.running.clone().into_iter().collect();
        if let Some((id, work)) = running.get(which % running.len().max(1)) {
            let result = result_of(work, how, self.rounds, &self.world.agents());
            self.world.finish(*id, result);
        }
    }

    /// An engine that works says one of the things that engines say, also twice, and also about calls that never were.
    fn report(&mut self, what: usize) {
        self.rounds += 1;
        let driving = self.world.running.iter().find(|(_, work)| matches!(work, Work::Drive { .. }));
        let Some((id, _)) = driving else { return };
        let (id, call) = (*id, ToolCallId(format!("engine-{}", what % 3)));
        let wants = Box::new(wish(&call, Route::BuiltIn));
        let reference = format!("ref-{}", self.rounds);
        let report = match what % 10 {
            0 => EngineReport::Thread(format!("thread-{}", what % 2)),
            1 => EngineReport::Said {
                message_id: "m".into(),
                text: "said".into(),
                reasoning: None,
                model: None,
            },
            2 | 3 => EngineReport::CallStarted { call, tool: "bash".into(), arguments: Json::empty_object() },
            4 => EngineReport::CallFinished { call, result: ToolResult::success("ok") },
            5 => EngineReport::Wants { reference, wants, call: Some(call), cwd: None },
            6 => EngineReport::Wants { reference, wants, call: None, cwd: None },
            8 => EngineReport::Withdrawn { reference: format!("ref-{}", self.rounds - 1) },
            9 => EngineReport::Used { model: None, tokens: Default::default() },
            _ => EngineReport::Asks { reference, question: user_question() },
        };
        self.world.report(id, report);
    }

    /// What is rearranged is a permutation of what was there, with at most one more, or one less that steers.
    fn arrange(&mut self, which: usize, how: usize) {
        let before = self.world.waiting();
        let never = PromptId(Default::default());
        let item = before.get(which % (before.len() + 1)).copied().unwrap_or(never);
        let place = how / 8 % 4;
        let arrangement = match how % 8 {
            0 | 1 => Arrangement::Move(item, place),
            2 => Arrangement::Insert(Prompt { text: "between".into(), ..Prompt::default() }, place),
            3 => Arrangement::Duplicate(item),
            4 => Arrangement::Reword { prompt: item, text: "other words".into(), display: None },
            5 => Arrangement::Steer(item),
            6 => Arrangement::Hold(true),
            _ => Arrangement::Hold(false),
        };
        let reply = self.world.arrange(arrangement.clone());
        if let (Arrangement::Move(..), Reply::Arranged(true)) = (&arrangement, &reply) {
            let others = |all: &[PromptId]| -> Vec<PromptId> {
                all.iter().filter(|id| **id != item).copied().collect()
            };
            let (before, after) = (others(&before), self.world.session.durable.inbox.iter().map(|p| p.id));
            let after: Vec<PromptId> = after.filter(|id| before.contains(id)).collect();
            assert_eq!(before, after, "what is not moved keeps its order");
        }
        if item == never && !matches!(arrangement, Arrangement::Insert(..) | Arrangement::Hold(_)) {
            assert!(matches!(reply, Reply::Refused(_)), "what does not wait is not rearranged");
        }
    }

    fn answer(&mut self, which: usize, how: usize) {
        if let Some(request) = self.world.command() {
            for handled in [how.is_multiple_of(2), true] {
                let answer = Answer::QueuedCommand { handled, stop: how.is_multiple_of(3) };
                let reply = self.world.answer(&request, answer);
                self.asked.push((request.clone(), reply));
            }
        }
        if let Some(request) = self.world.offer() {
            for answer in [[Answer::NoUser, YES, YES_ALWAYS][how % 3].clone(), YES] {
                let reply = self.world.answer(&request, answer);
                self.asked.push((request.clone(), reply));
            }
        }
        let open = self.world.open_requests();
        let unknown = (RequestId::from("never"), CallStage::Started);
        let (request, stage) = open.get(which % (open.len() + 1)).unwrap_or(&unknown).clone();
        for _ in 0..2 {
            let reply = self.world.answer(&request, answer_for(&stage, how));
            self.asked.push((request.clone(), reply));
        }
    }

    /// Lets everything come to its end: work finishes, requests are answered.
    fn drain(&mut self) {
        self.world.resume(9, &["client_tool"], Some(true));
        self.world.arrange(Arrangement::Hold(false));
        for _ in 0..10_000 {
            if let Some((id, work)) = self.world.running.clone().into_iter().find(|(_, w)| !is_delivery(w)) {
                self.rounds += 1;
                let result = match work {
                    Work::Ask { .. } => said(self.rounds, &[]),
                    _ => result_of(&work, 0, self.rounds, &[]),
                };
                self.world.finish(id, result);
            } else if let Some(request) = self.world.offer() {
                let reply = self.world.answer(&request, YES);
                self.asked.push((request, reply));
            } else if let Some(request) = self.world.command() {
                let reply = self
                    .world
                    .answer(&request, Answer::Command { by: baton_protocol::ClientId(9), error: None });
                self.asked.push((request, reply));
            } else if let Some((request, stage)) = self.world.open_requests().first() {
                let reply = self.world.answer(request, answer_for(stage, 1));
                self.asked.push((request.clone(), reply));
            } else {
                return;
            }
        }
        panic!("the session never came to rest: {:?}", self.world.session);
    }
}

impl Run {
    /// Of all answers to a request at most one counts, and nobody is left without a word.
    fn check_answers(&self) {
        let mut counted: BTreeMap<&RequestId, usize> = BTreeMap::new();
        for (request, reply) in &self.asked {
            if self.world.replies.get(reply) == Some(&Reply::Counted) {
                *counted.entry(request).or_default() += 1;
            }
        }
        assert!(counted.values().all(|n| *n == 1), "an answer counted twice: {counted:?}");
    }
}

fn is_delivery(work: &Work) -> bool {
    matches!(work, Work::DeliverQuestion { .. })
}

/// A state can be stored and read back, whatever it is in the middle of.
fn check_snapshot(world: &World) {
    let durable = &world.session.durable;
    let snapshot = serde_json::to_string(durable).unwrap();
    assert_eq!(&serde_json::from_str::<Durable>(&snapshot).unwrap(), durable);
}

/// Nothing is done about a plan that was approved for later: its turn ends with the calls that are under way.
fn check_plans(world: &World) {
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
            Body::TurnStart(_) if event.agent_id.is_none() => assert!(!is_stopped, "the turn is over"),
            _ => {}
        }
    }
}

/// What must hold after every step.
fn check_now(world: &World) {
    let durable = &world.session.durable;
    assert_eq!(&Durable::of(&world.log), durable, "the state is what folding the log gives");
    assert_eq!(durable.seq as usize, world.log.len(), "the sequence has no gaps");
    assert!(world.outcomes().values().all(|n| *n == 1), "no prompt has two outcomes");
    let agents = world.agents();
    for agent in agents.iter().map(Some).chain([None]) {
        let asking = Work::Ask { agent: agent.cloned() };
        let asking = world.running.values().filter(|w| **w == asking).count();
        assert!(asking <= 1, "one model call at a time");
        let mut calls = durable.turn.iter().flat_map(|t| t.calls_of(agent));
        assert!(
            asking == 0 || calls.all(|call| call.stage.is_done()),
            "the model is not asked while calls are open"
        );
    }
    let mut workers = world.running.values().filter_map(Work::agent);
    assert!(workers.all(|agent| agents.contains(agent)), "nothing runs for an agent that has ended");
    if !world.session.live.is_recovered {
        let idle = durable.turn.iter().flat_map(|turn| turn.working_agents()).any(|agent| {
            let calls = durable.turn.iter().flat_map(|turn| turn.calls_of(Some(&agent.id)));
            !world.running.values().any(|work| work.agent() == Some(&agent.id))
                && calls.filter(|call| call.stage.request().is_some()).count() == 0
        });
        assert!(!idle, "an agent that has not ended works or waits");
    }
    let driven = durable.turn.as_ref().is_some_and(|turn| turn.engine.is_some());
    let driving = world.running.values().filter(|w| matches!(w, Work::Drive { .. })).count();
    assert!(
        driving == usize::from(driven && !world.session.live.is_recovered),
        "one engine for an engine's turn"
    );
    assert_eq!(world.session.live.work, world.running, "the session knows what runs");
    let asked = world.session.live.command;
    assert!(
        asked.is_none_or(|id| durable.inbox.iter().any(|waiting| waiting.id == id)),
        "what is asked for waits"
    );
    let commands = world.running.values().filter(|w| matches!(w, Work::RunCommand { .. })).count();
    assert!(commands + usize::from(asked.is_some()) <= 1, "one command at a time");
    let mut parent = None;
    for (_, event) in world.counting() {
        assert_eq!(event.parent_id, parent, "parents form a chain through what counts");
        parent = Some(event.id);
    }
    assert_eq!(durable.last_public, parent, "the next event follows the last one that counts");
}

#[derive(Clone, Copy, PartialEq)]
enum History {
    Whole,
    Torn,
}

/// What must hold when everything has come to its end.
fn check_at_rest(world: &World, history: History) {
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
    assert!(agents.values().all(|n| *n == 0), "every sub-agent that began has ended once: {agents:?}");
    // A torn history may have lost the beginning of a call that the model's message announces; never its end.
    let balanced = |n: &i32| *n == 0 || (history == History::Torn && *n == -1);
    assert!(open.values().all(balanced), "every tool call that began has ended once: {open:?}");
    let mut requests: BTreeMap<RequestId, i32> = BTreeMap::new();
    for event in &world.log {
        match &event.body {
            Body::PermissionRequested(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::ExternalToolRequested(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::RequestOpened(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::SwitchOffered(e) => *requests.entry(e.request_id.clone()).or_default() += 1,
            Body::PermissionCompleted(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            Body::ExternalToolCompleted(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            Body::RequestClosed(e) => *requests.entry(e.request_id.clone()).or_default() -= 1,
            _ => {}
        }
    }
    assert!(
        requests.values().all(|n| *n == 0),
        "every request was opened once and closed once: {requests:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn a_session_keeps_its_promises_whatever_happens(ops in proptest::collection::vec(op(), 1..60)) {
        let mut run = Run { world: World::new(), asked: Vec::new(), rounds: 0 };
        for op in &ops {
            run.apply(op);
            check_now(&run.world);
        }
        check_snapshot(&run.world);
        run.drain();
        check_now(&run.world);
        check_plans(&run.world);
        check_at_rest(&run.world, History::Whole);
        run.check_answers();
    }

    /// A crash may cut the log anywhere: whatever prefix is left opens, and can be brought to an end.
    #[test]
    fn every_prefix_of_a_history_opens_and_ends(ops in proptest::collection::vec(op(), 1..40), cut in any::<prop::sample::Index>()) {
        let mut run = Run { world: World::new(), asked: Vec::new(), rounds: 0 };
        ops.iter().for_each(|op| run.apply(op));
        let keep = 1 + cut.index(run.world.log.len());
        run.world.log.truncate(keep);
        run.world.crash();
        run.world.accepted.retain(|id| {
            run.world.log.iter().any(|e| matches!(&e.body, Body::PromptAccepted(a) if a.prompt_id == *id))
        });
        run.drain();
        check_now(&run.world);
        check_at_rest(&run.world, History::Torn);
    }
}
