//! OpenAI's Responses API, without its memory: the whole conversation goes out with every request, because the session
//! is ours to keep.
//!
//! [`ResponsesModel`] sends one request and reads one answer, streamed or not. Like the other wires it does not try
//! again, and does not know what the tools do that it carries.

mod assemble;
mod request;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::exchange::{self, Reply};
use crate::http::Transport;
use crate::{Answer, Asking, Carrier, Model, ModelError, Request, Sink};
use assemble::Assembler;

/// The path below the base address.
const PATH: &str = "responses";

/// What the state of this wire is tagged with.
const WIRE: &str = "responses";

/// A model behind the Responses API.
pub struct ResponsesModel {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    /// What is tried first.
    carrier: Carrier,
}

impl ResponsesModel {
    /// A model at an endpoint, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, carrier: Carrier, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, transport, carrier }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let reply = match self.carrier {
            Carrier::Http => self.send(request).await?,
            // Whoever refuses a socket is asked the other way, which works, or says what is wrong.
            Carrier::WebSocket => match self.open(request).await? {
                Some(reply) => reply,
                None => self.send(request).await?,
            },
        };
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }

    async fn send(&self, request: &Request) -> Result<Reply, ModelError> {
        let body = request::body(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        exchange::send(&self.endpoint, &*self.transport, http_request).await
    }

    async fn open(&self, request: &Request) -> Result<Option<Reply>, ModelError> {
        let message =
            request::message(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let upgrade = self.endpoint.upgrade(PATH, &request.headers);
        exchange::open(&self.endpoint, &*self.transport, upgrade, message).await
    }
}

impl Model for ResponsesModel {
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/responses"
    }
}
