//! Actor of one live session: it steps the core, makes the recorded events durable, and only then publishes them and acts
//! on the other outputs.

mod act;
mod compact;
mod end;
mod history;
mod join;
mod locate;
mod open;
mod spans;
#[cfg(test)]
mod tests;
pub(crate) mod transcript;
mod write;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use baton_ask::View;
use baton_core::{AskId, Input, Session, Stamp, WorkId};
use baton_files::mirror::Mirror;
use baton_handle::attached::Attached;
use baton_handle::{ActorMessage, Failure, FromWork, Publisher, Residence, Respond, Responder};
use baton_history::metadata::Metadata;
use baton_protocol::Timestamp;
use baton_protocol::engine::EngineControl;
use baton_store::{Lease, Seq, StoreError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::open::{Loading, Mailbox, Survivors};
use self::spans::TurnSpan;
use self::transcript::Transcripts;
use self::write::UnwrittenSteps;
use crate::Runtime;
use crate::crash::CrashPoint;
use crate::work::{SessionEngine, SessionTools, beside, sandbox};
use baton_ask::{ActorAsk, AskMessage, FamilyAsk};
use baton_settings::{Layers, Settings, SettingsChange, SettingsEdit};

/// Maximum number of messages that share one write.
const BATCH: usize = 64;

/// Time between two checks of the lease of a busy session.
const LEASE_CHECK: Duration = Duration::from_secs(3);
/// Time between two checks of the lease of an idle session with clients. Another server may take it over or delete it, and
/// its clients would not notice otherwise.
const IDLE_LEASE_CHECK: Duration = Duration::from_secs(10);

/// Time that an idle session without clients stays live.
pub(crate) const LINGER: Duration = Duration::from_secs(60);

/// State of an actor.
pub(crate) struct Actor {
    pub(super) runtime: Arc<Runtime>,
    pub(super) session: Session,
    pub(super) settings: Arc<Settings>,
    /// The parts of the settings; none unless servers share the store.
    layers: Option<Box<Layers>>,
    pub(super) hub: Publisher,
    lease: Lease,
    head: Seq,
    /// Metadata as last written. It is written again only when it has changed.
    meta: Metadata,
    last_snapshot: u64,
    /// Description of damage that was found when the session was opened, until a client has been shown it.
    repairs: Option<String>,
    inbox: mpsc::UnboundedReceiver<ActorMessage>,
    /// The actor's own mailbox, for reports of work.
    mailbox: mpsc::UnboundedSender<ActorMessage>,
    /// Responders of asks of the core that have no reply yet.
    replies: BTreeMap<AskId, Responder>,
    last_ask: u64,
    running: BTreeMap<WorkId, Running>,
    /// Tokens of the running turn's tool calls that have returned. A background command listens to the token of its call
    /// for as long as it runs, and ends with a turn that is cancelled or fails.
    returned: Vec<CancellationToken>,
    conversation: Transcripts,
    /// The running compaction.
    compaction: Option<compact::Compaction>,
    tools: Arc<SessionTools>,
    engine: Arc<SessionEngine>,
    mirror: Mirror,
    /// Clients, with what they brought: if this server loses the session, it joins them again through another one. Empty
    /// unless servers share the store.
    attached: Attached,
    /// Whether the session ends here, and is to be found again for its clients.
    steps_down: bool,
    /// Whether the `sessionEnd` hook was called.
    end_hook_invoked: bool,
    /// When the session is unloaded, unless it is used before.
    leave_at: Option<tokio::time::Instant>,
    /// Time of the last check of the lease.
    lease_checked_at: tokio::time::Instant,
    /// Span of the newest turn.
    turn_span: Option<TurnSpan>,
}

/// Running work.
struct Running {
    token: CancellationToken,
    is_tool: bool,
    /// Sends messages to the work, if it is an engine.
    control: Option<mpsc::UnboundedSender<EngineControl>>,
}

impl Actor {
    /// Serves messages until the session is not needed any more, or cannot be written.
    async fn live(&mut self) {
        while let Some(message) = self.next_message().await {
            if self.take_message(message).await.is_break() {
                break;
            }
            self.plan_leaving();
        }
    }

    /// Waits for the next message. Returns none if the session has been idle without clients for [`LINGER`], or has lost
    /// its lease.
    async fn next_message(&mut self) -> Option<ActorMessage> {
        if let Some(leave_at) = self.leave_at {
            return tokio::select! {
                message = self.inbox.recv() => message,
                () = tokio::time::sleep_until(leave_at) => self.runtime.registry.try_remove(&self.session.id, &mut self.inbox),
            };
        }
        loop {
            let interval = if self.session.is_busy() { LEASE_CHECK } else { IDLE_LEASE_CHECK };
            tokio::select! {
                message = self.inbox.recv() => return message,
                () = tokio::time::sleep_until(self.lease_checked_at + interval) => {}
            }
            self.lease_checked_at = tokio::time::Instant::now();
            if write::has_lost(&*self.runtime.store, &self.lease).await {
                self.give_up(&StoreError::Fenced(self.session.id.clone()));
                return None;
            }
        }
    }

    fn plan_leaving(&mut self) {
        let needed = self.session.is_in_use() || self.compaction.is_some();
        self.leave_at = match (needed, self.leave_at) {
            (true, _) => None,
            (false, Some(planned)) => Some(planned),
            (false, None) => Some(tokio::time::Instant::now() + LINGER),
        };
    }

    /// Serves a message, and those that have arrived meanwhile, with as few writes as possible.
    async fn take_message(&mut self, first: ActorMessage) -> ControlFlow<()> {
        let mut next = Some(first);
        let mut taken = 0;
        let mut pending: Option<UnwrittenSteps> = None;
        sandbox::refresh(&self.runtime, &mut self.session);
        while let Some(message) = next.take() {
            match self.as_input(message) {
                Ok((input, from_work)) => {
                    let pending = pending.get_or_insert_with(|| UnwrittenSteps {
                        before: Box::new(self.session.clone()),
                        outputs: Vec::new(),
                        from_work: false,
                    });
                    pending.from_work |= from_work;
                    pending.outputs.extend(self.session.step(input, stamp()));
                }
                Err(other) => {
                    if let Some(pending) = pending.take() {
                        self.settle(pending).await?;
                    }
                    self.take_other(*other).await?;
                }
            }
            taken += 1;
            next = if taken < BATCH { self.inbox.try_recv().ok() } else { None };
        }
        match pending {
            Some(pending) => self.settle(pending).await,
            None => ControlFlow::Continue(()),
        }
    }

    /// Converts a message to an input of the core, if it is one; and whether it comes from work.
    fn as_input(&mut self, message: ActorMessage) -> Result<(Input, bool), Box<ActorMessage>> {
        Ok(match message {
            ActorMessage::Relayed(message) => return self.as_input(*message),
            ActorMessage::Ask(AskMessage::Core(ask), responder) => {
                (Input::Ask { id: self.expect_reply(responder), ask: *ask }, false)
            }
            ActorMessage::Work(FromWork::Note(agent, body)) => (Input::Note { agent, body }, true),
            ActorMessage::Work(FromWork::Report(work, report, _)) => (Input::Reported { work, report }, true),
            ActorMessage::Work(FromWork::Finished(work, result)) => {
                self.runtime.crash_point(CrashPoint::WorkReturned);
                if let Some(running) = self.running.remove(&work)
                    && running.is_tool
                {
                    self.returned.push(running.token);
                }
                (Input::Finished { work, result }, true)
            }
            other => return Err(Box::new(other)),
        })
    }

    /// Serves a message that is not an input of the core. What is rare is boxed, see [`Loading::create`].
    async fn take_other(&mut self, message: ActorMessage) -> ControlFlow<()> {
        match message {
            ActorMessage::Ask(AskMessage::Actor(ask), responder) => return self.serve(ask, responder).await,
            ActorMessage::Ask(ask, responder) => self.serve_beside(ask, responder).await,
            ActorMessage::Join(joining, port, reply) => {
                match Box::pin(self.join(&joining, port.clone())).await {
                    Ok(joined) => drop(reply.send(Ok(joined))),
                    Err(error @ StoreError::Medium { .. }) => drop(reply.send(Err(Failure::Store(error)))),
                    // Another server has taken the session over, or it was deleted. The message is forwarded to the next actor
                    // of the session in this server, which replies.
                    Err(lost) => {
                        drop(self.mailbox.send(ActorMessage::Join(joining, port, reply)));
                        match self.runtime.cluster {
                            Some(_) => self.step_down(),
                            None => self.show_failure(&lost),
                        }
                        return ControlFlow::Break(());
                    }
                }
            }
            ActorMessage::Leave(client) => return Box::pin(self.leave(client)).await,
            ActorMessage::Unlink(client, port) => {
                if self.hub.detach_port(client, &port) {
                    return Box::pin(self.leave(client)).await;
                }
            }
            ActorMessage::StepDown => {
                self.step_down();
                return ControlFlow::Break(());
            }
            ActorMessage::Compact(compact) => return Box::pin(self.compact(*compact)).await,
            ActorMessage::Compacted(complete) => return Box::pin(self.compacted(*complete)).await,
            mail @ (ActorMessage::Stop(_) | ActorMessage::Vanish(_)) => {
                if matches!(mail, ActorMessage::Vanish(_)) {
                    self.hub.reside(Residence::Closed);
                }
                let (ActorMessage::Stop(done) | ActorMessage::Vanish(done)) = mail else {
                    return ControlFlow::Break(());
                };
                self.stop_everything();
                Box::pin(self.end_processes()).await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
            // `as_input` converts inputs of the core, and unwraps messages of other servers.
            ActorMessage::Work(_) | ActorMessage::Relayed(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Changes settings.
    fn configure(&mut self, edit: SettingsEdit) {
        self.runtime.secrets.add_keys_of(edit.providers());
        match &mut self.layers {
            None => Arc::make_mut(&mut self.settings).apply(edit),
            Some(layers) => {
                layers.change(SettingsChange { at: self.head.0, edit });
                self.sum_up();
            }
        }
        join::remember_provider(&self.runtime, &self.session.id, &self.settings);
    }

    /// Sets the settings to what their parts make.
    fn sum_up(&mut self) {
        if let Some(layers) = &self.layers {
            // Not a part: it is noted by whichever server holds the session.
            let sender = self.settings.sender;
            self.settings = Arc::new(Settings { sender, ..layers.sum() });
        }
    }

    /// Serves an ask of the actor's family.
    async fn serve(&mut self, ask: ActorAsk, responder: Responder) -> ControlFlow<()> {
        match ask {
            ActorAsk::Inspect(_) => reply_to::<baton_ask::Inspect>(responder, self.view()),
            ActorAsk::Configure(ask) => {
                self.configure(*ask.edit);
                reply_to::<baton_ask::Configure>(responder, ());
            }
            ActorAsk::Close(ask) => return Box::pin(self.close(ask.client, Respond::new(responder))).await,
            ActorAsk::ShutDown(ask) => return Box::pin(self.shut_down(ask, Respond::new(responder))).await,
            ActorAsk::TruncateAt(ask) => return Box::pin(self.truncate(ask, Respond::new(responder))).await,
            ActorAsk::Rewind(ask) => return Box::pin(self.rewind(&ask, Respond::new(responder))).await,
            ActorAsk::StopCompaction(ask) => {
                return Box::pin(self.stop_compacting(ask.manual, Respond::new(responder))).await;
            }
        }
        ControlFlow::Continue(())
    }

    /// Starts to serve an ask beside the actor. Loads the conversation first, if the ask needs it.
    async fn serve_beside(&mut self, ask: AskMessage, responder: Responder) {
        if beside::needs_conversation(&ask)
            && let Err(error) = self.conversation.load(&self.runtime, &self.session.id, self.head).await
        {
            return responder.reply(Err(Failure::Store(error)));
        }
        let scope = self.work_scope(CancellationToken::new());
        spans::ask(ask.name()).in_scope(|| beside::serve(scope, ask, responder));
    }

    /// Copies the state of the session.
    fn view(&self) -> View {
        View {
            session: self.session.clone(),
            settings: self.settings.clone(),
            head: self.head,
            files: self.tools.files().clone(),
        }
    }

    fn handle(&self) -> super::Handle {
        super::Handle::new(self.session.id.clone(), &self.hub, self.mailbox.clone())
    }

    fn expect_reply(&mut self, responder: Responder) -> AskId {
        self.last_ask += 1;
        let id = AskId(self.last_ask);
        self.replies.insert(id, responder);
        id
    }
}

/// Replies to an ask that was served at once.
fn reply_to<A: FamilyAsk>(responder: Responder, reply: A::Reply) {
    responder.reply(Ok(A::wrap(reply)));
}

/// Creates the stamp of a step.
fn stamp() -> Stamp {
    Stamp::new(Timestamp::now(), Uuid::new_v4().as_u128())
}
