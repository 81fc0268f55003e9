//! The edge's side: serves the handle of a session whose actor is in another server.
//!
//! The edge keeps the sockets of its clients, and what they brought when they joined and changed since. When the owner is
//! lost, the edge ends with its [`Survivors`]; the next actor or edge of the session joins the clients again. Durable events
//! that were published meanwhile are read from the store first, so that each client receives each of them once and in order.

use std::collections::HashMap;
use std::sync::Arc;

use baton_ask::workflows::ListInterruptedRuns;
use baton_ask::{AskMessage, Inspect, ReplyMessage};
use baton_handle::attached::{AskedCommand, Attached, Lasting};
use baton_handle::remote::{FromOwner, Link, RemoteEvent, ToOwner, method};
use baton_handle::{ActorMessage, Batch, Failure, JoinReply, JoinRequest, Port, Residence, Responder};
use baton_protocol::event::SessionIdle;
use baton_protocol::{Body, ClientId, Json, SessionId};
use baton_providers::{CallFailed, Calling, Relays};
use baton_store::{Seq, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::extension_host::start_ask;
use crate::session::Handle;
use crate::session::actor::{LINGER, Loading, Survivors};

/// The reason why an edge ends.
pub(crate) enum Ending {
    /// The owner is lost, or holds the session no more: it is to be found again.
    Lost(Box<Survivors>),
    /// The session was closed, or nobody here needs it any more.
    Over,
}

/// A session whose actor is in another server.
struct Edge {
    loading: Loading,
    to_owner: mpsc::UnboundedSender<ToOwner>,
    attached: Attached,
    last: u64,
    asks: HashMap<u64, InFlight>,
    joins: HashMap<u64, JoinInFlight>,
    vanishing: HashMap<u64, oneshot::Sender<()>>,
    /// Model requests of the session that a client of this server carries.
    relays: Relays,
    /// Whether the owner was told that this server carries them.
    carries: bool,
    leave_at: Option<Instant>,
}

/// An ask that has no reply yet.
struct InFlight {
    responder: Responder,
    /// The ask, if asking twice is harmless.
    ask: Option<Box<AskMessage>>,
    /// What it changes, if the next owner has to know.
    lasting: Option<Lasting>,
}

/// A client that is being attached.
struct JoinInFlight {
    joining: Box<JoinRequest>,
    port: Arc<dyn Port>,
    /// Receives the result; none for a client that was attached before.
    reply: Option<oneshot::Sender<Result<JoinReply, Failure>>>,
    is_attached: bool,
}

/// Serves the session through a link until it is lost. `head` is the owner's head when the link was opened.
pub(crate) async fn follow(loading: Loading, attached: Attached, link: Link, head: Seq) -> Ending {
    let Link { to_owner, mut from_owner } = link;
    if let Err(error) = loading.fill_gap(head).await {
        tracing::warn!(%error, "cannot read the events since the last owner; trying again");
        return Ending::Lost(Box::new(Survivors { loading, attached }));
    }
    loading.hub.reside(Residence::Elsewhere);
    let (attached, returning) = attached.rejoin();
    let tunnel = loading.runtime.models.tunnel.clone();
    let mut offered = tunnel.offered();
    let mut edge = Edge {
        loading,
        to_owner,
        attached,
        last: 0,
        asks: HashMap::new(),
        joins: HashMap::new(),
        vanishing: HashMap::new(),
        relays: tunnel.relays(),
        carries: false,
        leave_at: None,
    };
    if !returning.is_empty() {
        edge.show_if_idle();
        edge.show_interrupted_runs();
    }
    for (joining, port) in returning {
        edge.join(Box::new(joining), port, None);
    }
    loop {
        edge.plan_leaving();
        let leave_at = edge.leave_at;
        tokio::select! {
            mail = edge.loading.mailbox.receiver.recv() => {
                if !mail.is_some_and(|mail| edge.take(mail)) {
                    return edge.end();
                }
            }
            message = from_owner.recv() => match message {
                Some(FromOwner::Ended { closed: true }) => return edge.end(),
                Some(FromOwner::Ended { closed: false }) | None => return edge.lost(),
                Some(message) => edge.hear(message),
            },
            Ok(()) = offered.changed(), if !edge.attached.is_empty() => edge.offer_to_carry(),
            () = async { sleep_until(leave_at.unwrap_or_else(Instant::now)).await }, if leave_at.is_some() => {
                let (registry, id) = (&edge.loading.runtime.registry, &edge.loading.id);
                let mail = registry.try_remove(id, &mut edge.loading.mailbox.receiver);
                if !mail.is_some_and(|mail| edge.take(mail)) {
                    return edge.end();
                }
            }
        }
    }
}

impl Edge {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Shows that the session is idle, if it is: the event that said so is ephemeral, and may have been shown while the
    /// clients of this server were between two owners. They wait for it.
    fn show_if_idle(&self) {
        let Loading { id, hub, mailbox, .. } = &self.loading;
        let shown = hub.clone();
        let asked = Handle::new(id.clone(), hub, mailbox.sender.clone()).ask_then(Inspect {}, move |view| {
            if view.is_ok_and(|view| !view.session.is_busy()) {
                shown.show(SessionIdle::default(), &CancellationToken::new());
            }
        });
        drop(asked);
    }

    /// Has the owner start extensions, for a client that wanted them from an earlier owner.
    fn start_extensions(&self, joining: &JoinRequest) {
        if let Some(ask) = start_ask(joining.client, &joining.params) {
            let Loading { id, hub, mailbox, .. } = &self.loading;
            drop(Handle::new(id.clone(), hub, mailbox.sender.clone()).tell(ask));
        }
    }

    /// Shows the runs of workflows that were interrupted when the owner took the session over: that happens before it
    /// serves edges.
    fn show_interrupted_runs(&self) {
        let Loading { id, hub, mailbox, .. } = &self.loading;
        let shown = hub.clone();
        let handle = Handle::new(id.clone(), hub, mailbox.sender.clone());
        let asked = handle.ask_then(ListInterruptedRuns {}, move |reply| {
            let Ok(Ok(events)) = reply else { return };
            for (kind, data) in events {
                shown.show(Body::Unknown { kind, data: Json::from(data) }, &CancellationToken::new());
            }
        });
        drop(asked);
    }

    fn plan_leaving(&mut self) {
        let needed = !self.attached.is_empty()
            || !self.asks.is_empty()
            || !self.joins.is_empty()
            || self.loading.hub.clients() > 0;
        self.leave_at = match (needed, self.leave_at) {
            (true, _) => None,
            (false, Some(planned)) => Some(planned),
            (false, None) => Some(Instant::now() + LINGER),
        };
    }

    /// Sends a message of this server on. Returns `false` if the session ends here.
    fn take(&mut self, mail: ActorMessage) -> bool {
        match mail {
            ActorMessage::Ask(ask, responder) => {
                let id = self.next();
                let ask = Box::new(ask);
                let again = ask.is_repeatable().then(|| ask.clone());
                let lasting = Lasting::of(&ask);
                self.asks.insert(id, InFlight { responder, ask: again, lasting });
                drop(self.to_owner.send(ToOwner::Ask { id, ask }));
            }
            ActorMessage::Join(joining, port, reply) => self.join(joining, port, Some(reply)),
            ActorMessage::Leave(client) => {
                self.loading.hub.detach(client);
                self.attached.remove(client);
                self.joins.retain(|_, join| join.joining.client != client);
                drop(self.to_owner.send(ToOwner::Leave { client }));
            }
            ActorMessage::Vanish(done) => {
                let id = self.next();
                self.vanishing.insert(id, done);
                drop(self.to_owner.send(ToOwner::Vanish { id }));
            }
            ActorMessage::Stop(done) => {
                let _ = done.send(());
                return false;
            }
            // For the actor that was here before: the server that sent it asks the next owner itself.
            mail @ ActorMessage::Relayed(_) => mail.refuse(lost_ask()),
            ActorMessage::Unlink(..) => {}
            // Only an actor has work, and only its own tasks send these.
            ActorMessage::Work(_)
            | ActorMessage::Compact(_)
            | ActorMessage::Compacted(_)
            | ActorMessage::StepDown => {}
        }
        true
    }

    fn join(
        &mut self,
        joining: Box<JoinRequest>,
        port: Arc<dyn Port>,
        reply: Option<oneshot::Sender<Result<JoinReply, Failure>>>,
    ) {
        let id = self.next();
        // Before the client joins: with it, the owner notes who sends the session's model requests.
        self.offer_to_carry();
        // A client that was attached before kept its port in the hub.
        let is_attached = reply.is_none();
        drop(self.to_owner.send(ToOwner::Join { id, joining: joining.clone() }));
        self.joins.insert(id, JoinInFlight { joining, port, reply, is_attached });
    }

    /// Offers to carry the session's model requests, if a client of this server carries them.
    fn offer_to_carry(&mut self) {
        if !self.carries && self.loading.runtime.models.tunnel.is_open(None) {
            self.carries = true;
            drop(self.to_owner.send(ToOwner::Carry {}));
        }
    }

    /// Acts on a message of the owner.
    fn hear(&mut self, message: FromOwner) {
        match message {
            FromOwner::Events(events) => {
                let batch = batch(events);
                for asked in batch.events().iter().filter_map(|event| AskedCommand::of(event)) {
                    self.attached.note_asked(&asked);
                    self.joins.values_mut().for_each(|join| asked.note(&mut join.joining));
                }
                self.loading.hub.publish_received(batch);
            }
            FromOwner::Attached { client, events } => self.mark(client, events),
            FromOwner::Reply { id, result } => {
                if let Some(InFlight { responder, lasting, .. }) = self.asks.remove(&id) {
                    if let (Some(lasting), Ok(reply)) = (lasting, &result) {
                        self.attached.note(lasting, reply, self.loading.hub.head());
                    }
                    responder.reply(result.map(|reply| *reply));
                }
            }
            FromOwner::Joined { id, result } => self.joined(id, result),
            FromOwner::Call { id, client, method, params } => self.call(id, client, &method, params),
            FromOwner::CallCarrier { id, method, params } => self.call_carrier(id, &method, params),
            FromOwner::Vanished { id } => {
                if let Some(done) = self.vanishing.remove(&id) {
                    let _ = done.send(());
                }
            }
            // Sent once, before the edge began; `Ended` ends it.
            FromOwner::Opened { .. } | FromOwner::Refused { .. } | FromOwner::Ended { .. } => {}
        }
    }

    /// Attaches a client that is joining, and gives it its first events.
    fn mark(&mut self, client: ClientId, events: Vec<RemoteEvent>) {
        let Some(join) = self.joins.values_mut().find(|join| join.joining.client == client) else { return };
        if !std::mem::replace(&mut join.is_attached, true) {
            join.port.deliver(&self.loading.id, &batch(events));
            self.loading.hub.attach(client, join.port.clone());
        }
    }

    fn joined(&mut self, id: u64, result: Result<JoinReply, Failure>) {
        let Some(JoinInFlight { joining, port, reply, is_attached }) = self.joins.remove(&id) else { return };
        let client = joining.client;
        match &result {
            Ok(joined) => {
                if !is_attached {
                    self.loading.hub.attach(client, port.clone());
                }
                if reply.is_none() {
                    self.start_extensions(&joining);
                }
                self.attached.insert(*joining, port, joined.at);
            }
            Err(failure) if reply.is_none() => {
                tracing::warn!(%client, %failure, "cannot attach a client again; it has to resume the session");
                self.loading.hub.detach(client);
            }
            Err(_) => {}
        }
        if let Some(reply) = reply {
            drop(reply.send(result));
        }
    }

    fn call(&self, id: u64, client: ClientId, name: &str, params: serde_json::Value) {
        let port = self.loading.hub.port(client).or_else(|| {
            let joining = self.joins.values().find(|join| join.joining.client == client);
            joining.map(|join| join.port.clone())
        });
        let calling = port.zip(method(name)).map(|(port, method)| port.call(method, params));
        self.report(id, calling.unwrap_or_else(|| Box::pin(async { Err(CallFailed::Gone) })));
    }

    fn call_carrier(&self, id: u64, method: &str, params: serde_json::Value) {
        let to_owner = self.to_owner.clone();
        let request = params["requestId"].as_str().unwrap_or_default().to_owned();
        let deliver = move |part| to_owner.send(ToOwner::Carried { request: request.clone(), part }).is_ok();
        self.report(id, self.relays.call(method, params, deliver));
    }

    /// Sends the owner the result of a call.
    fn report(&self, id: u64, calling: Calling) {
        let to_owner = self.to_owner.clone();
        self.loading.runtime.tasks.spawn(async move {
            let result = calling.await.map_err(Into::into);
            drop(to_owner.send(ToOwner::Called { id, result }));
        });
    }

    /// Ends, because the session was closed or is not needed here.
    fn end(mut self) -> Ending {
        let hub = &self.loading.hub;
        hub.reside(Residence::Gone);
        hub.close();
        self.loading.runtime.registry.remove(&self.loading.id, &self.loading.mailbox.sender);
        self.loading.mailbox.receiver.close();
        let gone = hub.gone();
        while let Ok(mail) = self.loading.mailbox.receiver.try_recv() {
            self.loading.runtime.registry.forward(
                &self.loading.runtime,
                &self.loading.id,
                mail,
                gone.clone(),
            );
        }
        for (_, InFlight { responder, .. }) in std::mem::take(&mut self.asks) {
            responder.reply(Err(gone.clone()));
        }
        Ending::Over
    }

    /// Ends, because the owner is lost. Asks that can be repeated wait for the next owner; the others fail, because nobody
    /// knows whether they were served.
    fn lost(mut self) -> Ending {
        if let Some(cluster) = &self.loading.runtime.cluster {
            cluster.counters.lost_link();
        }
        tracing::info!(
            clients = self.attached.len(),
            "lost the server that holds the session; looking for the next"
        );
        for (_, InFlight { responder, ask, .. }) in std::mem::take(&mut self.asks) {
            match ask {
                Some(ask) => {
                    let responder = repeating(&ask, responder, &self.loading.id);
                    drop(self.loading.mailbox.sender.send(ActorMessage::Ask(*ask, responder)));
                }
                None => responder.reply(Err(lost_ask())),
            }
        }
        for (_, join) in std::mem::take(&mut self.joins) {
            match join.reply {
                Some(reply) => {
                    drop(self.loading.mailbox.sender.send(ActorMessage::Join(
                        join.joining,
                        join.port,
                        reply,
                    )));
                }
                None => self.attached.insert(*join.joining, join.port, Seq::ZERO),
            }
        }
        // A session that is to be deleted is stopped: its server is lost.
        self.vanishing.drain().for_each(|(_, done)| _ = done.send(()));
        self.loading.hub.reside(Residence::Unknown);
        Ending::Lost(Box::new(Survivors { loading: self.loading, attached: self.attached }))
    }
}

fn batch(events: Vec<RemoteEvent>) -> Arc<Batch> {
    Batch::new(events.into_iter().map(RemoteEvent::into_published))
}

/// Returns the responder of an ask that is repeated. An answer that finds its request closed may be the one that closed it,
/// so nobody may say that it did not count.
fn repeating(ask: &AskMessage, responder: Responder, session: &SessionId) -> Responder {
    if !matches!(ask, AskMessage::Core(ask) if matches!(**ask, baton_core::Ask::AnswerRequest(_))) {
        return responder;
    }
    Responder::new(session, move |reply| {
        use baton_core::AnswerOutcome::{NoSuchRequest, TooLate};
        let is_closed = matches!(&reply, Ok(ReplyMessage::Core(reply))
            if matches!(**reply, baton_core::Reply::AnswerRequest(TooLate | NoSuchRequest)));
        responder.reply(if is_closed { Err(lost_ask()) } else { reply });
    })
}

/// The failure of an ask whose server was lost before it replied.
fn lost_ask() -> Failure {
    Failure::Store(StoreError::Medium {
        doing: "reach".into(),
        path: "the server that held the session".into(),
        cause: "it was lost before it answered; look at the session before you ask again".into(),
    })
}
