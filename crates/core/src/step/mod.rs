//! Steps: one input, and all outputs that follow from it.
//!
//! Recording an event folds it into the state at once, so that each decision sees the session as it would be read back
//! after a crash.

pub mod agents;
pub mod asks;
pub mod cancel;
pub mod changes;
pub mod clients;
pub mod commands;
pub mod consent;
pub mod engine;
mod form;
pub mod history;
pub mod logins;
pub mod permissions;
pub mod plan;
pub mod prompt;
pub mod questions;
pub mod queue;
pub mod recover;
pub mod requests;
pub mod rounds;
pub mod switch;
pub mod walls;

use baton_protocol::event::{AssistantIdle, Body, Outcome, SessionIdle, SessionStart, TurnSettled};
use baton_protocol::{AgentId, Event, EventId, PromptId};

use crate::ask::{Asking, Refusal, ReplyTo};
use crate::input::Input;
use crate::output::{Output, Work, WorkId};
use crate::results::WorkResult;
use crate::stamp::Stamp;
use crate::state::{Session, Turn};

/// Version of the event vocabulary, recorded at the start of a session.
const HISTORY_VERSION: u32 = 1;

impl Session {
    /// Takes one input and returns its outputs.
    pub fn step(&mut self, input: Input, stamp: Stamp) -> Vec<Output> {
        let mut step = Step { session: self, stamp, out: Vec::new() };
        step.take(input);
        step.out
    }
}

/// A step in progress.
struct Step<'a> {
    session: &'a mut Session,
    stamp: Stamp,
    out: Vec<Output>,
}

impl Step<'_> {
    fn take(&mut self, input: Input) {
        match input {
            Input::Create { context, model, reasoning_effort, version, by, sandbox } => {
                self.record(SessionStart {
                    session_id: self.session.id.clone(),
                    version: HISTORY_VERSION,
                    producer: "baton".into(),
                    copilot_version: version,
                    start_time: self.stamp.now,
                    selected_model: model,
                    reasoning_effort,
                    context: Some(context),
                    remote_steerable: Some(false),
                    already_in_use: Some(false),
                    by,
                    sandbox: sandbox.map(|sandbox| *sandbox),
                });
            }
            Input::Attach { client, profile, arrival } => self.attach(client, profile, arrival),
            Input::Detach { client } => self.detach(client),
            Input::Ask { id, ask } => ask.dispatch(id, self),
            Input::Note { agent, body } => {
                self.record_for(agent.as_ref(), *body);
            }
            Input::Show(body) => {
                self.show(*body);
            }
            Input::Close { reason, shutdown } => self.close(&reason, shutdown),
            Input::Reported { work, report } => self.engine_reported(work, *report),
            Input::Finished { work, result } => self.finished(work, *result),
        }
    }

    /// Handles the result of work. A result of work that was stopped is dropped: it belongs to a turn that has its outcome.
    fn finished(&mut self, id: WorkId, result: WorkResult) {
        let Some(work) = self.session.live.work.remove(&id) else { return };
        match (work, result) {
            (Work::PreparePrompt { prompt, .. }, WorkResult::PreparePrompt(prepared)) => {
                self.prompt_prepared(prompt, prepared);
            }
            (Work::RunCommand { command }, WorkResult::RunCommand(ran)) => self.command_ran(command, ran),
            (Work::CallModel { agent }, WorkResult::CallModel(said)) => {
                self.model_answered(agent.as_ref(), *said);
            }
            (Work::CallModel { agent: None }, WorkResult::CallModelFailed(failed)) => {
                self.model_failed(*failed);
            }
            (Work::CallModel { agent: Some(agent) }, WorkResult::CallModelFailed(failed)) => {
                self.fail_agent(&agent, failed.error);
            }
            (Work::PrepareCall { call }, WorkResult::PrepareCall(prepared)) => {
                self.call_prepared(&call, prepared);
            }
            (Work::RunTool { call, .. } | Work::Trust { call, .. }, WorkResult::RunTool(result)) => {
                self.tool_finished(&call, result);
            }
            (Work::RunTool { call, .. }, WorkResult::RunSkill(loaded)) => {
                let (result, skill) = *loaded;
                self.skill_loaded(&call, result, skill);
            }
            (Work::RunTool { call, .. }, WorkResult::Changed) => self.start(Work::PrepareCall { call }),
            (Work::FinishCall { call, request, .. }, WorkResult::RunTool(result)) => {
                self.call_finished(&call, request.as_ref(), result);
            }
            (Work::SaveGrant { request, location_key, approval, by, .. }, WorkResult::SaveGrant(saved)) => {
                self.grant_saved(&request, location_key, approval, by, saved);
            }
            (Work::RestoreFile { approved, path, .. }, WorkResult::HeldFile(restored)) => {
                self.file_restored(approved, &path, restored);
            }
            (Work::DropFile { .. }, WorkResult::HeldFile(dropped)) => self.file_dropped(dropped),
            (Work::Review, WorkResult::Review(go_on)) => self.turn_reviewed(go_on),
            (Work::Drive { .. }, WorkResult::Drive(outcome)) => self.engine_finished(outcome),
            (Work::DeliverQuestion { .. }, _) => {}
            // A result of the wrong kind is a bug of the shell. The work stays open, so that its turn is not lost.
            (work, _) => {
                self.session.live.work.insert(id, work);
            }
        }
    }

    /// Records an event of the main conversation, and folds it into the state.
    fn record(&mut self, body: impl Into<Body>) -> EventId {
        self.record_for(None, body)
    }

    /// Records an event of a conversation: the main one, or a sub-agent's.
    fn record_for(&mut self, agent: Option<&AgentId>, body: impl Into<Body>) -> EventId {
        let event = Event { agent_id: agent.cloned(), ..self.event(body.into()) };
        self.session.durable.apply(&event);
        let id = event.id;
        self.out.push(Output::Record(event));
        id
    }

    /// Shows an event without recording it.
    fn show(&mut self, body: impl Into<Body>) -> EventId {
        self.show_for(None, body)
    }

    /// Shows an event of a conversation.
    fn show_for(&mut self, agent: Option<&AgentId>, body: impl Into<Body>) -> EventId {
        let event = Event { ephemeral: true, agent_id: agent.cloned(), ..self.event(body.into()) };
        let id = event.id;
        self.out.push(Output::Show(event));
        id
    }

    fn event(&mut self, body: Body) -> Event {
        Event {
            id: self.stamp.event_id(),
            timestamp: self.stamp.now,
            parent_id: self.session.durable.last_public,
            agent_id: None,
            ephemeral: false,
            body,
        }
    }

    /// Replies to an ask.
    fn reply<A: Asking>(&mut self, to: ReplyTo<A>, reply: A::Reply) {
        self.out.push(Output::Reply(to.id(), Ok(A::reply(reply))));
    }

    /// Refuses an ask.
    fn refuse<A: Asking>(&mut self, to: ReplyTo<A>, why: impl Into<Refusal>) {
        self.out.push(Output::Reply(to.id(), Err(why.into())));
    }

    /// Starts work.
    fn start(&mut self, work: Work) {
        self.session.live.last_work += 1;
        let id = WorkId(self.session.live.last_work);
        self.session.live.work.insert(id, work.clone());
        self.out.push(Output::Start(id, work));
    }

    /// Stops the work that `which` selects.
    fn stop_where(&mut self, which: impl Fn(&Work) -> bool) {
        let ids: Vec<WorkId> =
            self.session.live.work.iter().filter(|(_, work)| which(work)).map(|(id, _)| *id).collect();
        for id in ids {
            self.session.live.work.remove(&id);
            self.out.push(Output::Stop(id));
        }
    }

    /// Returns the running turn.
    fn turn(&self) -> Option<&Turn> {
        self.session.durable.turn.as_ref()
    }

    /// Records the one outcome of prompts (P5).
    fn settle(&mut self, prompt_ids: Vec<PromptId>, outcome: Outcome, reason: impl Into<String>) {
        self.record(TurnSettled { prompt_ids, outcome, reason: reason.into() });
    }

    /// Shows that the session is idle.
    fn show_idle(&mut self, aborted: bool) {
        let aborted = aborted.then_some(true);
        self.show(AssistantIdle { aborted });
        self.show(SessionIdle { aborted });
    }
}
