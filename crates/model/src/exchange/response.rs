//! Answers over HTTP: a stream of events or a whole reply, whichever the provider sends.

use std::time::Duration;

use baton_protocol::sse;
use bytes::Bytes;

use super::{Assemble, ERROR_STALL, LONGEST_ANSWER, LONGEST_ERROR};
use crate::endpoint::Endpoint;
use crate::http::{Headers, HttpResponse, TransportError};
use crate::{Delta, ModelError, Sink, failure};

/// Maximum size of an event. Some providers send a whole tool call, with a whole file in it, as one event.
const LONGEST_EVENT: usize = 16 << 20;

/// How long to wait for the usage after everything else has arrived.
const USAGE_STALL: Duration = Duration::from_secs(5);

/// Reads a response to its end, streamed or whole.
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

/// The form of a response, which may differ from the requested one.
enum Form {
    Stream,
    Whole,
    WebPage,
}

/// Determines the form from the content type; if that is unknown, assumes the requested form.
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
            return Err(failure::invalid(self.endpoint, "sent an empty answer"));
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
        let mut state = StreamState::default();
        while let Some(bytes) = self.next_bytes(response, assembler.is_complete()).await? {
            state.note(&bytes);
            if state.bytes > LONGEST_ANSWER as u64 {
                return Err(self.failed(&TransportError::TooLong(LONGEST_ANSWER)));
            }
            let mut events = Vec::new();
            let pushed = parser.push(&bytes, |event| events.push(event));
            for event in &events {
                state.has_events = true;
                assembler.take_event(event, sink)?;
            }
            pushed.map_err(|sse::TooLong { limit }| self.failed(&TransportError::TooLong(limit)))?;
            sink(Delta::Progress { bytes: state.bytes });
            if assembler.has_end_mark() {
                response.settle().await;
                return Ok(());
            }
        }
        self.end_of_stream(parser, &state, assembler, sink)
    }

    /// Returns more bytes. Returns `None` at the end, or if only the usage is missing and does not arrive.
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

    /// Handles a stream that ended without an end mark: either the end of the answer, or a broken connection.
    fn end_of_stream(
        &self,
        parser: sse::Parser,
        state: &StreamState,
        assembler: &mut dyn Assemble,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        match parser.finish() {
            // A malformed rest was cut off.
            Some(rest) => assembler.take_event(&rest, sink).map_err(|_| failure::incomplete(self.endpoint)),
            None if state.has_events => Ok(()),
            None if state.start.is_empty() => Err(failure::invalid(self.endpoint, "sent an empty answer")),
            None => {
                let start = failure::tidy(&String::from_utf8_lossy(&state.start), 80);
                Err(failure::invalid(
                    self.endpoint,
                    &format!("sent something other than a stream of events: {start}"),
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

/// State of a stream, for progress and for error messages.
#[derive(Default)]
struct StreamState {
    bytes: u64,
    start: Vec<u8>,
    has_events: bool,
}

impl StreamState {
    fn note(&mut self, bytes: &[u8]) {
        const ENOUGH: usize = 200;
        self.bytes += bytes.len() as u64;
        self.start.extend(bytes.iter().take(ENOUGH.saturating_sub(self.start.len())));
    }
}
