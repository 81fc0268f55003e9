//! One question and its answer over HTTP, whatever the wire: statuses, streams, stalls, ends.
//!
//! A wire says what goes out, and how what comes back is put together ([`Assemble`]). Everything between the two is the
//! same for all of them, and is here.

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::http::{self, Headers, HttpRequest, HttpResponse, Patience, Transport, TransportError};
use crate::{Answer, Delta, ModelError, Request, Sink, failure, sse};

/// The longest answer that is read, in bytes on the wire. The longest that models write are about a megabyte.
const LONGEST_ANSWER: usize = 64 << 20;

/// The longest event of a stream. Some providers send a whole tool call, with a whole file in it, as one.
const LONGEST_EVENT: usize = 16 << 20;

/// How much of an error is read, and for how long.
const LONGEST_ERROR: usize = 64 << 10;
const ERROR_STALL: Duration = Duration::from_secs(10);

/// How long to wait for the cost, when all else has arrived.
const USAGE_STALL: Duration = Duration::from_secs(5);

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

/// Sends a request and reads the answer. Pieces of it go to `sink` if a stream was asked for.
pub(crate) async fn run(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
    stream: bool,
    mut assembler: Box<dyn Assemble + '_>,
    sink: Sink<'_>,
) -> Result<Answer, ModelError> {
    let exchange = Exchange { endpoint };
    let mut response = exchange.send(transport, request).await?;
    let mut nobody = |_| {};
    let sink: Sink<'_> = if stream { sink } else { &mut nobody };
    let read = match form(&response.headers, stream) {
        Form::Stream => exchange.read_stream(&mut response, &mut *assembler, sink).await,
        Form::Whole => exchange.read_whole(&mut response, &mut *assembler, sink).await,
        Form::WebPage => Err(exchange.web_page(&mut response).await),
    };
    let request_id = failure::request_id(&response.headers);
    let partial = assembler.text().to_owned();
    match read.and_then(|()| assembler.finish()) {
        Ok(answer) => Ok(Answer { request_id: request_id.map(str::to_owned), ..answer }),
        Err(error) => {
            Err(ModelError { request_id: request_id.map(Into::into), ..error.with_partial(&partial) })
        }
    }
}

/// Asks over a WebSocket: one message goes out, the events of a stream come back as messages.
pub(crate) async fn run_on_socket(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    request: HttpRequest,
    stream: bool,
    mut assembler: Box<dyn Assemble + '_>,
    sink: Sink<'_>,
) -> Result<Answer, ModelError> {
    let mut nobody = |_| {};
    let sink: Sink<'_> = if stream { sink } else { &mut nobody };
    let read = read_socket(endpoint, transport, request, &mut *assembler, sink).await;
    let partial = assembler.text().to_owned();
    let answer = read.map_err(|error| match error {
        SocketError::Transport(error) => failure::of_transport(endpoint, &error),
        SocketError::Model(error) => error,
    });
    answer.and_then(|()| assembler.finish()).map_err(|error| error.with_partial(&partial))
}

/// What ends the reading of a socket.
enum SocketError {
    Transport(TransportError),
    Model(ModelError),
}

async fn read_socket(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    mut request: HttpRequest,
    assembler: &mut dyn Assemble,
    sink: Sink<'_>,
) -> Result<(), SocketError> {
    let message = String::from_utf8_lossy(&std::mem::take(&mut request.body)).into_owned();
    let Patience { head, stall } = endpoint.patience;
    let failed = SocketError::Transport;
    let mut socket = within(head, transport.open(request)).await.map_err(failed)?;
    within(stall, socket.send(message)).await.map_err(failed)?;
    let mut bytes = 0;
    // The first word may take as long as the head of a response.
    let mut patience = head;
    while let Some(data) = within(patience, socket.next()).await.map_err(failed)? {
        patience = stall;
        bytes += data.len() as u64;
        if bytes > LONGEST_ANSWER as u64 {
            return Err(failed(TransportError::TooLong(LONGEST_ANSWER)));
        }
        assembler.take_event(&sse::Event { name: String::new(), data }, sink).map_err(SocketError::Model)?;
        sink(Delta::Progress { bytes });
        if assembler.has_end_mark() {
            break;
        }
    }
    Ok(())
}

async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    tokio::time::timeout(limit, future).await.unwrap_or(Err(TransportError::Stalled(limit)))
}

/// In what form an answer comes, which is not always the one that was asked for.
enum Form {
    Stream,
    Whole,
    WebPage,
}

/// Believes what the provider says it sends; where it says nothing known, it is what was asked for.
fn form(headers: &Headers, stream_wanted: bool) -> Form {
    if headers.is_of_type("text/html") {
        Form::WebPage
    } else if headers.is_of_type("text/event-stream") {
        Form::Stream
    } else if headers.is_of_type("application/json") || !stream_wanted {
        Form::Whole
    } else {
        Form::Stream
    }
}

struct Exchange<'a> {
    endpoint: &'a Endpoint,
}

impl Exchange<'_> {
    async fn send(
        &self,
        transport: &dyn Transport,
        request: HttpRequest,
    ) -> Result<HttpResponse, ModelError> {
        let sent = http::send(transport, request, self.endpoint.patience).await;
        let mut response = sent.map_err(|error| self.failed(&error))?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let body = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
        Err(failure::of_status(self.endpoint, response.status, &response.headers, &body))
    }

    async fn read_whole(
        &self,
        response: &mut HttpResponse,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        let body = response.whole(self.endpoint.patience.stall, LONGEST_ANSWER).await;
        let body = body.map_err(|error| self.failed(&error))?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(failure::nonsense(self.endpoint, "sent an empty answer"));
        }
        assembler.take_whole(&body, sink)
    }

    async fn read_stream(
        &self,
        response: &mut HttpResponse,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        let mut parser = sse::Parser::new(LONGEST_EVENT);
        let mut stream = StreamSoFar::default();
        while let Some(bytes) = self.next_bytes(response, assembler.is_complete()).await? {
            stream.note(&bytes);
            if stream.bytes > LONGEST_ANSWER as u64 {
                return Err(self.failed(&TransportError::TooLong(LONGEST_ANSWER)));
            }
            let mut events = Vec::new();
            let pushed = parser.push(&bytes, |event| events.push(event));
            for event in &events {
                stream.has_events = true;
                assembler.take_event(event, sink)?;
            }
            pushed.map_err(|sse::TooLong { limit }| self.failed(&TransportError::TooLong(limit)))?;
            sink(Delta::Progress { bytes: stream.bytes });
            if assembler.has_end_mark() {
                response.settle().await;
                return Ok(());
            }
        }
        self.end_of_stream(parser, &stream, assembler, sink)
    }

    /// More bytes; `None` at the end, or when only the cost is missing and does not come.
    async fn next_bytes(
        &self,
        response: &mut HttpResponse,
        is_complete: bool,
    ) -> Result<Option<Bytes>, ModelError> {
        let stall = self.endpoint.patience.stall;
        if is_complete {
            return Ok(response.chunk(stall.min(USAGE_STALL)).await.unwrap_or_default());
        }
        response.chunk(stall).await.map_err(|error| self.failed(&error))
    }

    /// A stream has ended without saying so. That may be the end of the answer, or a break in the middle of
    /// it.
    fn end_of_stream(
        &self,
        parser: sse::Parser,
        stream: &StreamSoFar,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        match parser.finish() {
            // What cannot be read here has simply been cut off.
            Some(rest) => assembler.take_event(&rest, sink).map_err(|_| failure::broke_off(self.endpoint)),
            None if stream.has_events => Ok(()),
            None if stream.begin.is_empty() => Err(failure::nonsense(self.endpoint, "sent an empty answer")),
            None => {
                let begin = failure::tidy(&String::from_utf8_lossy(&stream.begin), 80);
                Err(failure::nonsense(
                    self.endpoint,
                    &format!("sent something else than a stream of events: {begin}"),
                ))
            }
        }
    }

    async fn web_page(&self, response: &mut HttpResponse) -> ModelError {
        let page = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
        failure::web_page(self.endpoint, &page)
    }

    fn failed(&self, error: &TransportError) -> ModelError {
        failure::of_transport(self.endpoint, error)
    }
}

/// What is remembered of a stream, for progress and for complaints.
#[derive(Default)]
struct StreamSoFar {
    bytes: u64,
    begin: Vec<u8>,
    has_events: bool,
}

impl StreamSoFar {
    fn note(&mut self, bytes: &[u8]) {
        const ENOUGH: usize = 200;
        self.bytes += bytes.len() as u64;
        self.begin.extend(bytes.iter().take(ENOUGH.saturating_sub(self.begin.len())));
    }
}
