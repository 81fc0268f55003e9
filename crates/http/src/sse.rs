//! Event streams (server-sent events) of sessions.
//!
//! Durable events carry their sequence number as event id. A browser that reconnects sends the last one (`Last-Event-ID`), so
//! it gets each event once. Ephemeral events carry no id.
//!
//! A stream takes its connection from the HTTP library: after the head of the response, the connection is an outbox like that
//! of an SDK client, and publishers write events to the socket directly ([`Subscriber`]). A thousand readers cost a thousand
//! writes, and no task wakes up for them. The stream ends with its connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use baton_protocol::{ClientId, SessionId};
use baton_store::Seq;
use bytes::Bytes;
use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior};

use super::Shared;
use super::listen::SHUTDOWN_GRACE;
use super::metrics::Open;
use baton_runtime::session::{Batch, CallFailed, Calling, Encoding, EventReader, Port, Published};
use baton_service::{Caller, Denied, LiveSession, Service};
use baton_wire::{Closed, OpenStream, Outbox, Pipe, Recipient, Subscriber};

/// Time between two heartbeats. A reader that receives nothing for longer knows that the connection is dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two reads of the store for a session that is not live here: a different server may write it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Request for an event stream. As a response, it turns its connection into the stream.
pub(super) struct StreamRequest {
    pub(super) wanted: Wanted,
    /// Who reads it. The stream ends with the identity.
    pub(super) reader: Caller,
    pub(super) opened: OpenStream,
}

/// What a stream sends.
pub(super) enum Wanted {
    /// The events of a session.
    Session {
        session: SessionId,
        /// The reader's cursor: the last event that it has received.
        after: Seq,
        /// The reader's program, as it calls itself.
        program: Option<String>,
    },
    /// The changes of all sessions.
    Feed,
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session { session, .. } => session.fmt(f),
            Self::Feed => f.write_str("all sessions"),
        }
    }
}

/// Response extension that carries a stream request to [`take_stream_request`]. Shared, because extensions must be `Clone` and a
/// permit is not.
#[derive(Clone)]
struct StreamRequestSlot(Arc<Mutex<Option<StreamRequest>>>);

impl IntoResponse for StreamRequest {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        let mut response = (headers, Body::empty()).into_response();
        response.extensions_mut().insert(StreamRequestSlot(Arc::new(Mutex::new(Some(self)))));
        response
    }
}

/// Takes the stream request out of a response, with the headers of the response.
pub(super) fn take_stream_request(response: &mut Response) -> Option<(StreamRequest, HeaderMap)> {
    let StreamRequestSlot(slot) = response.extensions_mut().remove()?;
    let stream_request = slot.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let mut headers = std::mem::take(response.headers_mut());
    // The length is that of the empty body, which only stands in for the stream.
    headers.remove(header::CONTENT_LENGTH);
    Some((stream_request, headers))
}

/// Streams events until the reader disconnects, reading the session fails, or the server stops.
pub(super) async fn stream(
    door: &Shared,
    stream_request: StreamRequest,
    headers: HeaderMap,
    incoming: impl AsyncRead + Unpin,
    outgoing: impl Pipe,
) {
    let _open = Open::count(&door.metrics.streams);
    let outbox = Outbox::new(outgoing, door.options.max_backlog);
    // A comment follows the head at once, so that the reader knows that it is connected even if the session is idle.
    let start = [&head(&headers), b": connected\n\n".as_slice()].concat();
    drop(headers);
    if outbox.push(start.into()).is_ok() {
        tokio::select! {
            // Fails only if the reader has disconnected.
            ended = outbox.run() => drop(ended),
            () = disconnected(incoming) => {}
            Err(Ended) = send(door, &stream_request, &outbox) => {}
            () = revoked(door, &stream_request.reader) => {}
            () = door.service.stopping().cancelled() => {}
        }
    }
    outbox.close();
    drop(tokio::time::timeout(SHUTDOWN_GRACE, outbox.run()).await);
    drop(stream_request.opened);
}

/// The stream has ended: its outbox is closed, or its reader may not read.
struct Ended;

impl From<Closed> for Ended {
    fn from(_: Closed) -> Self {
        Self
    }
}

impl From<Denied> for Ended {
    fn from(_: Denied) -> Self {
        Self
    }
}

async fn send(door: &Shared, request: &StreamRequest, outbox: &Arc<Outbox>) -> Result<(), Ended> {
    let reader = &request.reader;
    match &request.wanted {
        Wanted::Session { session, after, program } => {
            let reader = EventReader { user: reader.author(), program: program.clone() };
            follow(&door.service, &request.reader, reader, session, *after, outbox).await
        }
        Wanted::Feed => {
            let _elsewhere = door.service.watch_all(reader).await?;
            let _reader = door.feed.attach(outbox);
            // From here on no change is missed: the reader reads the lists now.
            outbox.push(READY)?;
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                outbox.push(HEARTBEAT_COMMENT)?;
            }
        }
    }
}

/// Waits until the identity of a reader ends.
async fn revoked(door: &Shared, reader: &Caller) {
    match &door.people {
        Some(people) => people.revoked(reader.identity()).await,
        None => std::future::pending().await,
    }
}

/// Encodes the head of the response. It has no length: the response ends with the connection.
fn head(headers: &HeaderMap) -> Vec<u8> {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (name, value) in headers {
        head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let now = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&jiff::Timestamp::now());
    let date = now.map(|now| format!("date: {now}\r\n")).unwrap_or_default();
    head.extend(format!("{date}connection: close\r\n\r\n").into_bytes());
    head
}

/// Waits until the reader disconnects. Bytes that it sends are discarded.
async fn disconnected(mut incoming: impl AsyncRead + Unpin) {
    let mut ignored = [0; 64];
    while incoming.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
}

/// Sends a session's events until the outbox is closed, across reloads of the session and moves to other servers.
async fn follow(
    service: &Service,
    caller: &Caller,
    reader: EventReader,
    session: &SessionId,
    after: Seq,
    outbox: &Arc<Outbox>,
) -> Result<(), Ended> {
    let mut watched = service.watch(caller, session)?;
    let subscriber = Subscriber::from(service.events(), Reader(outbox.clone()), after);
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    loop {
        let live = watched.live().await;
        // A session that is being opened publishes from its head on, which is not known yet: what others write until then
        // is in the store only.
        let (open, opening) = match live {
            Some(live) if live.hub().is_open() => (Some(live), None),
            opening => (None, opening),
        };
        // Attached before the store is read, so that no event between the two is missed.
        let attachment = open.map(|live| Attachment::new(live, service, &subscriber, reader.clone()));
        subscriber.catch_up(session).await?;
        match attachment {
            Some(mut attachment) => {
                while watched.is_current(&attachment.session) && !attachment.ends_before(&mut heartbeat).await
                {
                    outbox.push(HEARTBEAT_COMMENT)?;
                }
            }
            None => tokio::select! {
                () = watched.arrival() => {}
                () = finished(opening) => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = heartbeat.tick() => outbox.push(HEARTBEAT_COMMENT)?,
            },
        }
    }
}

/// Waits until the opening of a session has finished. Never ends without one.
async fn finished(opening: Option<LiveSession>) {
    match opening {
        Some(session) => session.hub().opened().await,
        None => std::future::pending().await,
    }
}

/// Tells a reader of the feed to read the lists.
pub(crate) const READY: Bytes = Bytes::from_static(b"event: ready\ndata: {}\n\n");

const HEARTBEAT_COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// Returns the encoding of an event, which is made once for all readers.
fn encoded(event: &Published) -> Bytes {
    event.encoded(Encoding::Stream, || encode(event.seq, &event.kind, &event.json))
}

/// Encodes an event. An ephemeral one has no id: it must not move the reader's cursor.
fn encode(seq: Option<Seq>, kind: &str, json: &[u8]) -> Bytes {
    let mut encoded = Vec::with_capacity(json.len() + 64);
    if let Some(seq) = seq {
        encoded.extend_from_slice(format!("id: {seq}\n").as_bytes());
    }
    encoded.extend_from_slice(format!("event: {}\ndata: ", event_name(kind)).as_bytes());
    // A line break between JSON tokens, as an imported file may have, would end the line of the stream.
    encoded.extend(json.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    encoded.extend_from_slice(b"\n\n");
    encoded.into()
}

/// Removes characters from an event type that could forge lines of the stream. Types of imported histories are arbitrary.
fn event_name(kind: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    kind.chars().filter(is_plain).collect()
}

/// The reader of a stream.
struct Reader(Arc<Outbox>);

impl Recipient for Reader {
    fn outbox(&self) -> &Outbox {
        &self.0
    }

    fn encode(&self, _: &SessionId, event: &Published) -> Option<Bytes> {
        Some(encoded(event))
    }

    fn encode_shared(&self, _: &SessionId, events: &Batch) -> Option<Bytes> {
        Some(events.encoded(Encoding::Stream, |event| Some(encoded(event))))
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// Attachment of a stream to a live session. Dropping it detaches.
struct Attachment {
    session: LiveSession,
    client: ClientId,
    /// Resolves when the session drops its [`StreamPort`].
    detached: oneshot::Receiver<()>,
}

/// The session's end of an [`Attachment`].
struct StreamPort {
    subscriber: Arc<Subscriber<Reader>>,
    reader: EventReader,
    _attached: oneshot::Sender<()>,
}

impl Port for StreamPort {
    fn deliver(&self, session: &SessionId, events: &Arc<Batch>) {
        self.subscriber.deliver(session, events);
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.subscriber.call(method, params)
    }

    fn reader(&self) -> Option<EventReader> {
        Some(self.reader.clone())
    }
}

impl Attachment {
    fn new(
        session: LiveSession,
        service: &Service,
        subscriber: &Arc<Subscriber<Reader>>,
        reader: EventReader,
    ) -> Self {
        let (attached, detached) = oneshot::channel();
        let client = service.new_client();
        subscriber.hold_back(session.hub().head());
        let port = StreamPort { subscriber: subscriber.clone(), reader, _attached: attached };
        session.hub().attach(client, Arc::new(port));
        Self { session, client, detached }
    }

    /// Waits for the next heartbeat or the end of the attachment. Returns whether the attachment has ended.
    async fn ends_before(&mut self, heartbeat: &mut Interval) -> bool {
        tokio::select! {
            _ = &mut self.detached => true,
            _ = heartbeat.tick() => false,
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.session.hub().detach(self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_event_types_and_bodies_cannot_forge_a_stream() {
        let encoded = encode(Some(Seq(7)), "x.y\ndata: {}\n\nevent: z", b"{\"a\":\r1,\n\"b\":2}");
        let text = std::str::from_utf8(&encoded).unwrap();
        assert_eq!(text, "id: 7\nevent: x.ydataeventz\ndata: {\"a\": 1, \"b\":2}\n\n");
    }
}
