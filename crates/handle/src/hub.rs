//! Fan-out of a session's events to its clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_protocol::{AgentId, Author, Body, ClientId, Event, EventId, SessionId, Timestamp};
use baton_providers::{CallFailed, Calling, Clients};
use baton_store::{Seq, StoreError};
use tokio::sync::watch;
use uuid::Uuid;

use crate::failure::Failure;
use crate::published::{Batch, Published};
use crate::streams::OpenStreams;

/// Connection of one client to a session.
pub trait Port: Send + Sync {
    /// Delivers events to the client. Must not block.
    fn deliver(&self, session: &SessionId, events: &Arc<Batch>);

    /// Calls a method of the client.
    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling;

    /// Returns who reads the events, for people; none if the session knows that client, or nobody does.
    fn reader(&self) -> Option<EventReader> {
        None
    }
}

/// Who reads the events of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventReader {
    /// Its identity.
    pub user: Author,
    /// Its program, as the program calls itself.
    pub program: Option<String>,
}

/// Ports of the clients that are attached to one session. Doors attach and detach them; only the [`Publisher`](crate::Publisher)
/// delivers events.
pub struct Hub {
    pub(crate) session: SessionId,
    state: Mutex<State>,
    /// Sequence number of the last durable event that was published or is being published. Not under the lock: ports read
    /// it while they are called with the lock held.
    pub(crate) head: AtomicU64,
    /// Why the session was unloaded, if it failed.
    pub(crate) failure: OnceLock<Failure>,
    pub(crate) residence: watch::Sender<Residence>,
}

/// Where the actor of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
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

/// Attached clients, and where their next event belongs.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) ports: BTreeMap<ClientId, Arc<dyn Port>>,
    /// Parent of the next event.
    pub(crate) last_public: Option<EventId>,
    /// Text that is being streamed.
    pub(crate) streams: OpenStreams,
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
    pub fn detach_port(&self, client: ClientId, port: &Arc<dyn Port>) -> bool {
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
    pub fn attach_tap(
        &self,
        client: ClientId,
        port: Arc<dyn Port>,
        begin: impl FnOnce(Seq, Option<EventId>),
    ) {
        let mut state = self.lock();
        begin(self.head(), state.last_public);
        let so_far = state.streams_so_far();
        if !so_far.is_empty() {
            port.deliver(&self.session, &Batch::new(so_far));
        }
        state.ports.insert(client, port);
    }

    /// Calls `act` while no event is published, with the head, and with events that repeat the text that is being streamed.
    pub fn between_events<T>(&self, act: impl FnOnce(Seq, &[Arc<Published>]) -> T) -> T {
        let state = self.lock();
        act(self.head(), &state.streams_so_far())
    }

    /// Whether the actor of the session is in this server.
    pub fn is_here(&self) -> bool {
        *self.residence.borrow() == Residence::Here
    }

    /// Whether the actor of the session is in another server.
    pub fn is_elsewhere(&self) -> bool {
        *self.residence.borrow() == Residence::Elsewhere
    }

    /// Subscribes to where the actor of the session is.
    pub fn residence(&self) -> watch::Receiver<Residence> {
        self.residence.subscribe()
    }

    /// Whether clients other than these are attached.
    #[must_use]
    pub fn has_others(&self, than: &[ClientId]) -> bool {
        self.lock().ports.keys().any(|client| !than.contains(client))
    }

    /// Returns who reads the events beside the clients that the session knows.
    #[must_use]
    pub fn readers(&self) -> Vec<EventReader> {
        self.lock().ports.values().filter_map(|port| port.reader()).collect()
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

    /// Whether the session was unloaded because another server holds it now.
    pub fn has_lost_its_lease(&self) -> bool {
        matches!(self.failure.get(), Some(Failure::Store(StoreError::Fenced(_))))
    }

    /// Returns the failure of asks to a session that has been unloaded: the recorded one, or "not found".
    pub fn gone(&self) -> Failure {
        self.failure.get().cloned().unwrap_or_else(|| Failure::NotFound(self.session.clone()))
    }

    /// Returns the port of a client.
    pub fn port(&self, client: ClientId) -> Option<Arc<dyn Port>> {
        self.lock().ports.get(&client).cloned()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
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
    pub(crate) fn ephemeral(&self, agent: Option<&AgentId>, body: Body) -> Option<Arc<Published>> {
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

    fn streams_so_far(&self) -> Vec<Arc<Published>> {
        self.streams.so_far().filter_map(|(agent, body)| self.ephemeral(agent, body)).collect()
    }

    pub(crate) fn deliver(&self, session: &SessionId, events: &Arc<Batch>) {
        for port in self.ports.values() {
            port.deliver(session, events);
        }
    }
}
