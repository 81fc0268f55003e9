//! OpenAI's chat completions, the wire format that almost every provider supports, each with deviations.
//!
//! [`ChatModel`] sends one request and reads one answer, streamed or not. It does not retry ([`crate::retry`]
//! does), and does not interpret tool calls.

mod assemble;
pub(crate) mod request;
mod wire;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::{Model, ModelError, ModelResponse, Request, Responding, Sink, exchange};
use assemble::Assembler;
#[cfg(test)]
pub(crate) use wire::WireCallDelta;

/// The path below the base URL.
const PATH: &str = "chat/completions";

/// A provider's variant of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChatVariant {
    /// OpenAI and Azure: the limit is named `max_completion_tokens`.
    OpenAi,
    /// All others: the limit has its old name, `max_tokens`.
    #[default]
    Compatible,
    /// GitHub's API: like `Compatible`, and streams report their usage without being asked.
    Copilot,
}

impl ChatVariant {
    /// Whether streams report their usage only on request.
    fn usage_on_request(self) -> bool {
        match self {
            Self::OpenAi | Self::Compatible => true,
            Self::Copilot => false,
        }
    }
}

/// A model behind a chat completions API.
pub struct ChatModel {
    endpoint: Endpoint,
    dialect: ChatVariant,
    transport: Arc<dyn Transport>,
}

impl ChatModel {
    /// Creates a model at an endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint, dialect: ChatVariant, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, dialect, transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let body = request::body(request, self.dialect)
            .map_err(|error| exchange::unwritable(&self.endpoint, &error))?;
        let http_request = self.endpoint.post(PATH, exchange::accept(request), &request.headers, body.into());
        let assembler = Box::new(Assembler::new(&self.endpoint, request));
        let reply = exchange::send(&self.endpoint, &*self.transport, http_request).await?;
        exchange::read(&self.endpoint, reply, request.stream, assembler, sink).await
    }
}

impl Model for ChatModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/chat/completions"
    }
}
