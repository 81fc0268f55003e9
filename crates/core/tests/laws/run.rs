//! Applies operations to a session.

use std::collections::BTreeMap;

use baton_core::ask::{
    DuplicateQueued, Elicit, Elicited, HoldQueue, InsertPrompt, MoveQueued, ReportFile, RequestHost,
    RewordQueued, SteerQueued, Suspend,
};
use baton_core::{AnswerOutcome, AskId, CallStage, ClientRequest, EngineReport, RequestAnswer, Route, Work};
use baton_protocol::event::Prompt;
use baton_protocol::tool::{SlashCommand, ToolResult};
use baton_protocol::{ClientId, Json, PromptId, RequestId, ToolCallId};

use crate::checks::{check_serialisation, is_delivery};
use crate::ops::{Op, YES, YES_ALWAYS, answer_for, result_of, wall_answer};
use crate::world::*;

/// A session under a sequence of operations.
pub(super) struct Run {
    pub(super) world: World,
    /// Answers that were given, with the requests they were for.
    answers: Vec<(RequestId, AskId)>,
    rounds: u64,
}

impl Run {
    pub(super) fn new() -> Self {
        Self { world: World::new(), answers: Vec::new(), rounds: 0 }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Prompt(mode) => {
                self.world.prompt(*mode);
            }
            Op::Abort => {
                self.world.abort();
            }
            Op::CancelTurn(which) => self.cancel_turn(*which),
            Op::Withdraw(which) => {
                self.world.withdraw(*which);
            }
            Op::Enqueue => {
                self.world.enqueue("/deploy now");
            }
            Op::Suspend => self.world.ask(Suspend {}).unwrap(),
            Op::Elicit => {
                let key = None;
                self.world.send(Elicit {
                    message: "form".into(),
                    schema: None,
                    source: None,
                    url: None,
                    key,
                });
            }
            Op::Invoke => {
                self.world.invoke("deploy");
            }
            Op::Connect(which) => {
                let origin = format!("https://{}.example", which % 3);
                self.world.send(RequestHost { call: self.some_call(), origin });
            }
            Op::CreateFile(which) => {
                let (path, kept) = (format!(".envrc{}", which % 3), self.world.log.len().to_string());
                drop(self.world.ask(ReportFile { call: self.some_call(), path, kept, content: "x".into() }));
            }
            Op::RegisterRunner(client, registered) => self.world.register_runner(*client, *registered),
            Op::EditQueue { which, how } => self.edit_queue(*which, *how),
            Op::Rewind(which) => self.world.rewind(*which),
            Op::Attach(client) => {
                let mut profile = profile(&["client_tool", "terminal_tool"]);
                if *client == 3 {
                    profile.elicitation = true;
                    profile.commands = vec![SlashCommand { name: "deploy".into(), description: None }];
                }
                self.world.attach_with(*client, profile);
            }
            Op::Detach(client) => self.world.detach(*client),
            Op::Resume { client, with_tool, continued } => {
                let tools: &[&str] = if *with_tool { &["client_tool"] } else { &[] };
                self.world.resume(*client, tools, *continued);
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
                check_serialisation(&self.world);
                self.world.crash();
            }
        }
    }

    /// The call of some program: an open one, or one that never existed.
    fn some_call(&self) -> Option<ToolCallId> {
        let mut calls = self.world.session.durable.turn.iter().flat_map(|turn| turn.open_calls());
        Some(calls.next().map_or_else(|| "never".into(), |call| call.id.clone()))
    }

    fn finish(&mut self, which: usize, how: usize) {
        self.rounds += 1;
        let running: Vec<_> = self.world.running.clone().into_iter().collect();
        if let Some((id, work)) = running.get(which % running.len().max(1)) {
            let result = result_of(work, how, self.rounds, &self.world.agents());
            self.world.finish(*id, result);
        }
    }

    /// Reports one of the things that engines report, also twice, and also about calls that never existed.
    fn report(&mut self, what: usize) {
        self.rounds += 1;
        let engine = self.world.running.iter().find(|(_, work)| matches!(work, Work::Drive { .. }));
        let Some((id, _)) = engine else { return };
        let (id, call) = (*id, ToolCallId(format!("engine-{}", what % 3)));
        let wants = Box::new(permission_request(&call, Route::BuiltIn));
        let reference = format!("ref-{}", self.rounds);
        let report = match what % 10 {
            0 => EngineReport::Thread(format!("thread-{}", what % 2)),
            1 => EngineReport::Message {
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

    /// Cancels one turn. If it runs, only its own prompts end, and nothing of the queue starts; if not, nothing happens.
    fn cancel_turn(&mut self, which: usize) {
        let (before, ended) = (self.world.session.clone(), self.world.outcomes().len());
        let turn = before.durable.turn.as_ref();
        let begun = before.durable.inbox.iter().map(|item| item.id).filter(|id| before.has_begun(*id));
        let own: Vec<PromptId> =
            turn.into_iter().flat_map(|turn| turn.prompts.clone()).chain(begun).collect();
        let mut names: Vec<Option<String>> = own.iter().map(|id| Some(id.to_string())).collect();
        names.extend(turn.map(|turn| Some(turn.interaction.clone())));
        names.extend([None, Some("never".to_owned())]);
        let name = names[which % names.len()].clone();
        let runs = name.as_deref() != Some("never") && names.len() > 2;
        let reply = self.world.cancel_turn(name.as_deref());
        let after = &self.world.session;
        if !runs {
            assert_eq!((reply, after), (None, &before), "nothing of this name runs");
            return;
        }
        assert_eq!(self.world.outcomes().len(), ended + own.len(), "only what ran has an outcome");
        assert!(
            after.durable.turn.is_none() && !after.durable.inbox.iter().any(|item| after.has_begun(item.id))
        );
        let kept = before.durable.inbox.iter().map(|item| item.id).filter(|id| !own.contains(id));
        let mut kept: Vec<PromptId> = kept.collect();
        let mut held = self.world.queue();
        assert_eq!(reply, Some(held.len()));
        kept.sort();
        held.sort();
        assert_eq!(held, kept, "the queue stays");
        assert!(self.world.session.durable.inbox.iter().all(|item| item.held));
    }

    /// Edits the queue. Items that are not moved keep their order; an item that is not in the queue cannot be edited.
    fn edit_queue(&mut self, which: usize, how: usize) {
        let before = self.world.queue();
        let never = PromptId(Default::default());
        let item = before.get(which % (before.len() + 1)).copied().unwrap_or(never);
        let (world, position) = (&mut self.world, how / 8 % 4);
        let edited = match how % 8 {
            0 | 1 => world.ask(MoveQueued { prompt: item, position }).map(drop),
            2 => {
                let prompt = Box::new(Prompt { text: "between".into(), ..Prompt::default() });
                return assert!(world.ask(InsertPrompt { prompt, position }).is_ok());
            }
            3 => world.ask(DuplicateQueued { prompt: item }).map(drop),
            4 => {
                let text = "other words".to_owned();
                world.ask(RewordQueued { prompt: item, text, display: None }).map(drop)
            }
            5 => world.ask(SteerQueued { prompt: item }).map(drop),
            way => return drop(world.ask(HoldQueue { hold: way == 6 })),
        };
        if item == never {
            return assert!(edited.is_err(), "an item that is not in the queue cannot be edited");
        }
        if how % 8 <= 1 {
            let others = |all: Vec<PromptId>| -> Vec<PromptId> {
                all.into_iter().filter(|id| *id != item && before.contains(id)).collect()
            };
            let after = world.session.durable.inbox.iter().map(|queued| queued.id).collect();
            assert_eq!(others(before.clone()), others(after), "what is not moved keeps its order");
        }
    }

    /// Answers a request, and remembers the answer.
    fn give(&mut self, request: &RequestId, answer: RequestAnswer) {
        let id = self.world.answer(request, answer);
        self.answers.push((request.clone(), id));
    }

    fn answer(&mut self, which: usize, how: usize) {
        let pending = self.world.session.live.asks.iter().next();
        if let Some((request, pending)) = pending.map(|(request, pending)| (request.clone(), pending.clone()))
        {
            let by = ClientId(1 + how as u64 % 3);
            self.give(
                &request,
                match pending {
                    ClientRequest::Sample(..) => RequestAnswer::Sampling(None),
                    ClientRequest::Elicit(..) | ClientRequest::Consent(..) => {
                        RequestAnswer::Elicitation(Elicited::cancelled())
                    }
                    ClientRequest::InvokeCommand(..) => {
                        RequestAnswer::Command { by, error: Some("no".into()) }
                    }
                },
            );
        }
        if let Some(request) = self.world.command() {
            for handled in [how.is_multiple_of(2), true] {
                let answer = RequestAnswer::QueuedCommand { handled, stop: how.is_multiple_of(3) };
                self.give(&request, answer);
            }
        }
        if let Some(request) = self.world.fallback_request() {
            for answer in [[RequestAnswer::NoUser, YES, YES_ALWAYS][how % 3].clone(), YES] {
                self.give(&request, answer);
            }
        }
        let walls = &self.world.session.durable.walls;
        if let Some(request) = walls.get(which % (walls.len() + 1)).map(|wall| wall.request.clone()) {
            for how in [how, how / 2] {
                self.give(&request, wall_answer(how));
            }
        }
        let open = self.world.open_requests();
        let unknown = (RequestId::from("never"), CallStage::Started);
        let (request, stage) = open.get(which % (open.len() + 1)).unwrap_or(&unknown).clone();
        for _ in 0..2 {
            self.give(&request, answer_for(&stage, how));
        }
    }

    /// Finishes all work and answers all requests, until the session is idle.
    pub(super) fn drain(&mut self) {
        self.world.resume(9, &["client_tool"], Some(true));
        drop(self.world.resume_queue());
        for _ in 0..10_000 {
            if let Some((id, work)) = self.world.running.clone().into_iter().find(|(_, w)| !is_delivery(w)) {
                self.rounds += 1;
                let result = match work {
                    Work::CallModel { .. } => model_answer(self.rounds, &[]),
                    _ => result_of(&work, 0, self.rounds, &[]),
                };
                self.world.finish(id, result);
            } else if let Some(request) = self.world.fallback_request() {
                self.give(&request, YES);
            } else if let Some(request) = self.world.command() {
                self.give(&request, RequestAnswer::Command { by: ClientId(9), error: None });
            } else if let Some(wall) = self.world.session.durable.walls.first().cloned() {
                self.give(&wall.request, approve());
            } else if let Some((request, stage)) = self.world.open_requests().first() {
                self.give(request, answer_for(stage, 1));
            } else {
                return;
            }
        }
        panic!("the session never came to rest: {:?}", self.world.session);
    }

    /// At most one answer to a request counts (P3).
    pub(super) fn check_answers(&self) {
        let mut counted: BTreeMap<&RequestId, usize> = BTreeMap::new();
        for (request, answer) in &self.answers {
            if self.world.outcome_of(*answer) == Some(AnswerOutcome::Counted) {
                *counted.entry(request).or_default() += 1;
            }
        }
        assert!(counted.values().all(|n| *n == 1), "an answer counted twice: {counted:?}");
    }
}
