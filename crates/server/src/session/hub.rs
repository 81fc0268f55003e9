//! Fan-out: every event to every attached client, serialised once.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_protocol::event::is_public;
use baton_protocol::rpc::RpcError;
use baton_protocol::{AgentId, Body, ClientId, Event, EventId, Json, SessionId, Timestamp};
use baton_store::{Seq, StoreError};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// An event on its way to clients.
pub(crate) struct Published {
    /// Its place in the session's sequence; none if it is ephemeral.
    pub(crate) seq: Option<Seq>,
    /// Its type.
    pub(crate) kind: String,
    /// Whether it belongs to a sub-agent, as far as it is live: of what is read back, nobody asks.
    pub(crate) of_agent: bool,
    /// The event as JSON, exactly as it is stored.
    pub(crate) json: Bytes,
    /// The frame of the JSON-RPC door, made when the first client of that door needs it.
    frame: OnceLock<Bytes>,
    /// The piece of the HTTP door's event streams, likewise.
    sse: OnceLock<Bytes>,
}

impl Published {
    pub(crate) fn new(seq: Option<Seq>, kind: &str, json: Bytes) -> Arc<Self> {
        Arc::new(Self::unshared(seq, kind, json))
    }

    /// An event that has just happened.
    pub(crate) fn live(event: &Event, seq: Option<Seq>, json: Bytes) -> Arc<Self> {
        let of_agent = event.agent_id.is_some();
        Arc::new(Self { of_agent, ..Self::unshared(seq, event.body.kind(), json) })
    }

    fn unshared(seq: Option<Seq>, kind: &str, json: Bytes) -> Self {
        let (frame, sse) = (OnceLock::new(), OnceLock::new());
        Self { seq, kind: kind.to_owned(), of_agent: false, json, frame, sse }
    }

    /// The notification that SDK clients are sent, as a frame.
    pub(crate) fn frame(&self, session: &SessionId) -> Bytes {
        let make = || {
            // Written by hand: the event is JSON already, and must go out byte for byte as it is stored.
            let mut body = Vec::with_capacity(self.json.len() + 160);
            body.extend_from_slice(br#"{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":""#);
            // A session id has no character that JSON would escape.
            body.extend_from_slice(session.as_str().as_bytes());
            body.extend_from_slice(br#"","event":"#);
            body.extend_from_slice(&self.json);
            body.extend_from_slice(b"}}");
            baton_protocol::frame::encode(&body)
        };
        self.frame.get_or_init(make).clone()
    }

    /// The event as a piece of an event stream. An ephemeral event has no id: it must not move the reader's cursor.
    pub(crate) fn sse_piece(&self) -> Bytes {
        let make = || {
            let mut piece = Vec::with_capacity(self.json.len() + 64);
            if let Some(seq) = self.seq {
                piece.extend_from_slice(format!("id: {seq}\n").as_bytes());
            }
            piece.extend_from_slice(format!("event: {}\ndata: ", one_word(&self.kind)).as_bytes());
            // A line break outside of JSON's strings, as an imported file may have, would end the line of the stream.
            piece.extend(
                self.json.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }),
            );
            piece.extend_from_slice(b"\n\n");
            Bytes::from(piece)
        };
        self.sse.get_or_init(make).clone()
    }
}

/// The type of an event as far as a stream can carry it. Types of imported histories are whatever the file says.
fn one_word(kind: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    kind.chars().filter(is_plain).collect()
}

/// Events of one moment, in their order. They travel together: to wake a client and to write to it costs more than
/// anything else on their way.
pub(crate) struct Batch {
    events: Box<[Arc<Published>]>,
    /// All of it for the JSON-RPC door, made when the first client of that door needs it.
    frames: OnceLock<Bytes>,
    /// All of it for the HTTP door's event streams, likewise.
    sse: OnceLock<Bytes>,
}

impl Batch {
    fn new(events: impl IntoIterator<Item = Arc<Published>>) -> Arc<Self> {
        let events = events.into_iter().collect();
        Arc::new(Self { events, frames: OnceLock::new(), sse: OnceLock::new() })
    }

    pub(crate) fn events(&self) -> &[Arc<Published>] {
        &self.events
    }

    /// The frames of all that SDK clients see.
    pub(crate) fn frames(&self, session: &SessionId) -> Bytes {
        let public = self.events.iter().filter(|event| is_public(&event.kind));
        self.frames.get_or_init(|| joined(public.map(|event| event.frame(session)))).clone()
    }

    /// All of them as pieces of an event stream.
    pub(crate) fn sse_pieces(&self) -> Bytes {
        self.sse.get_or_init(|| joined(self.events.iter().map(|event| event.sse_piece()))).clone()
    }
}

/// Several pieces in one, without a copy if there is only one.
pub(crate) fn joined(pieces: impl Iterator<Item = Bytes>) -> Bytes {
    let mut pieces: Vec<Bytes> = pieces.collect();
    if pieces.len() == 1 { pieces.swap_remove(0) } else { pieces.concat().into() }
}

/// Why a client could not be asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CallFailed {
    #[error("the client has left")]
    Gone,
    #[error("the client answered with an error: {0}")]
    Refused(RpcError),
}

/// A call to a client, to be awaited.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Result<Json, CallFailed>> + Send>>;

/// One client's end of a session.
pub(crate) trait Port: Send + Sync {
    /// Takes events. Must not wait.
    fn deliver(&self, session: &SessionId, events: &Arc<Batch>);

    /// Asks the client something that it answers directly.
    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling;
}

/// Who is attached to one session, and how to reach them.
pub(crate) struct Hub {
    session: SessionId,
    state: Mutex<State>,
    /// The place of the last durable event that was published, or is being published. Not under the lock: ports ask for
    /// it, and are called with the lock held.
    head: AtomicU64,
    /// Why the session is not in memory any more, if its store is to blame.
    failure: OnceLock<StoreError>,
}

#[derive(Default)]
struct State {
    ports: BTreeMap<ClientId, Arc<dyn Port>>,
    /// The parent of the next event.
    last_public: Option<EventId>,
}

impl Hub {
    pub(crate) fn new(session: SessionId) -> Self {
        Self { session, state: Mutex::default(), head: AtomicU64::new(0), failure: OnceLock::new() }
    }

    pub(crate) fn attach(&self, client: ClientId, port: Arc<dyn Port>) {
        self.lock().ports.insert(client, port);
    }

    pub(crate) fn detach(&self, client: ClientId) {
        self.lock().ports.remove(&client);
    }

    /// The session has ended here: nobody will hear from it any more, and whoever waits for its next event should know.
    pub(crate) fn close(&self) {
        self.lock().ports.clear();
    }

    /// Says why the session is about to leave the memory: its store failed, or another server has it.
    pub(crate) fn fail(&self, error: StoreError) {
        let _ = self.failure.set(error);
    }

    /// Why the session is not in memory any more, if its store is to blame.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.failure.get().cloned()
    }

    /// Whether anybody is attached besides these.
    pub(crate) fn has_others(&self, than: &[ClientId]) -> bool {
        self.lock().ports.keys().any(|client| !than.contains(client))
    }

    pub(crate) fn port(&self, client: ClientId) -> Option<Arc<dyn Port>> {
        self.lock().ports.get(&client).cloned()
    }

    /// Takes an event to everybody.
    pub(crate) fn publish(&self, event: &Event, published: Arc<Published>) {
        let mut state = self.lock();
        if !event.ephemeral && event.body.is_public() {
            state.last_public = Some(event.id);
        }
        if let Some(seq) = published.seq {
            self.head.store(seq.0, Ordering::Release);
        }
        state.deliver(&self.session, &Batch::new([published]));
    }

    /// The place of the last durable event that was published, or is being published.
    pub(crate) fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::Acquire))
    }

    /// Tells what came before, for a session that was just opened.
    pub(crate) fn start_after(&self, id: Option<EventId>, head: Seq) {
        self.lock().last_public = id;
        self.head.store(head.0, Ordering::Release);
    }

    /// Shows something to everybody that is not recorded, unless the work that it comes from has been stopped: nobody
    /// should see a piece of an answer after the event that says it was cancelled.
    pub(crate) fn show(&self, body: impl Into<Body>, work: &CancellationToken) {
        self.show_for(None, [body.into()], work);
    }

    /// The same, of several things and of a conversation: the main one, or a sub-agent's.
    pub(crate) fn show_for(
        &self,
        agent: Option<&AgentId>,
        bodies: impl IntoIterator<Item = Body>,
        work: &CancellationToken,
    ) {
        let state = self.lock();
        if work.is_cancelled() || state.ports.is_empty() {
            return;
        }
        let shown = bodies.into_iter().filter_map(|body| state.ephemeral(agent, body));
        state.deliver(&self.session, &Batch::new(shown));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// An event that is made now and not recorded.
    fn ephemeral(&self, agent: Option<&AgentId>, body: Body) -> Option<Arc<Published>> {
        let event = Event {
            id: EventId(Uuid::now_v7()),
            timestamp: Timestamp::now(),
            parent_id: self.last_public,
            agent_id: agent.cloned(),
            ephemeral: true,
            body,
        };
        let json = serde_json::to_vec(&event).ok()?;
        Some(Published::live(&event, None, json.into()))
    }

    fn deliver(&self, session: &SessionId, events: &Arc<Batch>) {
        for port in self.ports.values() {
            port.deliver(session, events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_bodies_of_imported_events_cannot_forge_a_stream() {
        let json = Bytes::from_static(b"{\"a\":\r1,\n\"b\":2}");
        let piece = Published::unshared(Some(Seq(7)), "x.y\ndata: {}\n\nevent: z", json).sse_piece();
        let text = std::str::from_utf8(&piece).unwrap();
        assert_eq!(text, "id: 7\nevent: x.ydataeventz\ndata: {\"a\": 1, \"b\":2}\n\n");
    }
}
