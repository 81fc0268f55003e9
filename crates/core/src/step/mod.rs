//! One step: an input comes in, and everything that follows from it at once is decided here.
//!
//! `Step` is the workbench of a step. Recording an event folds it into the state at the same moment, so that whatever
//! is decided next sees the session as it will be read back after a crash.

pub mod agents;
pub mod asks;
pub mod cancel;
pub mod changes;
pub mod clients;
pub mod commands;
pub mod engine;
pub mod history;
pub mod plan;
pub mod prompt;
pub mod queue;
pub mod recover;
pub mod requests;
pub mod rounds;
pub mod switch;

use baton_protocol::event::{AssistantIdle, Body, Outcome, SessionIdle, SessionStart, TurnSettled};
use baton_protocol::{AgentId, Event, EventId, PromptId};

use crate::input::Input;
use crate::output::{Output, Reply, ReplyTo, Work, WorkId};
use crate::results::WorkResult;
use crate::stamp::Stamp;
use crate::state::{Session, Turn};

/// The version of the event vocabulary that a session starts with.
const HISTORY_VERSION: u32 = 1;

impl Session {
    /// Takes one input and returns all that follows from it.
    pub fn step(&mut self, input: Input, stamp: Stamp) -> Vec<Output> {
        let mut step = Step { session: self, stamp, out: Vec::new() };
        step.take(input);
        step.out
    }
}

/// The workbench of a step.
struct Step<'a> {
    session: &'a mut Session,
    stamp: Stamp,
    out: Vec<Output>,
}

impl Step<'_> {
    fn take(&mut self, input: Input) {
        if matches!(
            input,
            Input::Prompt { .. } | Input::Enqueue { .. } | Input::Answer { .. } | Input::StartAgent { .. }
        ) {
            self.continue_work();
        }
        match input {
            Input::Create { context, model, reasoning_effort, version } => {
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
                });
            }
            Input::Attach { client, profile, arrival } => self.attach(client, profile, arrival),
            Input::Detach { client } => self.detach(client),
            Input::Prompt { reply, prompt } => self.accept(reply, prompt),
            Input::Enqueue { reply, command } => self.enqueue(reply, command),
            Input::Arrange { reply, how } => self.arrange(reply, *how),
            Input::Host { client, handle, offers } => self.host(client, handle, offers),
            Input::Withdraw { reply, which } => self.withdraw(reply, which),
            Input::Abort { reply, reason } => self.abort(reply, reason),
            Input::Answer { reply, request, answer } => self.answer(reply, &request, answer),
            Input::Ask { reply, ask } => self.ask_clients(reply, ask),
            Input::Listen { reply, client } => self.listen(reply, client),
            Input::StopListening { reply, listener } => self.stop_listening(reply, &listener),
            Input::Suspend { reply } => self.suspend(reply),
            Input::Change { reply, change } => self.change(reply, change),
            Input::Truncate { reply, cut } => self.truncate(reply, cut),
            Input::StartAgent { reply, task } => self.start_agent(reply, *task),
            Input::StopAgent { reply, agent } => self.stop_agent(reply, &agent),
            Input::Note { agent, body } => {
                self.record_for(agent.as_ref(), *body);
            }
            Input::Show(body) => {
                self.show(*body);
            }
            Input::Close { reason, shutdown } => self.close(&reason, shutdown),
            Input::Reported { work, report } => self.reported(work, *report),
            Input::Finished { work, result } => self.finished(work, *result),
        }
    }

    /// Takes back work. Results of work that was stopped meanwhile, or that answer something else than was asked, are
    /// dropped: they belong to a turn that has had its outcome.
    fn finished(&mut self, id: WorkId, result: WorkResult) {
        let Some(work) = self.session.live.work.remove(&id) else { return };
        match (work, result) {
            (Work::PreparePrompt { prompt, .. }, WorkResult::PreparePrompt(prepared)) => {
                self.prompt_prepared(prompt, prepared);
            }
            (Work::RunCommand { command }, WorkResult::RunCommand(ran)) => self.command_ran(command, ran),
            (Work::Ask { agent }, WorkResult::Ask(said)) => self.answered(agent.as_ref(), *said),
            (Work::Ask { agent: None }, WorkResult::AskFailed(failed)) => self.unanswered(*failed),
            (Work::Ask { agent: Some(agent) }, WorkResult::AskFailed(failed)) => {
                self.agent_ask_failed(&agent, failed.error);
            }
            (Work::PrepareCall { call }, WorkResult::PrepareCall(prepared)) => {
                self.call_prepared(&call, prepared);
            }
            (Work::RunTool { call }, WorkResult::RunTool(result)) => self.tool_finished(&call, result),
            (Work::FinishCall { call, request, .. }, WorkResult::RunTool(result)) => {
                self.result_counts(&call, request.as_ref(), result);
            }
            (Work::SaveGrant { request, location_key, approval, by }, WorkResult::SaveGrant(saved)) => {
                self.grant_saved(&request, location_key, approval, by, saved);
            }
            (Work::Review, WorkResult::Review(go_on)) => self.reviewed(go_on),
            (Work::Drive { .. }, WorkResult::Drive(outcome)) => self.driven(outcome),
            (Work::DeliverQuestion { .. }, _) => {}
            // The shell answered with the wrong kind: keep the work open, so that a turn cannot be lost to a mix-up.
            (work, _) => {
                self.session.live.work.insert(id, work);
            }
        }
    }

    /// Records an event: it becomes part of the history, and of the state.
    fn record(&mut self, body: impl Into<Body>) -> EventId {
        self.record_for(None, body)
    }

    /// Records an event of a conversation: of the main one, or of a sub-agent's.
    fn record_for(&mut self, agent: Option<&AgentId>, body: impl Into<Body>) -> EventId {
        let event = Event { agent_id: agent.cloned(), ..self.event(body.into()) };
        self.session.durable.apply(&event);
        let id = event.id;
        self.out.push(Output::Record(event));
        id
    }

    /// Shows an event that nobody keeps.
    fn show(&mut self, body: impl Into<Body>) -> EventId {
        self.show_for(None, body)
    }

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

    fn reply(&mut self, to: ReplyTo, reply: Reply) {
        self.out.push(Output::Reply(to, reply));
    }

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

    fn turn(&self) -> Option<&Turn> {
        self.session.durable.turn.as_ref()
    }

    /// Gives prompts their one outcome (P5).
    fn settle(&mut self, prompt_ids: Vec<PromptId>, outcome: Outcome, reason: impl Into<String>) {
        self.record(TurnSettled { prompt_ids, outcome, reason: reason.into() });
    }

    /// Tells everybody that nothing runs and nothing waits.
    fn show_idle(&mut self, aborted: bool) {
        let aborted = aborted.then_some(true);
        self.show(AssistantIdle { aborted });
        self.show(SessionIdle { aborted });
    }
}
