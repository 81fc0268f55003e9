//! Reads streams of events, and resumes one that ended too early.

use std::collections::VecDeque;
use std::time::Duration;

use baton_protocol::sse::Parser;
use futures_util::StreamExt;
use http::HeaderValue;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{EVENTS, Server, refused};
use crate::http::{ByteStream, Method};
use crate::lock;
use crate::wire::lines::LONGEST;
use crate::wire::message::{Failure, Message, number};

/// How long the rest of a stream is read after its response, so that the connection can be used again.
const DRAINING: Duration = Duration::from_millis(50);
/// Attempts in a row to resume a stream.
pub(super) const ATTEMPTS: u32 = 8;
/// Pause before the first attempt; it doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest id of an event, in bytes.
const EVENT_ID: usize = 1000;
/// A stream that lasted this long was not a failed attempt.
const LASTED: Duration = Duration::from_secs(10);

/// A request whose response is awaited on a stream.
pub(super) struct Awaited<'a> {
    pub(super) id: u64,
    pub(super) method: &'a str,
}

/// The end of a stream.
enum End {
    /// With the response.
    Responded,
    /// Before it; with whether there was any event.
    Early(bool),
    /// Nobody wants more of it, or nobody should.
    Over,
}

impl Server {
    /// Opens a stream by GET, after an event. Returns none if the server has none.
    pub(super) async fn stream(&self, last: Option<&str>) -> Result<Option<ByteStream>, Failure> {
        let mut headers = vec![("accept".to_owned(), EVENTS.to_owned())];
        headers.extend(last.map(|last| ("last-event-id".to_owned(), last.to_owned())));
        let mut response = self.request(Method::Get, headers, Vec::new()).await?;
        match response.status {
            200 if response.is_of_type(EVENTS) => Ok(Some(response.body)),
            200 | 405 => Ok(None),
            _ => Err(refused(&mut response).await),
        }
    }

    /// Receives the messages of a stream: up to the response to a request, or all of them. Resumes it if it ends before.
    pub(super) async fn follow(
        &self,
        stream: ByteStream,
        awaited: Option<&Awaited<'_>>,
    ) -> Result<(), Failure> {
        let (mut stream, mut last, mut attempts) = (Some(stream), None::<String>, 0);
        loop {
            if let Some(stream) = stream.take() {
                let begun = Instant::now();
                match self.receive(stream, awaited, &mut last).await {
                    End::Responded => return Ok(()),
                    End::Over => return Err(Failure::Closed),
                    End::Early(had_events) if had_events || begun.elapsed() >= LASTED => attempts = 0,
                    End::Early(_) => {}
                }
            }
            // Without an id, a stream of a request begins and ends with it.
            if attempts == ATTEMPTS || (awaited.is_some() && last.is_none()) {
                return Err(Failure::Closed);
            }
            sleep(PAUSE * 2u32.saturating_pow(attempts)).await;
            attempts += 1;
            match self.stream(last.as_deref()).await {
                Ok(Some(resumed)) => stream = Some(resumed),
                Ok(None) => return Err(Failure::Closed),
                Err(_) if self.access.has_challenge() => return Err(Failure::Closed),
                Err(_) => {}
            }
        }
    }

    /// Receives the messages of a stream until it ends, or has the response.
    async fn receive(
        &self,
        mut stream: ByteStream,
        awaited: Option<&Awaited<'_>>,
        last: &mut Option<String>,
    ) -> End {
        let (mut parser, mut ready, mut had_events) = (Parser::new(LONGEST), VecDeque::new(), false);
        while let Some(Ok(bytes)) = stream.next().await {
            let pushed = parser.push(&bytes, |event| ready.push_back(event));
            while let Some(event) = ready.pop_front() {
                had_events = true;
                let is_header = |id: &String| id.len() <= EVENT_ID && HeaderValue::from_str(id).is_ok();
                if let Some(id) = event.id.filter(is_header) {
                    *last = Some(id);
                }
                // An event without data has an id, from which the stream can be resumed.
                if !matches!(event.name.as_str(), "" | "message") || event.data.is_empty() {
                    continue;
                }
                let Some(mut message) = Message::parse(event.data.as_bytes(), &self.log) else { continue };
                let mut is_response = false;
                if let (Message::Response { id, .. }, Some(awaited)) = (&mut message, awaited) {
                    // An error whose id the server could not read is the response to this request.
                    is_response = id.is_null() || number(id) == Some(awaited.id);
                    if is_response {
                        *id = json!(awaited.id);
                        // From here on it is not forgotten, but finished.
                        lock(&self.state).requests.remove(&awaited.id);
                    }
                }
                if !self.deliver(message, awaited).await {
                    return End::Over;
                }
                if is_response {
                    let _ = timeout(DRAINING, async { while let Some(Ok(_)) = stream.next().await {} }).await;
                    return End::Responded;
                }
            }
            if let Err(error) = pushed {
                self.log.add(&error.to_string());
                return End::Over;
            }
        }
        End::Early(had_events)
    }
}
