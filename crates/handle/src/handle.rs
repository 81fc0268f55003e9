//! Addresses of live sessions.

use std::sync::Arc;

use baton_ask::{Ask, Inspect, View};
use baton_protocol::{ClientId, SessionId};
use baton_providers::{Calling, Clients};
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use super::hub::{Hub, Port};
use super::message::{ActorMessage, JoinReply, JoinRequest};
use super::publisher::Publisher;
use super::respond::Responder;

/// Address of a live session. Cheap to clone; a handle does not keep the session in memory.
#[derive(Clone)]
pub struct Handle {
    /// The session.
    pub id: SessionId,
    /// Its fan-out.
    pub hub: Arc<Hub>,
    mailbox: mpsc::UnboundedSender<ActorMessage>,
}

impl Handle {
    /// Creates the handle of a session with its mailbox, for its actor or edge.
    #[must_use]
    pub fn new(id: SessionId, publisher: &Publisher, mailbox: mpsc::UnboundedSender<ActorMessage>) -> Self {
        Self { id, hub: publisher.hub(), mailbox }
    }

    /// Whether both handles address the same actor.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.mailbox.same_channel(&other.mailbox)
    }

    /// Sends an ask at once; the returned future waits for the reply. Asks of one sender arrive in order.
    pub fn ask<A: Ask>(&self, ask: A) -> impl Future<Output = Result<A::Reply, Failure>> + Send + use<A> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.ask_then(ask, move |reply| drop(sender.send(reply)));
        let hub = self.hub.clone();
        async move {
            sent?;
            receiver.await.unwrap_or_else(|_| Err(hub.gone()))
        }
    }

    /// Sends an ask whose reply is handled by the actor, in order with its events. `respond` must not block.
    ///
    /// # Errors
    /// If the session has been unloaded; `respond` is not called then.
    pub fn ask_then<A: Ask>(
        &self,
        ask: A,
        respond: impl FnOnce(Result<A::Reply, Failure>) + Send + 'static,
    ) -> Result<(), Failure> {
        let id = self.id.clone();
        let responder = Responder::new(&self.id, move |reply| {
            // A reply of another kind than the ask is a bug of the server.
            let read = |reply| A::read(reply).ok_or(Failure::Internal(id));
            respond(reply.and_then(read));
        });
        self.mailbox.send(ActorMessage::Ask(ask.into_message(), responder)).map_err(|unsent| {
            if let ActorMessage::Ask(_, responder) = unsent.0 {
                responder.discard();
            }
            self.hub.gone()
        })
    }

    /// Sends an ask and ignores its reply.
    ///
    /// # Errors
    /// If the session has been unloaded.
    pub fn tell<A: Ask>(&self, ask: A) -> Result<(), Failure> {
        self.ask_then(ask, drop)
    }

    /// Copies the state of the session after everything that was sent before.
    pub fn inspect(&self) -> impl Future<Output = Result<View, Failure>> + Send + use<> {
        self.ask(Inspect {})
    }

    /// Attaches a client; events are delivered to its port from then on.
    ///
    /// # Errors
    /// If the session cannot be opened or written.
    pub async fn join(&self, joining: JoinRequest, port: Arc<dyn Port>) -> Result<JoinReply, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.send(ActorMessage::Join(Box::new(joining), port, sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.hub.gone()))
    }

    /// Detaches a client whose connection ended. Does nothing if the session has been unloaded: it has no clients then.
    pub fn leave(&self, client: ClientId) {
        // At once, so that a client that has left is not counted while the actor is busy.
        self.hub.detach(client);
        drop(self.send(ActorMessage::Leave(client)));
    }

    /// Sends a message to the actor or edge of the session.
    ///
    /// # Errors
    /// If the session has been unloaded.
    pub fn send(&self, message: ActorMessage) -> Result<(), Failure> {
        self.mailbox.send(message).map_err(|_| self.hub.gone())
    }

    /// Returns the mailbox, for the registry and the actor or edge.
    #[must_use]
    pub fn mailbox(&self) -> &mpsc::UnboundedSender<ActorMessage> {
        &self.mailbox
    }
}

impl Clients for Handle {
    fn call(&self, client: ClientId, method: &'static str, params: serde_json::Value) -> Calling {
        self.hub.call(client, method, params)
    }
}

/// Stops the actor of a session without further writes, because the session is about to be deleted.
pub async fn vanish(session: &Handle) {
    let (sender, receiver) = oneshot::channel();
    if session.send(ActorMessage::Vanish(sender)).is_ok() {
        drop(receiver.await);
    }
}
