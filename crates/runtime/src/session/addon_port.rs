//! Implements the add-ons' view of a session.

use std::sync::Arc;

use baton_addons::{Awaited, SessionPort};
use baton_ask::Ask;
use baton_core::ask::{CloseLogin, Elicit, Elicited, RequestLogin, Sample, WithdrawAsk};
use baton_handle::{Handle, Publisher};
use baton_protocol::{Body, ClientId, Json, RequestId};
use baton_providers::{Calling, Clients};
use baton_sandbox::Place;
use tokio_util::sync::CancellationToken;

use crate::work::sandbox::SessionSandbox;

/// A live session. The actor makes it, because publishing needs the publisher.
pub(crate) struct AddonPort {
    pub(crate) handle: Handle,
    pub(crate) publisher: Publisher,
    pub(crate) sandbox: Arc<SessionSandbox>,
}

impl AddonPort {
    /// Sends an ask at once. A failure is a message for people.
    fn put<A: Ask>(&self, ask: A) -> Awaited<Result<A::Reply, String>> {
        let reply = self.handle.ask(ask);
        Box::pin(async move { reply.await.map_err(|failure| failure.to_string()) })
    }
}

impl Clients for AddonPort {
    fn call(&self, client: ClientId, method: &'static str, params: serde_json::Value) -> Calling {
        self.handle.call(client, method, params)
    }
}

impl SessionPort for AddonPort {
    fn show(&self, event: Body) {
        self.publisher.show(event, &CancellationToken::new());
    }

    fn place(&self) -> Awaited<Result<Place, String>> {
        let sandbox = self.sandbox.clone();
        Box::pin(async move { sandbox.place(&[]).await })
    }

    fn elicit(&self, ask: Elicit) -> Awaited<Result<Elicited, String>> {
        self.put(ask)
    }

    fn sample(&self, ask: Sample) -> Awaited<Result<Option<Json>, String>> {
        self.put(ask)
    }

    fn withdraw(&self, key: String) {
        // A session that was unloaded has no requests.
        drop(self.handle.tell(WithdrawAsk { key }));
    }

    fn request_login(&self, ask: RequestLogin) -> Awaited<Result<RequestId, String>> {
        self.put(ask)
    }

    fn close_login(&self, ask: CloseLogin) -> Awaited<bool> {
        let reply = self.handle.ask(ask);
        Box::pin(async move { reply.await.unwrap_or(false) })
    }
}
