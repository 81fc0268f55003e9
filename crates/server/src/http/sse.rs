//! A session's events as a stream that misses nothing.
//!
//! Durable events carry their place in the sequence as the stream's event id, so that a browser that reconnects says where
//! it was (`Last-Event-ID`) and gets each event once. Ephemeral events carry none.
//!
//! A stream leaves the HTTP library behind: once its request is answered, its connection is an outbox like that of an SDK
//! client, and whoever publishes an event writes it to the socket at once ([`Follower`]). A thousand readers are a thousand
//! writes, and nothing has to be woken for them. The end of such an answer is the end of its connection.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use baton_protocol::{ClientId, SessionId};
use baton_store::Seq;
use bytes::Bytes;
use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Interval, MissedTickBehavior};

use super::Shared;
use super::listen::FAREWELL;
use crate::session::{Batch, CallFailed, Calling, Follower, Handle, Port, Published, Recipient};
use crate::wire::{Closed, Outbox, Pipe};

/// How often a stream says that it lives. Whoever hears nothing for longer knows that the connection is dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often to look for news of a session that is not in memory here: another server may have it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a reader wants to see.
pub(super) struct Subscription {
    pub(super) session: SessionId,
    /// The last event that it has seen.
    pub(super) after: Seq,
    pub(super) place: OwnedSemaphorePermit,
}

/// An answer whose connection becomes a stream; see [`take_subscription`]. Shared, because what a response carries has to
/// be cloneable, and a place among the streams is not.
#[derive(Clone)]
struct Handover(Arc<Mutex<Option<Subscription>>>);

impl IntoResponse for Subscription {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        let mut response = (headers, Body::empty()).into_response();
        response.extensions_mut().insert(Handover(Arc::new(Mutex::new(Some(self)))));
        response
    }
}

/// The subscription that a request was answered with, and the headers of the answer, if it was.
pub(super) fn take_subscription(response: &mut Response) -> Option<(Subscription, HeaderMap)> {
    let Handover(handover) = response.extensions_mut().remove()?;
    let subscription = handover.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let mut headers = std::mem::take(response.headers_mut());
    // The body that stood in for the stream was an empty one.
    headers.remove(header::CONTENT_LENGTH);
    Some((subscription, headers))
}

/// Streams until the reader leaves, the session is gone or the server stops.
pub(super) async fn stream(
    door: &Shared,
    subscription: Subscription,
    headers: HeaderMap,
    incoming: impl AsyncRead + Unpin,
    outgoing: impl Pipe,
) {
    door.metrics.streams.fetch_add(1, Ordering::Relaxed);
    let outbox = Outbox::new(outgoing, door.server.options.max_backlog);
    // A word at once, so that the reader knows that it is connected, however quiet the session.
    let greeting = [&head(&headers), b": connected\n\n".as_slice()].concat();
    drop(headers);
    if outbox.push(greeting.into()).is_ok() {
        tokio::select! {
            // Its errors are those of a reader that has left.
            ended = outbox.run() => drop(ended),
            () = until_gone(incoming) => {}
            Err(Closed) = follow(door, &subscription, &outbox) => {}
            () = door.server.stopping.cancelled() => {}
        }
    }
    outbox.close();
    drop(tokio::time::timeout(FAREWELL, outbox.run()).await);
    door.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    drop(subscription.place);
}

/// The head of the answer. Without a length: the answer ends with the connection.
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

/// A reader has nothing more to say; what it says all the same is not heard.
async fn until_gone(mut incoming: impl AsyncRead + Unpin) {
    let mut ignored = [0; 64];
    while incoming.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
}

/// Tells of all that happens, as long as there is somebody to tell it to.
async fn follow(door: &Shared, subscription: &Subscription, outbox: &Arc<Outbox>) -> Result<(), Closed> {
    let (server, session) = (&door.server, &subscription.session);
    let follower = Follower::from(server, Reader(outbox.clone()), subscription.after);
    let mut arrivals = server.registry.arrivals();
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    loop {
        // Before the look: a session that comes after it is an arrival.
        arrivals.mark_unchanged();
        // Before the store is read: what happens meanwhile is heard.
        let listening = server.registry.get(session).map(|handle| Listening::to(handle, door, &follower));
        follower.catch_up(session).await?;
        match listening {
            Some(mut listening) => {
                while listening.lasts(door) && !listening.is_over(&mut heartbeat).await {
                    outbox.push(alive())?;
                }
            }
            None => tokio::select! {
                _ = arrivals.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = heartbeat.tick() => outbox.push(alive())?,
            },
        }
    }
}

fn alive() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

/// Whoever reads a stream.
struct Reader(Arc<Outbox>);

impl Recipient for Reader {
    fn outbox(&self) -> &Outbox {
        &self.0
    }

    fn words(&self, _: &SessionId, event: &Published) -> Option<Bytes> {
        Some(event.sse_piece())
    }

    fn common_words(&self, _: &SessionId, events: &Batch) -> Option<Bytes> {
        Some(events.sse_pieces())
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// An attachment to a live session that ends with the stream.
struct Listening {
    handle: Handle,
    client: ClientId,
    /// Resolves when the session lets go of us.
    let_go: oneshot::Receiver<()>,
}

/// What the session holds on to.
struct Ear {
    follower: Arc<Follower<Reader>>,
    _held: oneshot::Sender<()>,
}

impl Port for Ear {
    fn deliver(&self, session: &SessionId, events: &Arc<Batch>) {
        self.follower.deliver(session, events);
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.follower.call(method, params)
    }
}

impl Listening {
    fn to(handle: Handle, door: &Shared, follower: &Arc<Follower<Reader>>) -> Self {
        let (held, let_go) = oneshot::channel();
        let client = door.server.new_client();
        follower.hold_back(handle.hub.head());
        handle.hub.attach(client, Arc::new(Ear { follower: follower.clone(), _held: held }));
        Self { handle, client, let_go }
    }

    /// Waits until it is time to say that we live, or the session is over.
    async fn is_over(&mut self, heartbeat: &mut Interval) -> bool {
        tokio::select! {
            _ = &mut self.let_go => true,
            _ = heartbeat.tick() => false,
        }
    }

    /// A session that died without a word leaves us listening to nobody, while its successor speaks.
    fn lasts(&self, door: &Shared) -> bool {
        door.server.registry.get(&self.handle.id).is_some_and(|handle| handle.is_same(&self.handle))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.handle.hub.detach(self.client);
    }
}
