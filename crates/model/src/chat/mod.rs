//! OpenAI's chat completions, the wire that almost every provider speaks, each with an accent.
//!
//! [`ChatModel`] sends one request and reads one answer, streamed or not. It does not try again
//! ([`crate::retry`] does), and it does not know what the tools do that it carries.

mod assemble;
mod calls;
mod request;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::http::{self, Headers, HttpResponse, Transport, TransportError};
use crate::{Answer, Asking, Delta, Model, ModelError, Request, Sink, failure, sse};
use assemble::Assembler;

/// The path below the base address.
const PATH: &str = "chat/completions";

/// The longest answer that is read, in bytes on the wire. The longest that models write are about a megabyte.
const LONGEST_ANSWER: usize = 64 << 20;

/// The longest event of a stream. Some providers send a whole tool call, with a whole file in it, as one.
const LONGEST_EVENT: usize = 16 << 20;

/// How much of an error is read, and for how long.
const LONGEST_ERROR: usize = 64 << 10;
const ERROR_STALL: Duration = Duration::from_secs(10);

/// How long to wait for the cost, when all else has arrived.
const USAGE_STALL: Duration = Duration::from_secs(5);

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

/// In what form an answer comes, which is not always the one that was asked for.
enum Form {
    Stream,
    Whole,
    WebPage,
}

impl ChatModel {
    /// A model at an endpoint, reached in some way.
    #[must_use]
    pub fn new(endpoint: Endpoint, dialect: Dialect, transport: Arc<dyn Transport>) -> Self {
        Self { endpoint, dialect, transport }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let mut response = self.send(request).await?;
        let mut assembler = Assembler::new(&self.endpoint, request);
        let mut nobody = |_| {};
        let sink: Sink<'_> = if request.stream { sink } else { &mut nobody };
        let read = match form(&response.headers, request.stream) {
            Form::Stream => self.read_stream(&mut response, &mut assembler, sink).await,
            Form::Whole => self.read_whole(&mut response, &mut assembler, sink).await,
            Form::WebPage => Err(self.web_page(&mut response).await),
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

    async fn send(&self, request: &Request) -> Result<HttpResponse, ModelError> {
        let body = request::body(request, self.dialect)
            .map_err(|error| self.failed(&TransportError::Invalid(error.to_string())))?;
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        let http_request = self.endpoint.post(PATH, accept, &request.headers, body.into());
        let sent = http::send(&*self.transport, http_request, self.endpoint.patience).await;
        let mut response = sent.map_err(|error| self.failed(&error))?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let body = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
        Err(failure::of_status(&self.endpoint, response.status, &response.headers, &body))
    }

    async fn read_whole(
        &self,
        response: &mut HttpResponse,
        assembler: &mut Assembler<'_>,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        let body = response.whole(self.endpoint.patience.stall, LONGEST_ANSWER).await;
        let body = body.map_err(|error| self.failed(&error))?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(failure::nonsense(&self.endpoint, "sent an empty answer"));
        }
        assembler.take_whole(&body, sink)
    }

    async fn read_stream(
        &self,
        response: &mut HttpResponse,
        assembler: &mut Assembler<'_>,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        let mut parser = sse::Parser::new(LONGEST_EVENT);
        let mut stream = StreamSoFar::default();
        while let Some(bytes) = self.next_bytes(response, assembler).await? {
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
        assembler: &Assembler<'_>,
    ) -> Result<Option<bytes::Bytes>, ModelError> {
        let stall = self.endpoint.patience.stall;
        if assembler.is_complete() {
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
        assembler: &mut Assembler<'_>,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        match parser.finish() {
            // What cannot be read here has simply been cut off.
            Some(rest) => assembler.take_event(&rest, sink).map_err(|_| failure::broke_off(&self.endpoint)),
            None if stream.has_events => Ok(()),
            None if stream.begin.is_empty() => Err(failure::nonsense(&self.endpoint, "sent an empty answer")),
            None => {
                let begin = failure::tidy(&String::from_utf8_lossy(&stream.begin), 80);
                Err(failure::nonsense(
                    &self.endpoint,
                    &format!("sent something else than a stream of events: {begin}"),
                ))
            }
        }
    }

    async fn web_page(&self, response: &mut HttpResponse) -> ModelError {
        let page = response.beginning(ERROR_STALL, LONGEST_ERROR).await;
        failure::web_page(&self.endpoint, &page)
    }

    fn failed(&self, error: &TransportError) -> ModelError {
        failure::of_transport(&self.endpoint, error)
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
