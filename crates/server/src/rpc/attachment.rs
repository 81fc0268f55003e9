//! A client's place in a session's sequence.
//!
//! Events go out as they happen, until the client falls behind: then they are held back, and read from the store once
//! the client has caught up with what it was sent. Durable events arrive once each and in order either way. Of the
//! ephemeral ones, pieces of what is told again as a whole are left out; the others, such as the news that the session is
//! idle, are kept in their places: clients wait for them. So a client that does not read costs the server a bounded amount
//! of memory, and nobody any time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baton_protocol::SessionId;
use baton_protocol::event::is_public;
use baton_store::{Record, Seq, Span};

use super::connection::Connection;
use crate::session::{Calling, Port, Published};
use crate::wire::Closed;

const PAGE: usize = 200;

/// How many ephemeral events are kept for a client that is behind. Of more, the oldest are forgotten: what they say is
/// out of date.
const KEPT: usize = 1000;

/// One client's end of one session.
pub(super) struct Attachment {
    me: Weak<Self>,
    connection: Arc<Connection>,
    /// Whether it wants to see what sub-agents say while they say it.
    agents_live: bool,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// The last durable event that was sent on.
    delivered: Seq,
    /// Whether events are held back.
    held_back: bool,
    /// The last durable event that was held back.
    passed: Seq,
    /// Ephemeral events that were held back, each with the durable event that it comes after.
    kept: VecDeque<(Seq, Arc<Published>)>,
}

impl Place {
    /// Takes note of an event that is not sent now.
    fn hold_back(&mut self, event: &Arc<Published>) {
        match event.seq {
            Some(seq) => self.passed = seq,
            None if is_piece(&event.kind) => {}
            None => {
                self.kept.push_back((self.passed, event.clone()));
                if self.kept.len() > KEPT {
                    self.kept.pop_front();
                }
            }
        }
    }

    /// The ephemeral events whose place is here, after what has been delivered.
    fn due(&mut self) -> Vec<Arc<Published>> {
        let count = self.kept.partition_point(|(after, _)| *after <= self.delivered);
        self.kept.drain(..count).map(|(_, event)| event).collect()
    }
}

/// Whether events of this type are pieces of something that is told again as a whole.
fn is_piece(kind: &str) -> bool {
    kind.ends_with("_delta") || matches!(kind, "tool.execution_partial_result" | "tool.execution_progress")
}

impl Attachment {
    pub(super) fn new(connection: Arc<Connection>, agents_live: bool) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { me: me.clone(), connection, agents_live, place: Mutex::default() })
    }

    /// Sends what was held back, as fast as the client reads it, until there is nothing more.
    async fn catch_up(self: Arc<Self>, session: SessionId) {
        let outbox = self.connection.outbox();
        while outbox.relieved().await.is_ok() {
            let after = self.lock().delivered;
            let span = Span::After { after, limit: PAGE };
            match self.connection.server.store.read(&session, span).await {
                Ok(page) => {
                    if self.send_page(&session, page) {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "a client cannot be caught up; it has to come again");
                    return outbox.close();
                }
            }
        }
    }

    /// Sends some of what was held back. Returns whether that was all.
    fn send_page(&self, session: &SessionId, page: Vec<Record>) -> bool {
        let mut place = self.lock();
        for record in page {
            place.delivered = record.seq;
            let durable =
                is_public(&record.kind).then(|| Published::new(Some(record.seq), &record.kind, record.body));
            for event in durable.into_iter().chain(place.due()) {
                // A closed outbox ends the catching up at its next look.
                let _ = self.send(session, &event);
            }
        }
        let head =
            self.connection.server.registry.get(session).map_or(place.delivered, |handle| handle.hub.head());
        place.held_back = place.delivered < head;
        !place.held_back
    }

    fn send(&self, session: &SessionId, event: &Arc<Published>) -> Result<(), Closed> {
        match self.connection.dialect().frame(session, event) {
            Some(frame) => self.connection.push(frame),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Attachment {
    fn deliver(&self, session: &SessionId, event: &Arc<Published>) {
        if event.of_agent
            && !self.agents_live
            && (is_piece(&event.kind) || event.kind == "assistant.message_start")
        {
            return;
        }
        let mut place = self.lock();
        if event.seq.is_some_and(|seq| seq <= place.delivered) {
            return;
        }
        if place.held_back {
            return place.hold_back(event);
        }
        if self.connection.outbox().is_behind() && is_piece(&event.kind) {
            return;
        }
        if let (true, Some(seq)) = (self.connection.outbox().is_behind(), event.seq) {
            // What is ephemeral and no piece is small, and goes out; what is durable starts the catching up.
            if let Some(me) = self.me.upgrade() {
                *place =
                    Place { delivered: Seq(seq.0 - 1), held_back: true, passed: seq, ..Place::default() };
                self.connection.server.tasks.spawn(me.catch_up(session.clone()));
            }
            return;
        }
        place.delivered = event.seq.unwrap_or(place.delivered);
        let _ = self.send(session, event);
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.connection.call(method, params)
    }
}
