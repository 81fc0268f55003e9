//! OpenAI's chat completions, the wire that almost every provider speaks, each with an accent.
//!
//! [`ChatModel`] sends one request and reads one answer, streamed or not. It does not try again
//! ([`crate::retry`] does), and it does not know what the tools do that it carries.

mod assemble;
pub(crate) mod request;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::{Answer, Asking, Model, ModelError, Request, Sink, exchange};
use assemble::Assembler;
#[cfg(test)]
pub(crate) use wire::CallPiece;

/// The path below the base address.
const PATH: &str = "chat/completions";

/// How a provider's idea of the API differs from the others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// OpenAI itself, and Azure: limits are called `max_completion_tokens`.
    OpenAi,
    /// Everybody else: limits have their old name, `max_tokens`.
    #[default]
    Compatible,
    /// GitHub's API: as above, and streams say what they cost without being asked.
    Copilot,
}

impl Dialect {
    /// Whether streams say what they cost only if asked to.
    fn usage_on_request(self) -> bool {
        match self {
            Self::OpenAi | Self::Compatible => true,
            Self::Copilot => false,
        }
    }
}

/// A model behind an API of chat completions.
pub struct ChatModel {
    endpoint: Endpoint,
    dialect: Dialect,
    transport: Arc<dyn Transport>,
}

impl ChatModel {
    /// A model at an endpoint, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, dialect: Dialect, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, dialect, transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let body = request::body(request, self.dialect)
            .map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        let reply = exchange::send(&self.endpoint, &*self.transport, http_request).await?;
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }
}

impl Model for ChatModel {
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/chat/completions"
    }
}
