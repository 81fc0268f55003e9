//! Credentials that a client is asked for before every request, and that are kept by nobody.

use std::sync::Arc;

use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::Transport;
use baton_model::{Answer, Asking, ErrorKind, Model, ModelError, Request, Sink};
use baton_protocol::{ClientId, SessionId};
use serde::Deserialize;
use serde_json::json;

use super::{Asker, Wire};
use crate::session::Hub;

/// The name of a session's only provider.
const ONLY: &str = "default";

/// Where tokens of a provider come from.
pub(super) struct Tokens {
    hub: Arc<Hub>,
    session: SessionId,
    owner: Option<ClientId>,
    provider: String,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

impl Tokens {
    pub(super) fn new(asker: &Asker<'_>, provider: Option<&str>) -> Self {
        Self {
            hub: asker.hub.clone(),
            session: asker.session.clone(),
            owner: asker.settings.provider_owner,
            provider: provider.unwrap_or(ONLY).to_owned(),
        }
    }

    async fn get(&self, host: &str) -> Result<String, ModelError> {
        let provider = &self.provider;
        let failed = |why: &str| {
            let message = format!("There is no token for the provider {provider:?} of {host}: {why}.");
            ModelError::new(ErrorKind::Auth, host, message)
        };
        let port = self.owner.and_then(|owner| self.hub.port(owner));
        let Some(port) = port else { return Err(failed("the client that knows it has left")) };
        let params = json!({ "sessionId": self.session, "providerName": provider });
        let answer = port.call("providerToken.getToken", params).await;
        let answer = answer.map_err(|error| failed(&error.to_string()))?;
        let token: Token = answer.parse().map_err(|_| failed("the client answered with something else"))?;
        Ok(token.token)
    }
}

/// A model that is asked with a token of its own every time.
pub(super) struct FreshToken {
    tokens: Tokens,
    endpoint: Endpoint,
    wire: Wire,
    transport: Arc<dyn Transport>,
    /// Only its name on the wire is of use: it has no credentials.
    bare: Arc<dyn Model>,
}

impl FreshToken {
    pub(super) fn new(tokens: Tokens, endpoint: Endpoint, wire: Wire, transport: Arc<dyn Transport>) -> Self {
        let bare = wire.model(endpoint.clone(), transport.clone());
        Self { tokens, endpoint, wire, transport, bare }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let token = self.tokens.get(&self.endpoint.host()).await?;
        let endpoint = self.endpoint.clone().with_auth(Auth::bearer(&token));
        self.wire.model(endpoint, self.transport.clone()).ask(request, sink).await
    }
}

impl Model for FreshToken {
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        self.bare.endpoint()
    }
}
