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
}

impl ResponsesModel {
    /// A model at an endpoint, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let body = request::body(request).map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        exchange::run(&self.endpoint, &*self.transport, http_request, request.stream, assembler, sink).await
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
