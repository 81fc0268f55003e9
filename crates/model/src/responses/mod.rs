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
use crate::http::Transport;
use crate::{Answer, Asking, Model, ModelError, Request, Sink, exchange};
use assemble::Assembler;

/// The path below the base address.
const PATH: &str = "responses";

/// What the state of this wire is tagged with.
const WIRE: &str = "responses";

/// A model behind the Responses API.
pub struct ResponsesModel {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
    carrier: Carrier,
}

/// What requests and answers travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// A request each, answered with a stream of events.
    #[default]
    Http,
    /// A WebSocket, on which events are messages. Saves the provider from starting anew with every request.
    WebSocket,
}

impl ResponsesModel {
    /// A model at an endpoint, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, carrier: Carrier, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, transport, carrier }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let unwritable = |error| exchange::unwritable(&self.endpoint, &error);
        let body = match self.carrier {
            Carrier::Http => request::body(request),
            Carrier::WebSocket => request::message(request),
        };
        let body = body.map_err(unwritable)?.into();
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body);
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        let (endpoint, transport, stream) = (&self.endpoint, &*self.transport, request.stream);
        match self.carrier {
            Carrier::Http => exchange::run(endpoint, transport, http_request, stream, assembler, sink).await,
            Carrier::WebSocket => {
                exchange::run_on_socket(endpoint, transport, http_request, stream, assembler, sink).await
            }
        }
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
