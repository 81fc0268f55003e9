//! What follows once a step is durable: clients see it, callers hear of it, work starts and stops.

use baton_core::{EngineControl, Output, Session, Work, WorkId, WorkResult};
use baton_engines::Control;
use baton_protocol::event::{Body, Event, Outcome, SessionError};
use baton_store::{Seq, StoreError};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Actor, Running};
use crate::crash::CrashPoint;
use crate::session::hub::Published;
use crate::session::mail::Mail;
use crate::work;

impl Actor {
    /// Acts on the outputs of a step. `first` is the place of its first record, `bodies` are its records as stored.
    pub(super) async fn act(&mut self, first: Seq, outputs: Vec<Output>, bodies: Vec<Bytes>) {
        // Before anything is shown: nobody should see a piece of an answer after the news that it was cancelled.
        for output in &outputs {
            if let Output::Stop(work) = output
                && let Some(running) = self.running.remove(work)
            {
                self.server.crash_point(CrashPoint::BeforeStop);
                running.token.cancel();
                self.server.crash_point(CrashPoint::AfterStop);
            }
        }
        let recorded = !bodies.is_empty();
        let mut places = bodies.into_iter().enumerate().map(|(n, body)| (first.plus(n), body));
        for output in outputs {
            match output {
                Output::Record(event) => {
                    if let Some((seq, body)) = places.next() {
                        self.publish(&event, Some(seq), body);
                        self.server.crash_point(CrashPoint::AfterPublish);
                    }
                }
                Output::Show(event) => {
                    let body = serde_json::to_vec(&event).unwrap_or_default();
                    self.publish(&event, None, body.into());
                }
                Output::Reply(to, reply) => {
                    if let Some(respond) = self.replies.remove(&to) {
                        self.server.crash_point(CrashPoint::BeforeReply);
                        respond(Ok(reply));
                        self.server.crash_point(CrashPoint::AfterReply);
                    }
                }
                Output::Start(id, work) => {
                    self.server.crash_point(CrashPoint::BeforeStart);
                    self.start(id, work).await;
                    self.server.crash_point(CrashPoint::AfterStart);
                }
                Output::Tell(work, control) => self.tell(work, control),
                Output::Stop(_) => {}
            }
        }
        if recorded {
            self.server.announce_update(&self.session, Seq(first.0.saturating_sub(1)));
        }
    }

    /// Lets go of what the turn has left in the background, if these outputs end it. Other prompts have outcomes, too:
    /// those that are taken back while they wait.
    pub(super) fn leave_background(&mut self, before: &Session, outputs: &[Output]) {
        let Some(turn) = &before.durable.turn else { return };
        let mut settled = outputs.iter().filter_map(|output| match output {
            Output::Record(Event { body: Body::TurnSettled(settled), .. }) => Some(settled),
            _ => None,
        });
        if let Some(end) = settled.find(|settled| turn.is_settled_by(&settled.prompt_ids)) {
            self.end_background(end.outcome != Outcome::Completed);
        }
    }

    fn publish(&mut self, event: &Event, seq: Option<Seq>, body: Bytes) {
        if seq.is_some() {
            self.conversation.apply(event);
            if matches!(event.body, Body::HistoryTruncated(_)) {
                self.mirror.catch_up(&self.session.id, seq.unwrap_or(self.head));
            }
            if event.body.is_public() {
                self.mirror.append(body.clone());
            }
        }
        self.hub.publish(event, Published::live(event, seq, body));
    }

    async fn start(&mut self, id: WorkId, work: Work) {
        if let Work::PreparePrompt { prompt, .. } = &work {
            self.conversation.take_headers(&self.session, *prompt);
        }
        if matches!(work, Work::Ask { .. } | Work::Drive { token: None, .. })
            && let Err(error) = self.conversation.load(&self.server, &self.session.id, self.head).await
        {
            // Asking without the history would be worse than not asking: the model would answer as if to a stranger.
            let error = storage_error(&error);
            let failed = match work {
                Work::Ask { .. } => WorkResult::AskFailed(Box::new(error.into())),
                _ => WorkResult::Drive(Err(error)),
            };
            return drop(self.mailbox.send(Mail::Finished(id, Box::new(failed))));
        }
        let token = CancellationToken::new();
        let is_tool = matches!(work, Work::RunTool { .. });
        let (control, controlled) = mpsc::unbounded_channel();
        let is_driven = matches!(work, Work::Drive { .. });
        let running = Running { token: token.clone(), is_tool, control: is_driven.then_some(control) };
        self.running.insert(id, running);
        let agent = work.agent().cloned();
        let bench = work::Bench { control: is_driven.then_some(controlled), agent, ..self.work_bench(token) };
        work::spawn(bench, self.mailbox.clone(), id, work);
    }

    /// Passes something on to an engine that works. One that has just ended does not need it any more.
    fn tell(&self, work: WorkId, control: EngineControl) {
        let control = match control {
            EngineControl::Decide { reference, verdict } => Control::Decide { reference, verdict },
            EngineControl::Answer { reference, answer, was_freeform } => {
                Control::Answer { reference, answer, was_freeform }
            }
            EngineControl::Steer(prompt) => Control::Steer(prompt),
        };
        if let Some(sender) = self.running.get(&work).and_then(|running| running.control.as_ref()) {
            drop(sender.send(control));
        }
    }

    /// What work may use of this session: copies, so that work never sees the session change under it.
    pub(super) fn work_bench(&self, cancel: CancellationToken) -> work::Bench {
        work::Bench {
            server: self.server.clone(),
            session: self.session.clone(),
            settings: self.settings.clone(),
            hub: self.hub.clone(),
            mailbox: self.mailbox.clone(),
            conversation: self.conversation.clone(),
            tools: self.tools.clone(),
            engine: self.engine.clone(),
            agent: None,
            control: None,
            cancel,
        }
    }

    /// Tells clients that the session cannot be written any more. Not recorded, for that very reason.
    pub(super) fn show_failure(&self, error: &StoreError) {
        self.hub.show(storage_error(error), &CancellationToken::new());
    }
}

fn storage_error(error: &StoreError) -> SessionError {
    let error_type = if matches!(error, StoreError::Fenced(_)) { "taken_over" } else { "storage" };
    SessionError { error_type: error_type.into(), message: error.to_string(), ..SessionError::default() }
}
