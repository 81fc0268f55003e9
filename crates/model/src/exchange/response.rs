//! Answers over HTTP: a stream of events, or one whole reply, whichever the provider sends.

use std::time::Duration;

use bytes::Bytes;

use super::{Assemble, ERROR_STALL, LONGEST_ANSWER, LONGEST_ERROR};
use crate::endpoint::Endpoint;
use crate::http::{Headers, HttpResponse, TransportError};
use crate::{Delta, ModelError, Sink, failure, sse};

/// The longest event of a stream. Some providers send a whole tool call, with a whole file in it, as one.
const LONGEST_EVENT: usize = 16 << 20;

/// How long to wait for the cost, when all else has arrived.
const USAGE_STALL: Duration = Duration::from_secs(5);

/// Reads a response to its end, in the form in which it comes.
pub(super) async fn read(
    endpoint: &Endpoint,
    response: &mut HttpResponse,
    stream_wanted: bool,
    assembler: &mut dyn Assemble,
    sink: Sink<'_>,
) -> Result<(), ModelError> {
    let reading = Reading { endpoint };
    match form(&response.headers, stream_wanted) {
        Form::Stream => reading.stream(response, assembler, sink).await,
        Form::Whole => reading.whole(response, assembler, sink).await,
        Form::WebPage => Err(reading.web_page(response).await),
    }
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

struct Reading<'a> {
    endpoint: &'a Endpoint,
}

impl Reading<'_> {
    async fn whole(
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

    async fn stream(
        &self,
        response: &mut HttpResponse,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        let mut parser = sse::Parser::new(LONGEST_EVENT);
        let mut so_far = StreamSoFar::default();
        while let Some(bytes) = self.next_bytes(response, assembler.is_complete()).await? {
            so_far.note(&bytes);
            if so_far.bytes > LONGEST_ANSWER as u64 {
                return Err(self.failed(&TransportError::TooLong(LONGEST_ANSWER)));
            }
            let mut events = Vec::new();
            let pushed = parser.push(&bytes, |event| events.push(event));
            for event in &events {
                so_far.has_events = true;
                assembler.take_event(event, sink)?;
            }
            pushed.map_err(|sse::TooLong { limit }| self.failed(&TransportError::TooLong(limit)))?;
            sink(Delta::Progress { bytes: so_far.bytes });
            if assembler.has_end_mark() {
                response.settle().await;
                return Ok(());
            }
        }
        self.end_of_stream(parser, &so_far, assembler, sink)
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
        so_far: &StreamSoFar,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        match parser.finish() {
            // What cannot be read here has simply been cut off.
            Some(rest) => assembler.take_event(&rest, sink).map_err(|_| failure::broke_off(self.endpoint)),
            None if so_far.has_events => Ok(()),
            None if so_far.begin.is_empty() => Err(failure::nonsense(self.endpoint, "sent an empty answer")),
            None => {
                let begin = failure::tidy(&String::from_utf8_lossy(&so_far.begin), 80);
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
