//! The session's own end of its [`Hub`].

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_protocol::{AgentId, Body, Event, EventId, SessionId};
use baton_store::Seq;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::hub::{Hub, Residence};
use crate::published::{Batch, Published};

/// Publishes the events of one session, and says where its actor is. The actor or edge of the session has it, and so
/// does the session's work; a door has the [`Hub`] of a [`Handle`](crate::Handle) only. Cheap to clone.
#[derive(Clone)]
pub struct Publisher(Arc<Hub>);

impl Deref for Publisher {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.0
    }
}

impl Publisher {
    /// Creates the hub of a session that is about to be opened or created.
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self(Arc::new(Hub::new(session)))
    }

    /// Returns the hub, for handles.
    #[must_use]
    pub fn hub(&self) -> Arc<Hub> {
        self.0.clone()
    }

    /// Notes where the actor of the session is. A closed session stays closed.
    pub fn reside(&self, now: Residence) {
        self.residence.send_if_modified(|residence| {
            let changes = *residence != now && *residence != Residence::Closed;
            *residence = if changes { now } else { *residence };
            changes
        });
    }

    /// Delivers events that the server that holds the session has published. Those that were read from the store before
    /// are left out.
    pub fn publish_received(&self, batch: Arc<Batch>) {
        let mut state = self.lock();
        batch.events().iter().for_each(|event| state.streams.apply_received(event));
        let head = self.head();
        let is_new = |event: &&Arc<Published>| event.seq.is_none_or(|seq| seq > head);
        let batch = match batch.events().iter().all(|event| is_new(&event)) {
            true => batch,
            false => Batch::new(batch.events().iter().filter(is_new).cloned()),
        };
        if let Some(seq) = batch.events().iter().filter_map(|event| event.seq).max() {
            self.head.store(seq.0, Ordering::Release);
        }
        if !batch.events().is_empty() {
            state.deliver(&self.session, &batch);
        }
    }

    /// Removes all ports, because the session is unloaded. Subscriptions end.
    pub fn close(&self) {
        self.lock().ports.clear();
    }

    /// Records why the session is about to be unloaded. The first failure counts.
    pub fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure);
    }

    /// Delivers an event to all clients.
    pub fn publish(&self, event: &Event, published: Arc<Published>) {
        let mut state = self.lock();
        if !event.ephemeral && event.body.is_public() {
            state.last_public = Some(event.id);
        }
        state.streams.apply(event.agent_id.as_ref(), &event.body);
        if let Some(seq) = published.seq {
            self.head.store(seq.0, Ordering::Release);
        }
        state.deliver(&self.session, &Batch::new([published]));
    }

    /// Sets the last public event and the head of a session that was just opened.
    pub fn start_after(&self, id: Option<EventId>, head: Seq) {
        self.lock().last_public = id;
        self.head.store(head.0, Ordering::Release);
    }

    /// Shows an ephemeral event to all clients, unless the work that it comes from was stopped: no client may see a delta
    /// after the event that says that the response was cancelled.
    pub fn show(&self, body: impl Into<Body>, work: &CancellationToken) {
        self.show_for(None, [body.into()], work);
    }

    /// Shows ephemeral events of the main conversation or of a sub-agent, like [`Self::show`].
    pub fn show_for(
        &self,
        agent: Option<&AgentId>,
        bodies: impl IntoIterator<Item = Body>,
        work: &CancellationToken,
    ) {
        let mut state = self.lock();
        if work.is_cancelled() {
            return;
        }
        let bodies: Vec<Body> = bodies.into_iter().collect();
        bodies.iter().for_each(|body| state.streams.apply(agent, body));
        if state.ports.is_empty() {
            return;
        }
        let shown = bodies.into_iter().filter_map(|body| state.ephemeral(agent, body));
        state.deliver(&self.session, &Batch::new(shown));
    }
}
