//! A live session, as one caller sees it.

use std::future::Future;
use std::sync::Arc;

use baton_ask::{Inspect, View};
use baton_protocol::{ClientId, SessionId};
use baton_runtime::session::{Failure, Handle, Hub, JoinReply, JoinRequest, Port};
use baton_runtime::work::own_command;
use baton_runtime::work::own_command::{NotRun, Ran};
use baton_store::StoreError;

use crate::{Caller, ClientAsk, Operation, OperationError, Service};

/// Error of an ask of a session.
pub type AskError = OperationError<Failure>;

/// A live session, with the caller who asks it. Every ask is checked against the caller's role.
#[derive(Clone)]
pub struct LiveSession {
    caller: Caller,
    handle: Handle,
}

impl LiveSession {
    pub(crate) fn new(caller: Caller, handle: Handle) -> Self {
        Self { caller, handle }
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.handle.id
    }

    /// Returns the fan-out of its events.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.handle.hub
    }

    /// Whether both are the same live instance.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.handle.is_same(&other.handle)
    }

    /// Sends an ask at once; the returned future waits for the reply. Asks of one sender arrive in order.
    pub fn ask<A: ClientAsk>(
        &self,
        ask: A,
    ) -> impl Future<Output = Result<A::Reply, AskError>> + Send + use<A> {
        let permitted = self.caller.permit(ask.operation());
        let reply = permitted.map(|()| self.handle.ask(ask));
        async move { reply?.await.map_err(OperationError::Failed) }
    }

    /// Sends an ask whose reply is handled by the actor, in order with its events. `respond` must not block.
    ///
    /// # Errors
    /// If the caller may not, or the session has been unloaded; `respond` is not called then.
    pub fn ask_then<A: ClientAsk>(
        &self,
        ask: A,
        respond: impl FnOnce(Result<A::Reply, Failure>) + Send + 'static,
    ) -> Result<(), AskError> {
        self.caller.permit(ask.operation())?;
        self.handle.ask_then(ask, respond).map_err(OperationError::Failed)
    }

    /// Sends an ask and ignores its reply.
    ///
    /// # Errors
    /// If the caller may not, or the session has been unloaded.
    pub fn tell<A: ClientAsk>(&self, ask: A) -> Result<(), AskError> {
        self.ask_then(ask, drop)
    }

    /// Copies the state of the session after everything that was sent before.
    pub fn inspect(&self) -> impl Future<Output = Result<View, AskError>> + Send + use<> {
        self.ask(Inspect {})
    }

    /// Attaches a client; events are delivered to its port from then on.
    ///
    /// # Errors
    /// If the caller may not, or the session cannot be opened or written.
    pub async fn join(&self, joining: JoinRequest, port: Arc<dyn Port>) -> Result<JoinReply, AskError> {
        self.caller.permit(Operation::ResumeSession)?;
        self.handle.join(joining, port).await.map_err(OperationError::Failed)
    }

    /// Runs a slash command of the server for the caller.
    ///
    /// # Errors
    /// When the caller may not, the command is unknown, its arguments are invalid, or the session refuses it.
    pub async fn run_command(&self, name: &str, input: &str) -> Result<Ran, OperationError<NotRun>> {
        self.caller.permit(Operation::RunCommand)?;
        own_command::run(&self.handle, name, input, Some(self.caller.author()))
            .await
            .map_err(OperationError::Failed)
    }

    /// Detaches a client whose connection ended.
    pub fn leave(&self, client: ClientId) {
        self.handle.leave(client);
    }
}

impl Service {
    /// Returns a session, and loads it if it is not live.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn open(&self, caller: &Caller, id: &SessionId) -> Result<LiveSession, AskError> {
        caller.permit(Operation::ShowSession)?;
        // Looked up first: the registry would start an actor for a session that does not exist.
        if self.runtime().registry.get(id).is_none() {
            let found = self.runtime().store.summary(id).await;
            let found = found.map_err(|error| OperationError::Failed(error.into()))?;
            found.ok_or_else(|| OperationError::Failed(Failure::NotFound(id.clone())))?;
        }
        Ok(self.open_existing(caller, id))
    }

    /// Returns a session that is known to exist, and loads it if it is not live. Asks can be sent at once: they are served
    /// once the session is open, and fail with the reason if it cannot be opened.
    #[must_use]
    pub fn open_existing(&self, caller: &Caller, id: &SessionId) -> LiveSession {
        LiveSession::new(caller.clone(), self.runtime().registry.open(self.runtime(), id))
    }

    /// Returns a session, if it is live on this server.
    #[must_use]
    pub fn live(&self, caller: &Caller, id: &SessionId) -> Option<LiveSession> {
        self.runtime().registry.get(id).map(|handle| LiveSession::new(caller.clone(), handle))
    }

    /// Returns a session that is live here or at another server; `None` if nobody has loaded it.
    pub async fn live_anywhere(&self, caller: &Caller, id: &SessionId) -> Option<LiveSession> {
        match self.live(caller, id) {
            Some(session) => Some(session),
            None => {
                let handle = self.runtime().relay(id).await?;
                Some(LiveSession::new(caller.clone(), handle))
            }
        }
    }

    /// Returns all sessions that are live on this server.
    #[must_use]
    pub fn all_live(&self, caller: &Caller) -> Vec<LiveSession> {
        let handles = self.runtime().registry.all();
        handles.into_iter().map(|handle| LiveSession::new(caller.clone(), handle)).collect()
    }

    /// Asks a session, and loads it if it is not live.
    ///
    /// If another server has used the session since its last prompt here, and released it again, the first ask finds that
    /// out and changes nothing: it is sent again to the reopened session. If the other server still holds it, opening it
    /// fails.
    ///
    /// # Errors
    /// When the caller may not, or the session does not exist or refuses.
    pub async fn ask<A: ClientAsk + Clone>(
        &self,
        caller: &Caller,
        id: &SessionId,
        ask: A,
    ) -> Result<A::Reply, AskError> {
        match self.open(caller, id).await?.ask(ask.clone()).await {
            Err(OperationError::Failed(Failure::Store(StoreError::Fenced(_)))) => {
                self.open(caller, id).await?.ask(ask).await
            }
            reply => reply,
        }
    }
}
