//! Acts on the outputs of a durable step: publishes events, replies to asks, starts and stops work.

use baton_ask::ReplyMessage;
use baton_core::{Output, Session, Work, WorkId, WorkResult};
use baton_handle::{ActorMessage, Failure, FromWork, Published};
use baton_protocol::engine::EngineControl;
use baton_protocol::event::{Body, Event, Outcome, SessionError};
use baton_store::{Seq, StoreError};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Actor, Running};
use crate::cluster::Cluster;
use crate::crash::CrashPoint;
use crate::work;

impl Actor {
    /// Acts on the outputs of a step. `first` is the sequence number of its first record, `bodies` are its records as stored.
    pub(super) async fn act(&mut self, first: Seq, outputs: Vec<Output>, bodies: Vec<Bytes>) {
        // Before events are published: no client may see a delta after the event that says that the response was
        // cancelled.
        for output in &outputs {
            if let Output::Stop(work) = output
                && let Some(running) = self.running.remove(work)
            {
                self.runtime.crash_point(CrashPoint::BeforeStop);
                running.token.cancel();
                self.runtime.crash_point(CrashPoint::AfterStop);
            }
        }
        let recorded = !bodies.is_empty();
        let asked = outputs
            .iter()
            .any(|output| matches!(output, Output::Show(event) if is_about_an_ask(&event.body)));
        let mut records = bodies.into_iter().enumerate().map(|(n, body)| (first.plus(n), body));
        for output in outputs {
            match output {
                Output::Record(event) => {
                    if let Some((seq, body)) = records.next() {
                        self.publish(&event, Some(seq), body);
                        self.runtime.crash_point(CrashPoint::AfterPublish);
                    }
                }
                Output::Show(event) => {
                    match serde_json::to_vec(&event) {
                        Ok(body) => self.publish(&event, None, body.into()),
                        // Clients cannot parse an empty event. It is not part of the history, so nothing is lost there.
                        Err(error) => {
                            let (session, event) = (&self.session.id, event.body.kind());
                            tracing::error!(%session, event, %error, "failed to encode an event; it is not shown");
                        }
                    }
                }
                Output::Reply(id, reply) => {
                    if let Some(responder) = self.replies.remove(&id) {
                        let reply = reply.map(|reply| ReplyMessage::Core(Box::new(reply)));
                        self.runtime.crash_point(CrashPoint::BeforeReply);
                        responder.reply(reply.map_err(Failure::from));
                        self.runtime.crash_point(CrashPoint::AfterReply);
                    }
                }
                Output::Start(id, work) => {
                    self.runtime.crash_point(CrashPoint::BeforeStart);
                    self.start(id, work).await;
                    self.runtime.crash_point(CrashPoint::AfterStart);
                }
                Output::Tell(work, control) => self.tell(work, control),
                Output::Stop(_) => {}
            }
        }
        if recorded {
            self.runtime.metrics.note_pending(&self.session);
            self.runtime.announce_update(&self.session, Seq(first.0.saturating_sub(1)));
        } else if asked {
            self.runtime.announce_asks(&self.session);
        }
    }

    /// Detaches or ends the background commands of the turn, if these outputs end it. Withdrawn prompts have outcomes, too,
    /// and end no turn.
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
        self.runtime.metrics.observe(&event.body);
        if seq.is_some() {
            self.conversation.apply(event);
            if matches!(event.body, Body::HistoryTruncated(_)) {
                self.mirror.catch_up(seq.unwrap_or(self.head));
            }
            if event.body.is_public() {
                self.mirror.append(body.clone());
            }
        }
        self.hub.publish(event, Published::live(event, seq, body));
    }

    async fn start(&mut self, id: WorkId, work: Work) {
        if self.runtime.cluster.as_ref().is_some_and(Cluster::is_fenced) {
            // Another server may soon have the session: what it would run must not run here, too.
            return drop(self.mailbox.send(ActorMessage::StepDown));
        }
        if let Work::PreparePrompt { prompt, .. } = &work {
            self.conversation.take_headers(&self.session, *prompt);
        }
        if matches!(work, Work::CallModel { .. } | Work::Drive { token: None, .. })
            && let Err(error) = self.conversation.load(&self.runtime, &self.session.id, self.head).await
        {
            // A model that is asked without the history would answer as if there were none, which is worse than an error.
            let error = storage_error(&error);
            let failed = match work {
                Work::CallModel { .. } => WorkResult::CallModelFailed(Box::new(error.into())),
                _ => WorkResult::Drive(Err(error)),
            };
            return drop(self.mailbox.send(ActorMessage::Work(FromWork::Finished(id, Box::new(failed)))));
        }
        let span = self.work_span(&work);
        let token = CancellationToken::new();
        let is_tool = matches!(work, Work::RunTool { .. });
        let (control, controlled) = mpsc::unbounded_channel();
        let is_driven = matches!(work, Work::Drive { .. });
        let running = Running { token: token.clone(), is_tool, control: is_driven.then_some(control) };
        self.running.insert(id, running);
        let agent = work.agent().cloned();
        let scope =
            work::WorkScope { control: is_driven.then_some(controlled), agent, ..self.work_scope(token) };
        span.in_scope(|| work::spawn(scope, self.mailbox.clone(), id, work));
    }

    /// Sends a message to a running engine. Does nothing if the engine has just ended.
    fn tell(&self, work: WorkId, control: EngineControl) {
        if let Some(sender) = self.running.get(&work).and_then(|running| running.control.as_ref()) {
            drop(sender.send(control));
        }
    }

    /// Copies what work needs of the session, so that the session does not change while work uses it.
    pub(super) fn work_scope(&self, cancel: CancellationToken) -> work::WorkScope {
        work::WorkScope {
            runtime: self.runtime.clone(),
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

    /// Shows clients that the session can no longer be written. Cannot be recorded, for the same reason.
    pub(super) fn show_failure(&self, error: &StoreError) {
        self.hub.show(storage_error(error), &CancellationToken::new());
    }
}

fn storage_error(error: &StoreError) -> SessionError {
    let error_type = if matches!(error, StoreError::Fenced(_)) { "taken_over" } else { "storage" };
    SessionError { error_type: error_type.into(), message: error.to_string(), ..SessionError::default() }
}

/// Whether an event that is only shown is about a form, a request of an MCP server, or consent. These are pending requests
/// that are not recorded.
fn is_about_an_ask(body: &Body) -> bool {
    matches!(
        body,
        Body::ElicitationRequested(_)
            | Body::ElicitationCompleted(_)
            | Body::SamplingRequested(_)
            | Body::SamplingCompleted(_)
            | Body::PermissionRequested(_)
            | Body::PermissionCompleted(_)
    )
}
