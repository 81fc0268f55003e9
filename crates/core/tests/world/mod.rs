//! A shell without I/O for tests: acts on outputs in their order, records everything, and can crash at any moment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "shared by test files, each of which uses a part of it"
)]

mod asks;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use baton_core::{
    Arrival, AskId, CallStage, Durable, EngineReport, Input, Output, Profile, Refusal, Reply, Session, Stamp,
    Work, WorkId, WorkResult,
};
use baton_protocol::event::{Body, ShutdownType, WorkContext};
use baton_protocol::{AgentId, ClientId, Event, PromptId, RequestId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::values::*;

pub struct World {
    pub session: Session,
    /// Recorded events.
    pub log: Vec<Event>,
    /// Events that were shown and not recorded.
    pub shown: Vec<Event>,
    pub running: BTreeMap<WorkId, Work>,
    /// Asks of this process without a reply.
    pub pending: BTreeSet<AskId>,
    pub replies: BTreeMap<AskId, Result<Reply, Refusal>>,
    /// Prompts and commands whose acceptance was acknowledged.
    pub accepted: BTreeSet<PromptId>,
    steps: u64,
}

impl World {
    pub fn new() -> Self {
        let session = Session::new("s".parse().unwrap());
        let mut world = Self {
            session,
            log: Vec::new(),
            shown: Vec::new(),
            running: BTreeMap::new(),
            pending: BTreeSet::new(),
            replies: BTreeMap::new(),
            accepted: BTreeSet::new(),
            steps: 0,
        };
        let context = WorkContext { cwd: "/work".into(), ..WorkContext::default() };
        world.take(Input::Create {
            context,
            model: None,
            reasoning_effort: None,
            version: "test".into(),
            by: None,
            sandbox: None,
        });
        world.attach(1, &["client_tool"]);
        world
    }

    /// Takes a step.
    pub fn take(&mut self, input: Input) -> Vec<Output> {
        self.steps += 1;
        let stamp = Stamp::new(Timestamp(1_794_774_653_000 + self.steps as i64), u128::from(self.steps));
        if let Input::Ask { id, .. } = &input {
            assert!(self.pending.insert(*id));
        }
        let outputs = self.session.step(input, stamp);
        for output in &outputs {
            match output {
                Output::Record(event) => self.log.push(event.clone()),
                Output::Show(event) => self.shown.push(event.clone()),
                Output::Reply(id, reply) => {
                    let reply = over_the_wire(reply);
                    self.accepted.extend(accepted(&reply));
                    assert!(
                        self.pending.remove(id),
                        "a second reply, or one to an ask of a dead process: {id:?}"
                    );
                    self.replies.insert(*id, reply);
                }
                Output::Start(id, work) => {
                    assert!(self.running.insert(*id, work.clone()).is_none());
                }
                Output::Tell(id, _) => {
                    assert!(self.running.contains_key(id), "a message to work that does not run");
                }
                Output::Stop(id) => {
                    assert!(self.running.remove(id).is_some(), "a stop of work that does not run");
                }
            }
        }
        outputs
    }

    fn next_ask(&mut self) -> AskId {
        self.steps += 1;
        AskId(self.steps)
    }

    /// The queue, in order.
    pub fn queue(&self) -> Vec<PromptId> {
        self.session.queue().map(|item| item.id).collect()
    }

    /// The request of the command that clients were asked to run.
    pub fn command(&self) -> Option<RequestId> {
        self.session.live.client_command.map(|id| RequestId(id.to_string()))
    }

    /// Public events that no rewind has removed, with their sequence numbers.
    pub fn counting(&self) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        let removed = &self.session.durable.removed;
        let counts = |(seq, event): &(u64, &Event)| event.body.is_public() && !removed.contains(*seq);
        let counting: Vec<_> = (1..).zip(&self.log).filter(counts).collect();
        counting.into_iter()
    }

    pub fn attach(&mut self, client: u64, tools: &[&str]) {
        self.attach_with(client, profile(tools));
    }

    pub fn attach_with(&mut self, client: u64, profile: Profile) {
        self.take(Input::Attach { client: ClientId(client), profile, arrival: Arrival::Made });
    }

    pub fn resume(&mut self, client: u64, tools: &[&str], continue_pending_work: Option<bool>) {
        self.resume_with(client, profile(tools), continue_pending_work);
    }

    pub fn resume_with(&mut self, client: u64, profile: Profile, continue_pending_work: Option<bool>) {
        let arrival = Arrival::Resumed {
            continue_pending_work,
            record: true,
            context: Box::default(),
            model: None,
            reasoning_effort: None,
        };
        self.take(Input::Attach { client: ClientId(client), profile, arrival });
    }

    pub fn detach(&mut self, client: u64) {
        self.take(Input::Detach { client: ClientId(client) });
    }

    pub fn close(&mut self) {
        self.take(Input::Close { reason: "test".into(), shutdown: ShutdownType::Routine });
    }

    pub fn finish(&mut self, work: WorkId, result: WorkResult) {
        self.running.remove(&work);
        self.take(Input::Finished { work, result: Box::new(result) });
    }

    pub fn report(&mut self, work: WorkId, report: EngineReport) -> Vec<Output> {
        self.take(Input::Reported { work, report: Box::new(report) })
    }

    /// Sub-agents that have not ended.
    pub fn agents(&self) -> Vec<AgentId> {
        let turn = self.session.durable.turn.iter();
        turn.flat_map(|turn| turn.working_agents()).map(|agent| agent.id.clone()).collect()
    }

    /// Kills the server and starts it again: only the log is left.
    pub fn crash(&mut self) {
        self.running.clear();
        self.pending.clear();
        let text: Vec<String> = self.log.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let events: Vec<Event> = text.iter().map(|line| Event::parse(line).unwrap()).collect();
        self.session = Session::recovered(self.session.id.clone(), Durable::of(&events));
    }

    /// Requests of the turn that wait for an answer.
    pub fn open_requests(&self) -> Vec<(RequestId, CallStage)> {
        let calls = self.session.durable.turn.iter().flat_map(|turn| &turn.calls);
        calls.filter_map(|call| Some((call.stage.request()?.clone(), call.stage.clone()))).collect()
    }

    /// The pending request for a fallback model.
    pub fn fallback_request(&self) -> Option<RequestId> {
        Some(self.session.durable.turn.as_ref()?.fallback_request.as_ref()?.request_id.clone())
    }

    /// Number of outcomes of each prompt.
    pub fn outcomes(&self) -> BTreeMap<PromptId, usize> {
        let mut counts = BTreeMap::new();
        for event in &self.log {
            if let Body::TurnSettled(settled) = &event.body {
                settled.prompt_ids.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
            }
        }
        counts
    }

    /// Types of the recorded events.
    pub fn kinds(&self) -> Vec<&str> {
        self.log.iter().map(|event| event.body.kind()).collect()
    }

    /// Type of the last event that was shown.
    pub fn last_shown(&self) -> Option<&str> {
        self.shown.last().map(|event| event.body.kind())
    }

    /// The only running work that `which` selects.
    #[track_caller]
    pub fn only(&self, which: impl Fn(&Work) -> bool) -> WorkId {
        let found: Vec<WorkId> = self.running.iter().filter(|(_, w)| which(w)).map(|(id, _)| *id).collect();
        assert_eq!(found.len(), 1, "of {:?}", self.running);
        found[0]
    }
}

/// The prompt or command that a reply acknowledges.
fn accepted(reply: &Result<Reply, Refusal>) -> Option<PromptId> {
    match reply {
        Ok(
            Reply::SendPrompt(id)
            | Reply::EnqueueCommand(id)
            | Reply::InsertPrompt(id)
            | Reply::DuplicateQueued(id),
        ) => Some(*id),
        _ => None,
    }
}

/// Serialises a value and reads it back. All asks and replies of the tests go through here.
pub fn over_the_wire<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let received = serde_json::from_str(&text).unwrap();
    assert_eq!(*value, received);
    received
}
