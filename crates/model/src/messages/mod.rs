//! Anthropic's Messages API.
//!
//! [`MessagesModel`] sends one request and reads one answer, streamed or not. Like the other wires it does not try
//! again, and does not know what the tools do that it carries.

mod assemble;
mod request;
mod thinking;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::{Answer, Asking, Model, ModelError, Request, Sink, exchange};
use assemble::Assembler;

/// The path below the base address.
const PATH: &str = "messages";

/// What the state of this wire is tagged with.
const WIRE: &str = "messages";

/// The version of the API that is spoken here.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// A model behind the Messages API.
pub struct MessagesModel {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
}

impl MessagesModel {
    /// A model at an endpoint whose base address ends before `/messages`, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint: versioned(endpoint), transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let body = request::body(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        let reply = exchange::send(&self.endpoint, &*self.transport, http_request).await?;
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }
}

/// The endpoint with the version of this API, which every request must name, that for the list of models too.
#[must_use]
pub fn versioned(endpoint: Endpoint) -> Endpoint {
    endpoint.with_default_header(VERSION)
}

impl Model for MessagesModel {
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/v1/messages"
    }
}
