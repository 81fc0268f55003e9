//! One request and its answer on any wire: statuses, streams, stalls, ends.
//!
//! A wire format defines the request, and how the answer is assembled ([`Assemble`]). Everything in between
//! is the same for all wire formats, and is here: the request is sent, over HTTP ([`send`]) or as a message
//! on a WebSocket ([`open`]), and the reply ([`ProviderReply`]) is read to its end ([`read`]).

mod response;
mod socket;

use std::time::Duration;

use baton_protocol::sse;
use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::http::{self, HttpRequest, HttpResponse, Socket, Transport, TransportError};
use crate::{Carrier, Delta, ModelError, ModelResponse, Request, Sink, failure};

/// Maximum size of an answer, in bytes on the wire. The longest answers of models are about a megabyte.
const LONGEST_ANSWER: usize = 64 << 20;

/// Limits for reading the body of an error.
const LONGEST_ERROR: usize = 64 << 10;
const ERROR_STALL: Duration = Duration::from_secs(10);

/// Assembles an answer from the events of a stream, or from a whole reply.
pub(crate) trait Assemble: Send {
    /// Returns the text so far.
    fn text(&self) -> &str;

    /// Whether the provider has marked the end of the answer.
    fn has_end_mark(&self) -> bool;

    /// Whether the message is complete; the usage may still follow.
    fn is_complete(&self) -> bool;

    /// Takes an event of a stream.
    fn take_event(&mut self, event: &sse::SseEvent, sink: Sink<'_>) -> Result<(), ModelError>;

    /// Takes a reply that is not streamed.
    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError>;

    /// Returns the answer, or an error if it is incomplete.
    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError>;
}

impl ModelResponse {
    /// Appends text and passes it on.
    pub(crate) fn push_text(&mut self, text: String, sink: Sink<'_>) {
        if !text.is_empty() {
            self.text.push_str(&text);
            sink(Delta::Text(text));
        }
    }

    /// Appends reasoning and passes it on.
    pub(crate) fn push_reasoning(&mut self, reasoning: String, sink: Sink<'_>) {
        if !reasoning.is_empty() {
            self.reasoning.get_or_insert_default().push_str(&reasoning);
            sink(Delta::Reasoning(reasoning));
        }
    }
}

/// Returns the value of the `Accept` header.
pub(crate) fn accept(request: &Request) -> &'static str {
    if request.stream { "text/event-stream" } else { "application/json" }
}

/// Parses JSON of a provider.
pub(crate) fn read_json<T: DeserializeOwned>(endpoint: &Endpoint, json: &[u8]) -> Result<T, ModelError> {
    baton_json::from_slice(json).map_err(|error| {
        let start = failure::tidy(&String::from_utf8_lossy(json), 80);
        failure::invalid(endpoint, &format!("sent something other than an answer ({error}): {start}"))
    })
}

/// Returns the error of a request that cannot be serialised.
pub(crate) fn unwritable(endpoint: &Endpoint, error: &serde_json::Error) -> ModelError {
    failure::of_transport(endpoint, &TransportError::Invalid(error.to_string()))
}

/// The reply to a request.
pub(crate) enum ProviderReply {
    /// An HTTP response, streamed or whole.
    Response(HttpResponse),
    /// A WebSocket, whose messages are events.
    Socket(Box<dyn Socket>),
}

/// Sends a request and waits for the head of a successful response.
pub(crate) async fn send(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
) -> Result<ProviderReply, ModelError> {
    let sent = http::send(transport, request, endpoint.patience).await;
    let mut response = sent.map_err(|error| failure::of_transport(endpoint, &error))?;
    if (200..300).contains(&response.status) {
        return Ok(ProviderReply::Response(response));
    }
    let body = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
    Err(failure::of_status(endpoint, response.status, &response.headers, &body))
}

/// Opens a WebSocket and sends a message on it. Returns `None` if WebSockets are not available.
pub(crate) async fn open(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
    message: String,
) -> Result<Option<ProviderReply>, ModelError> {
    let opened = socket::open(transport, request, message, endpoint.patience).await;
    let socket = opened.map_err(|error| failure::of_transport(endpoint, &error))?;
    Ok(socket.map(ProviderReply::Socket))
}

/// Reads an answer to its end. Parts of it go to `sink` if a stream was requested.
pub(crate) async fn read(
    endpoint: &Endpoint,
    mut reply: ProviderReply,
    stream: bool,
    mut assembler: Box<dyn Assemble + '_>,
    sink: Sink<'_>,
) -> Result<ModelResponse, ModelError> {
    let mut discard = |_| {};
    let sink: Sink<'_> = if stream { sink } else { &mut discard };
    let (read, request_id, carrier) = match &mut reply {
        ProviderReply::Response(response) => {
            let read = response::read(endpoint, response, stream, &mut *assembler, sink).await;
            (read, failure::request_id(&response.headers), Carrier::Http)
        }
        ProviderReply::Socket(socket) => {
            (socket::read(endpoint, &mut **socket, &mut *assembler, sink).await, None, Carrier::WebSocket)
        }
    };
    let partial = assembler.text().to_owned();
    match read.and_then(|()| assembler.finish()) {
        Ok(answer) => Ok(ModelResponse { request_id: request_id.map(str::to_owned), carrier, ..answer }),
        Err(error) => {
            Err(ModelError { request_id: request_id.map(Into::into), ..error.with_partial(&partial) })
        }
    }
}
