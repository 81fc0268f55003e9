//! OpenAI's Responses API without its server-side state: every request contains the whole conversation,
//! because the session is stored here.
//!
//! [`ResponsesModel`] sends one request and reads one answer, streamed or not. Like the other wire formats it
//! does not retry, and does not interpret tool calls.

mod assemble;
mod request;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::exchange::{self, ProviderReply};
use crate::http::Transport;
use crate::{Carrier, Model, ModelError, ModelResponse, Request, Responding, Sink};
use assemble::Assembler;

/// The path below the base URL.
const PATH: &str = "responses";

/// The tag of this wire format's state.
const WIRE: &str = "responses";

/// A model behind the Responses API.
pub struct ResponsesModel {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    /// The transport to try first.
    carrier: Carrier,
}

impl ResponsesModel {
    /// Creates a model at an endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint, carrier: Carrier, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, transport, carrier }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let reply = match self.carrier {
            Carrier::Http => self.send(request).await?,
            // If the WebSocket is refused, HTTP either works or returns the actual error.
            Carrier::WebSocket => match self.open(request).await? {
                Some(reply) => reply,
                None => self.send(request).await?,
            },
        };
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }

    async fn send(&self, request: &Request) -> Result<ProviderReply, ModelError> {
        let body = request::body(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        exchange::send(&self.endpoint, &*self.transport, http_request).await
    }

    async fn open(&self, request: &Request) -> Result<Option<ProviderReply>, ModelError> {
        let message =
            request::message(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let upgrade = self.endpoint.upgrade(PATH, &request.headers);
        exchange::open(&self.endpoint, &*self.transport, upgrade, message).await
    }
}

impl Model for ResponsesModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/responses"
    }
}
