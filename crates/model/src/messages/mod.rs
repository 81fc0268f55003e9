//! Anthropic's Messages API.
//!
//! [`MessagesModel`] sends one request and reads one answer, streamed or not. Like the other wire formats it
//! does not retry, and does not interpret tool calls.

mod assemble;
mod request;
mod thinking;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::{Model, ModelError, ModelResponse, Request, Responding, Sink, exchange};
use assemble::Assembler;

/// The path below the base URL.
const PATH: &str = "messages";

/// The tag of this wire format's state.
const WIRE: &str = "messages";

/// The version of the API.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// A model behind the Messages API.
pub struct MessagesModel {
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
}

impl MessagesModel {
    /// Creates a model at an endpoint whose base URL ends before `/messages`.
    #[must_use]
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint: versioned(endpoint), transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let body = request::body(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        let reply = exchange::send(&self.endpoint, &*self.transport, http_request).await?;
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }
}

/// Adds the version of the API, which every request must name, including that for the list of models.
#[must_use]
pub fn versioned(endpoint: Endpoint) -> Endpoint {
    endpoint.with_default_header(VERSION)
}

impl Model for MessagesModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/v1/messages"
    }
}
