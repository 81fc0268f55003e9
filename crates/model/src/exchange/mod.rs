//! One question and its answer, whatever the wire: statuses, streams, stalls, ends.
//!
//! A wire says what goes out, and how what comes back is put together ([`Assemble`]). Everything between the two is the
//! same for all of them, and is here: a question is sent, as an HTTP request ([`send`]) or as a message on a WebSocket
//! ([`open`]), and what comes back ([`Reply`]) is read to its end ([`read`]).

mod response;
mod socket;

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::http::{self, HttpRequest, HttpResponse, Socket, Transport, TransportError};
use crate::{Answer, Carrier, ModelError, Request, Sink, failure, sse};

/// The longest answer that is read, in bytes on the wire. The longest that models write are about a megabyte.
const LONGEST_ANSWER: usize = 64 << 20;

/// How much of an error is read, and for how long.
const LONGEST_ERROR: usize = 64 << 10;
const ERROR_STALL: Duration = Duration::from_secs(10);

/// Puts an answer together from what arrives: events of a stream, or one whole reply.
pub(crate) trait Assemble: Send {
    /// The text so far.
    fn text(&self) -> &str;

    /// Whether the provider has said that this is all.
    fn has_end_mark(&self) -> bool;

    /// Whether all of the message is there, though the cost may still follow.
    fn is_complete(&self) -> bool;

    /// Takes an event of a stream.
    fn take_event(&mut self, event: &sse::Event, sink: Sink<'_>) -> Result<(), ModelError>;

    /// Takes a reply that is not streamed.
    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError>;

    /// The answer, if it is one.
    fn finish(self: Box<Self>) -> Result<Answer, ModelError>;
}

/// What the caller accepts, for the header of that name.
pub(crate) fn accept(request: &Request) -> &'static str {
    if request.stream { "text/event-stream" } else { "application/json" }
}

/// Reads JSON of a provider, or says that it is none.
pub(crate) fn read_json<T: DeserializeOwned>(endpoint: &Endpoint, json: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(json).map_err(|error| {
        let begin = failure::tidy(&String::from_utf8_lossy(json), 80);
        failure::nonsense(endpoint, &format!("sent something else than an answer ({error}): {begin}"))
    })
}

/// A request that cannot be written down.
pub(crate) fn unwritable(endpoint: &Endpoint, error: &serde_json::Error) -> ModelError {
    failure::of_transport(endpoint, &TransportError::Invalid(error.to_string()))
}

/// What comes back for a question.
pub(crate) enum Reply {
    /// Over HTTP, as a stream of events or whole.
    Response(HttpResponse),
    /// Events as messages.
    Socket(Box<dyn Socket>),
}

/// Sends a request, and waits for the head of a response that promises an answer.
pub(crate) async fn send(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
) -> Result<Reply, ModelError> {
    let sent = http::send(transport, request, endpoint.patience).await;
    let mut response = sent.map_err(|error| failure::of_transport(endpoint, &error))?;
    if (200..300).contains(&response.status) {
        return Ok(Reply::Response(response));
    }
    let body = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
    Err(failure::of_status(endpoint, response.status, &response.headers, &body))
}

/// Opens a WebSocket and sends a message on it; `None` if there is no WebSocket to be had.
pub(crate) async fn open(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
    message: String,
) -> Result<Option<Reply>, ModelError> {
    let opened = socket::open(transport, request, message, endpoint.patience).await;
    let socket = opened.map_err(|error| failure::of_transport(endpoint, &error))?;
    Ok(socket.map(Reply::Socket))
}

/// Reads an answer to its end. Pieces of it go to `sink` if a stream was asked for.
pub(crate) async fn read(
    endpoint: &Endpoint,
    mut reply: Reply,
    stream: bool,
    mut assembler: Box<dyn Assemble + '_>,
    sink: Sink<'_>,
) -> Result<Answer, ModelError> {
    let mut nobody = |_| {};
    let sink: Sink<'_> = if stream { sink } else { &mut nobody };
    let (read, request_id, carrier) = match &mut reply {
        Reply::Response(response) => {
            let read = response::read(endpoint, response, stream, &mut *assembler, sink).await;
            (read, failure::request_id(&response.headers), Carrier::Http)
        }
        Reply::Socket(socket) => {
            (socket::read(endpoint, &mut **socket, &mut *assembler, sink).await, None, Carrier::WebSocket)
        }
    };
    let partial = assembler.text().to_owned();
    match read.and_then(|()| assembler.finish()) {
        Ok(answer) => Ok(Answer { request_id: request_id.map(str::to_owned), carrier, ..answer }),
        Err(error) => {
            Err(ModelError { request_id: request_id.map(Into::into), ..error.with_partial(&partial) })
        }
    }
}
