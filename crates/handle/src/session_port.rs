//! A session, as its add-ons see it.

use baton_addons::{Awaited, SessionPort};
use baton_core::ask::{CloseLogin, Elicit, Elicited, RequestLogin, Sample, WithdrawAsk};
use baton_protocol::{Body, ClientId, Json, RequestId};
use baton_providers::{Calling, Clients};
use tokio_util::sync::CancellationToken;

use super::ask::Ask;
use super::handle::Handle;
use super::publisher::Publisher;

impl Handle {
    /// Sends an ask at once. A failure is a message for people.
    fn put<A: Ask>(&self, ask: A) -> Awaited<Result<A::Reply, String>> {
        let reply = self.ask(ask);
        Box::pin(async move { reply.await.map_err(|failure| failure.to_string()) })
    }
}

impl Clients for Handle {
    fn call(&self, client: ClientId, method: &'static str, params: serde_json::Value) -> Calling {
        self.hub.call(client, method, params)
    }
}

impl SessionPort for Handle {
    fn show(&self, event: Body) {
        Publisher::of(self.hub.clone()).show(event, &CancellationToken::new());
    }

    fn elicit(&self, ask: Elicit) -> Awaited<Result<Elicited, String>> {
        self.put(ask)
    }

    fn sample(&self, ask: Sample) -> Awaited<Result<Option<Json>, String>> {
        self.put(ask)
    }

    fn withdraw(&self, key: String) {
        // A session that was unloaded has no requests.
        drop(self.tell(WithdrawAsk { key }));
    }

    fn request_login(&self, ask: RequestLogin) -> Awaited<Result<RequestId, String>> {
        self.put(ask)
    }

    fn close_login(&self, ask: CloseLogin) -> Awaited<bool> {
        let reply = self.ask(ask);
        Box::pin(async move { reply.await.unwrap_or(false) })
    }
}
