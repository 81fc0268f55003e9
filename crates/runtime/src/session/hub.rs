//! Fan-out of a session's events to its clients. Each event is serialised once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_protocol::{AgentId, Body, ClientId, Event, EventId, SessionId, Timestamp};
use baton_providers::{CallFailed, Calling, Clients};
use baton_store::{Seq, StoreError};
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::failure::Failure;

/// An event on its way to clients.
pub struct Published {
    /// Its sequence number; none if it is ephemeral.
    pub seq: Option<Seq>,
    /// Its type.
    pub kind: String,
    /// Whether it belongs to a sub-agent. Only set for live events: readers of the store do not need it.
    pub of_agent: bool,
    /// The event as JSON, exactly as it is stored.
    pub json: Bytes,
    encodings: Encodings,
}

/// Format in which a door sends events. An event is encoded for the first client that needs the format, and the result is
/// shared by all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Format of the JSON-RPC door.
    Rpc,
    /// Format of the event streams of the HTTP door.
    Stream,
}

/// Encoded bytes, by [`Encoding`].
#[derive(Default)]
struct Encodings {
    rpc: OnceLock<Bytes>,
    stream: OnceLock<Bytes>,
}

impl Encodings {
    fn get_or_encode(&self, encoding: Encoding, encode: impl FnOnce() -> Bytes) -> Bytes {
        let slot = match encoding {
            Encoding::Rpc => &self.rpc,
            Encoding::Stream => &self.stream,
        };
        slot.get_or_init(encode).clone()
    }
}

impl Published {
    /// Creates one for an event that was read from the store.
    #[must_use]
    pub fn new(seq: Option<Seq>, kind: &str, json: Bytes) -> Arc<Self> {
        Arc::new(Self::unshared(seq, kind, json))
    }

    /// Creates one for a live event.
    pub(crate) fn live(event: &Event, seq: Option<Seq>, json: Bytes) -> Arc<Self> {
        let of_agent = event.agent_id.is_some();
        Arc::new(Self { of_agent, ..Self::unshared(seq, event.body.kind(), json) })
    }

    /// Creates one for an event that was received from the server that holds the session.
    pub(crate) fn received(seq: Option<Seq>, kind: &str, of_agent: bool, json: Bytes) -> Arc<Self> {
        Arc::new(Self { of_agent, ..Self::unshared(seq, kind, json) })
    }

    fn unshared(seq: Option<Seq>, kind: &str, json: Bytes) -> Self {
        Self { seq, kind: kind.to_owned(), of_agent: false, json, encodings: Encodings::default() }
    }

    /// Returns the event in a door's encoding. `encode` is called once for all clients.
    pub fn encoded(&self, encoding: Encoding, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.encodings.get_or_encode(encoding, encode)
    }
}

/// Events that are published together, in order, and delivered together: waking a client and writing to its socket is the
/// most expensive part of a delivery.
pub struct Batch {
    events: Box<[Arc<Published>]>,
    encodings: Encodings,
}

impl Batch {
    pub(crate) fn new(events: impl IntoIterator<Item = Arc<Published>>) -> Arc<Self> {
        Arc::new(Self { events: events.into_iter().collect(), encodings: Encodings::default() })
    }

    /// Returns the events.
    #[must_use]
    pub fn events(&self) -> &[Arc<Published>] {
        &self.events
    }

    /// Returns all events in a door's encoding, concatenated. `encode` is called once for each event, and returns none for
    /// an event that no client of the door sees.
    pub fn encoded(&self, encoding: Encoding, encode: impl Fn(&Published) -> Option<Bytes>) -> Bytes {
        let all = || joined(self.events.iter().filter_map(|event| encode(event)));
        self.encodings.get_or_encode(encoding, all)
    }
}

/// Concatenates byte strings. A single one is not copied.
pub fn joined(pieces: impl Iterator<Item = Bytes>) -> Bytes {
    let mut pieces: Vec<Bytes> = pieces.collect();
    if pieces.len() == 1 { pieces.swap_remove(0) } else { pieces.concat().into() }
}

/// Connection of one client to a session.
pub trait Port: Send + Sync {
    /// Delivers events to the client. Must not block.
    fn deliver(&self, session: &SessionId, events: &Arc<Batch>);

    /// Calls a method of the client.
    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling;
}

/// Ports of the clients that are attached to one session.
pub struct Hub {
    session: SessionId,
    state: Mutex<State>,
    /// Sequence number of the last durable event that was published or is being published. Not under the lock: ports read
    /// it while they are called with the lock held.
    head: AtomicU64,
    /// Why the session was unloaded, if it failed.
    failure: OnceLock<Failure>,
    residence: watch::Sender<Residence>,
}

/// Where the actor of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residence {
    /// It is being looked for.
    Unknown,
    /// In this server.
    Here,
    /// In another server.
    Elsewhere,
    /// Nowhere: the session was closed for all clients, or is being deleted.
    Closed,
    /// Nowhere: the session was unloaded.
    Gone,
}

#[derive(Default)]
struct State {
    ports: BTreeMap<ClientId, Arc<dyn Port>>,
    /// Parent of the next event.
    last_public: Option<EventId>,
}

impl Hub {
    pub(crate) fn new(session: SessionId) -> Self {
        let (state, head, failure) = Default::default();
        Self { session, state, head, failure, residence: watch::Sender::new(Residence::Unknown) }
    }

    /// Adds a port, or replaces the client's earlier one. Its events start with the next one.
    pub fn attach(&self, client: ClientId, port: Arc<dyn Port>) {
        self.lock().ports.insert(client, port);
    }

    /// Removes the port of a client.
    pub fn detach(&self, client: ClientId) {
        self.lock().ports.remove(&client);
    }

    /// Removes a port. A newer port of the same client stays. Returns whether it was removed.
    pub(crate) fn detach_port(&self, client: ClientId, port: &Arc<dyn Port>) -> bool {
        let mut state = self.lock();
        let is_same = |found: &Arc<dyn Port>| std::ptr::addr_eq(Arc::as_ptr(found), Arc::as_ptr(port));
        let found = state.ports.get(&client).is_some_and(is_same);
        if found {
            state.ports.remove(&client);
        }
        found
    }

    /// Whether the head is known. Before that, a port cannot tell which events precede its first one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.head() != Seq::ZERO
    }

    /// Waits until the head may be known, or the session was unloaded.
    pub async fn opened(&self) {
        let mut residence = self.residence();
        drop(residence.wait_for(|residence| *residence != Residence::Unknown).await);
    }

    /// Adds the port of another server that relays all events. `begin` is called with the head and the last public event
    /// before the first event is delivered.
    pub(crate) fn attach_tap(
        &self,
        client: ClientId,
        port: Arc<dyn Port>,
        begin: impl FnOnce(Seq, Option<EventId>),
    ) {
        let mut state = self.lock();
        begin(self.head(), state.last_public);
        state.ports.insert(client, port);
    }

    /// Subscribes to where the actor of the session is.
    pub(crate) fn residence(&self) -> watch::Receiver<Residence> {
        self.residence.subscribe()
    }

    /// Notes where the actor of the session is. A closed session stays closed.
    pub(crate) fn reside(&self, now: Residence) {
        self.residence.send_if_modified(|residence| {
            let changes = *residence != now && *residence != Residence::Closed;
            *residence = if changes { now } else { *residence };
            changes
        });
    }

    /// Delivers events that the server that holds the session has published. Those that were read from the store before
    /// are left out.
    pub(crate) fn publish_received(&self, batch: Arc<Batch>) {
        let state = self.lock();
        let head = self.head();
        let is_new = |event: &&Arc<Published>| event.seq.is_none_or(|seq| seq > head);
        let batch = match batch.events.iter().all(|event| is_new(&event)) {
            true => batch,
            false => Batch::new(batch.events.iter().filter(is_new).cloned()),
        };
        if let Some(seq) = batch.events.iter().filter_map(|event| event.seq).max() {
            self.head.store(seq.0, Ordering::Release);
        }
        if !batch.events.is_empty() {
            state.deliver(&self.session, &batch);
        }
    }

    /// Whether clients other than these are attached.
    #[must_use]
    pub fn has_others(&self, than: &[ClientId]) -> bool {
        self.lock().ports.keys().any(|client| !than.contains(client))
    }

    /// Returns the number of attached clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.lock().ports.len()
    }

    /// Returns the sequence number of the last durable event that was published or is being published.
    #[must_use]
    pub fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::Acquire))
    }

    /// Removes all ports, because the session is unloaded. Subscriptions end.
    pub(crate) fn close(&self) {
        self.lock().ports.clear();
    }

    /// Records why the session is about to be unloaded. The first failure counts.
    pub(crate) fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure);
    }

    /// Whether the session was unloaded because another server holds it now.
    pub(super) fn has_lost_its_lease(&self) -> bool {
        matches!(self.failure.get(), Some(Failure::Store(StoreError::Fenced(_))))
    }

    /// Returns the failure of asks to a session that has been unloaded: the recorded one, or "not found".
    pub(crate) fn gone(&self) -> Failure {
        self.failure.get().cloned().unwrap_or_else(|| Failure::NotFound(self.session.clone()))
    }

    /// Returns the port of a client.
    pub(crate) fn port(&self, client: ClientId) -> Option<Arc<dyn Port>> {
        self.lock().ports.get(&client).cloned()
    }

    /// Delivers an event to all clients.
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

    /// Sets the last public event and the head of a session that was just opened.
    pub(crate) fn start_after(&self, id: Option<EventId>, head: Seq) {
        self.lock().last_public = id;
        self.head.store(head.0, Ordering::Release);
    }

    /// Shows an ephemeral event to all clients, unless the work that it comes from was stopped: no client may see a delta
    /// after the event that says that the response was cancelled.
    pub(crate) fn show(&self, body: impl Into<Body>, work: &CancellationToken) {
        self.show_for(None, [body.into()], work);
    }

    /// Shows ephemeral events of the main conversation or of a sub-agent, like [`Self::show`].
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

impl Clients for Hub {
    fn call(&self, client: ClientId, method: &'static str, params: serde_json::Value) -> Calling {
        match self.port(client) {
            Some(port) => port.call(method, params),
            None => Box::pin(async { Err(CallFailed::Gone) }),
        }
    }
}

impl State {
    /// Creates an ephemeral event.
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
