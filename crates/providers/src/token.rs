//! Credentials that a client supplies before each model request. They are not stored.

use std::sync::Arc;

use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::Transport;
use baton_model::{ErrorKind, Model, ModelError, ModelResponse, Request, Responding, Sink};
use baton_protocol::{ClientId, SessionId};
use serde::Deserialize;
use serde_json::json;

use crate::choose::Wire;
use crate::{CallFailed, Clients, ModelCaller};

/// Name of a provider without a name: the session's only one.
const UNNAMED: &str = "default";

/// Source of a provider's tokens: the client that configured it.
pub(super) struct TokenSource {
    clients: Arc<dyn Clients>,
    session: SessionId,
    owner: Option<ClientId>,
    provider: String,
}

#[derive(Deserialize)]
struct TokenReply {
    token: String,
}

impl TokenSource {
    pub(super) fn new(caller: &ModelCaller<'_>, provider: Option<&str>) -> Self {
        Self {
            clients: caller.clients.clone(),
            session: caller.session.clone(),
            owner: caller.settings.owner,
            provider: provider.unwrap_or(UNNAMED).to_owned(),
        }
    }

    /// Asks the client for a token.
    async fn get(&self, host: &str) -> Result<String, ModelError> {
        let provider = &self.provider;
        let failed = |why: &str| {
            let message = format!("no token for provider {provider:?} at {host}: {why}");
            ModelError::new(ErrorKind::Auth, host, message)
        };
        let gone = || failed("the client that configured it has disconnected");
        let owner = self.owner.ok_or_else(gone)?;
        let params = json!({ "sessionId": self.session, "providerName": provider });
        let reply = self.clients.call(owner, "providerToken.getToken", params).await;
        let reply = reply.map_err(|error| match error {
            CallFailed::Gone => gone(),
            CallFailed::Refused(_) => failed(&error.to_string()),
        })?;
        let reply: TokenReply = reply.parse().map_err(|_| failed("malformed reply of the client"))?;
        Ok(reply.token)
    }
}

/// A model that is called with a new token each time.
pub(super) struct TokenModel {
    tokens: TokenSource,
    endpoint: Endpoint,
    wire: Wire,
    transport: Arc<dyn Transport>,
    /// Model without credentials, used for its endpoint path.
    bare: Arc<dyn Model>,
}

impl TokenModel {
    pub(super) fn new(
        tokens: TokenSource,
        endpoint: Endpoint,
        wire: Wire,
        transport: Arc<dyn Transport>,
    ) -> Self {
        let bare = wire.model(endpoint.clone(), transport.clone());
        Self { tokens, endpoint, wire, transport, bare }
    }

    async fn call(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let token = self.tokens.get(&self.endpoint.host()).await?;
        let endpoint = self.endpoint.clone().with_auth(Auth::bearer(&token));
        self.wire.model(endpoint, self.transport.clone()).respond(request, sink).await
    }
}

impl Model for TokenModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.call(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        self.bare.endpoint()
    }
}
