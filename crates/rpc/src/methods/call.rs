//! A call, as handlers see it, and how they answer it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use baton_ask::View;
use baton_core::Change;
use baton_core::ask::Amend;
use baton_protocol::params::{self, OnlySession};
use baton_protocol::rpc::{CallId, RpcError, code};
use baton_protocol::{Author, Json, SessionId};
use baton_runtime::session::{Failure, panics};
use baton_service::{Action, AskError, Caller, ClientAsk, LiveSession, Service};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::connection::{Connection, Wait};
use crate::errors::CallError;

/// Result of a call, as it is sent.
pub(crate) type CallResult = Result<Json, RpcError>;

/// Future of a call's result.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;

/// When and by whom a call is answered.
pub(crate) enum CallReply {
    /// Now.
    Now(CallResult),
    /// When the future is ready.
    Later(CallFuture),
    /// When the future is ready, which may take hours. It is not one of the calls that a client may run at a time.
    Wait(CallFuture),
    /// By the actor of the session that was asked.
    BySession,
    /// When the future is ready. The server stops after that.
    ThenStop(CallFuture),
}

/// What the handler of a method returns.
pub(super) type Handled = Result<CallReply, CallError>;

/// A call, as handlers see it.
pub(super) struct Call<'a> {
    pub(super) connection: &'a Arc<Connection>,
    pub(super) id: &'a CallId,
    pub(super) method: &'a str,
    pub(super) params: Json,
}

/// Awaits the result of a call. A panic fails this call and no other.
pub(crate) async fn run(method: &str, result: CallFuture) -> CallResult {
    let result = AssertUnwindSafe(result).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panicked(method, &*panic)))
}

/// Logs a panic of a handler, and returns the error for the caller.
pub(super) fn panicked(method: &str, panic: &(dyn Any + Send)) -> RpcError {
    tracing::error!(method, panic = panics::text(panic), "call panicked");
    RpcError::failed("internal error; see the server log")
}

impl Call<'_> {
    pub(super) fn service(&self) -> &Service {
        &self.connection.service
    }

    /// Returns who calls.
    pub(super) fn caller(&self) -> Caller {
        self.connection.caller()
    }

    /// Returns the author of what this client changes.
    pub(super) fn author(&self) -> Author {
        self.caller().author()
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        Ok(params::parse(self.method, &self.params)?)
    }

    /// Returns the session that the parameter `sessionId` names. The client has to be attached to it.
    pub(super) fn session(&self) -> Result<LiveSession, CallError> {
        let id = self.parse::<OnlySession>()?.session_id;
        self.attached(&id)
    }

    /// Returns the session that the parameter `sessionId` names, and the other parameters.
    pub(super) fn parse_for_session<T: DeserializeOwned>(&self) -> Result<(LiveSession, T), CallError> {
        let params = self.parse()?;
        Ok((self.session()?, params))
    }

    pub(super) fn attached(&self, id: &SessionId) -> Result<LiveSession, CallError> {
        Ok(self.connection.attached(id).ok_or_else(|| Failure::NotFound(id.clone()))?)
    }

    pub(super) fn now(&self, value: Value) -> Handled {
        Ok(CallReply::Now(Ok(Json::from(value))))
    }

    pub(super) fn later<T: Into<Json>>(
        &self,
        result: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Handled {
        let method = self.method.to_owned();
        let result = async move { result.await.map(T::into).map_err(|error| error.into_rpc(&method)) };
        Ok(CallReply::Later(Box::pin(result)))
    }

    /// Answers when the future is ready, unless the client cancels the call or disconnects before.
    pub(super) fn wait(
        &self,
        wait: Wait,
        result: impl Future<Output = CallResult> + Send + 'static,
    ) -> Handled {
        let connection = self.connection.clone();
        Ok(CallReply::Wait(Box::pin(async move {
            tokio::select! {
                result = result => result,
                () = wait.cancelled() => Err(RpcError::new(code::REQUEST_CANCELLED, "cancelled by the client")),
                () = connection.ended() => Err(RpcError::failed("the connection is closed")),
            }
        })))
    }

    /// Sends an ask to a session. Its actor answers the call, in order with the session's events; `encode` converts the reply
    /// to the result of the call.
    pub(super) fn ask<A: ClientAsk>(
        &self,
        session: &LiveSession,
        ask: A,
        encode: impl FnOnce(A::Reply) -> Value + Send + 'static,
    ) -> Handled {
        self.try_ask(session, ask, |reply| Ok(encode(reply?)))
    }

    /// Like [`Call::ask`], for calls that treat some failures differently, or fail on some replies.
    pub(super) fn try_ask<A: ClientAsk>(
        &self,
        session: &LiveSession,
        ask: A,
        encode: impl FnOnce(Result<A::Reply, Failure>) -> Result<Value, CallError> + Send + 'static,
    ) -> Handled {
        let (connection, id, method) = (self.connection.clone(), self.id.clone(), self.method.to_owned());
        session.ask_then(ask, move |reply| {
            // This runs in the actor: a panic here would end the session for all of its clients.
            let result = match catch_unwind(AssertUnwindSafe(|| encode(reply))) {
                Ok(encoded) => encoded.map(Json::from).map_err(|error| error.into_rpc(&method)),
                Err(panic) => Err(panicked(&method, &*panic)),
            };
            connection.respond(&id, &result);
        })?;
        Ok(CallReply::BySession)
    }

    /// Like [`Call::ask`], for asks that take time: the reply is awaited in a task of its own, which counts towards the calls
    /// that one client may run at a time.
    pub(super) fn ask_later<A: ClientAsk>(
        &self,
        session: &LiveSession,
        ask: A,
        encode: impl FnOnce(A::Reply) -> Value + Send + 'static,
    ) -> Handled {
        let reply = session.ask(ask);
        self.later(async move { Ok(encode(reply.await?)) })
    }

    /// Changes a setting of a session or records an event, and answers with `value` once that is durable.
    pub(super) fn amend(&self, session: &LiveSession, change: Change, value: Value) -> Handled {
        self.ask(session, Amend::by(self.author(), change), move |_| value)
    }

    /// Answers from the state of the session that the parameter `sessionId` names.
    pub(super) fn inspect(&self, encode: impl FnOnce(&View) -> Value + Send + 'static) -> Handled {
        let session = self.session()?;
        self.later(async move { Ok(encode(&session.inspect().await?)) })
    }
}

/// Performs an operation on the server; `encode` converts its reply to the result of the call.
pub(super) fn perform<A>(
    call: &Call<'_>,
    action: A,
    encode: impl FnOnce(A::Reply) -> Value + Send + 'static,
) -> Handled
where
    A: Action + 'static,
    A::Error: std::fmt::Display,
{
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move { Ok(encode(service.perform(&caller, action).await?)) })
}

/// Changes a setting of a session or records an event. Returns once that is durable.
pub(super) async fn amend(session: &LiveSession, by: Author, change: Change) -> Result<(), AskError> {
    session.ask(Amend::by(by, change)).await.map(drop)
}

/// Returns the result of methods that return nothing.
pub(super) fn void() -> Value {
    Value::Null
}

/// Returns the result of methods that return whether they succeeded.
pub(super) fn success() -> Value {
    json!({ "success": true })
}
