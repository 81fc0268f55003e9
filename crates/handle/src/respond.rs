//! Receivers of the replies to asks.

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;

use baton_ask::{FamilyAsk, ReplyMessage};
use baton_protocol::SessionId;

use super::failure::Failure;

/// Callback that takes the reply.
type RespondOnce = Box<dyn FnOnce(Result<ReplyMessage, Failure>) + Send>;

/// Receiver of the reply to an ask. One that is dropped without a reply, because its task panicked or the server stops,
/// replies with a failure: no caller waits forever.
pub struct Responder {
    session: SessionId,
    respond: Option<RespondOnce>,
}

impl Responder {
    /// Creates a responder. `respond` is called by the actor, so it must not block.
    pub fn new(
        session: &SessionId,
        respond: impl FnOnce(Result<ReplyMessage, Failure>) + Send + 'static,
    ) -> Self {
        Self { session: session.clone(), respond: Some(Box::new(respond)) }
    }

    /// Sends the reply.
    pub fn reply(mut self, reply: Result<ReplyMessage, Failure>) {
        if let Some(respond) = self.respond.take() {
            respond(reply);
        }
    }

    /// Drops the responder without a reply.
    pub fn discard(mut self) {
        self.respond = None;
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(respond) = self.respond.take() else { return };
        if !std::thread::panicking() {
            return respond(Err(Failure::NotFound(self.session.clone())));
        }
        let failure = Failure::Internal(self.session.clone());
        // A panic that leaves a destructor while another one unwinds would end the process.
        drop(std::panic::catch_unwind(AssertUnwindSafe(|| respond(Err(failure)))));
    }
}

/// [`Responder`] for asks of type `A`.
pub struct Respond<A> {
    to: Responder,
    ask: PhantomData<fn(A)>,
}

impl<A: FamilyAsk> Respond<A> {
    /// Creates one from a receiver of any reply.
    pub fn new(to: Responder) -> Self {
        Self { to, ask: PhantomData }
    }

    /// Sends the reply.
    pub fn with(self, reply: Result<A::Reply, Failure>) {
        self.to.reply(reply.map(A::wrap));
    }
}
