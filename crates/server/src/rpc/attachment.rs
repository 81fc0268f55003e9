//! A client's place in a session's sequence.
//!
//! Events go out as they happen, until the client falls behind: then they are held back, and read from the store once
//! the client has caught up with what it was sent. Durable events arrive once each and in order either way; ephemeral ones
//! are not repeated. So a client that does not read costs the server a bounded amount of memory, and nobody any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baton_protocol::SessionId;
use baton_protocol::event::is_public;
use baton_store::{Record, Seq, Span};

use super::connection::Connection;
use crate::session::{Calling, Port, Published};
use crate::wire::Closed;

const PAGE: usize = 200;

/// One client's end of one session.
pub(super) struct Attachment {
    me: Weak<Self>,
    connection: Arc<Connection>,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// The last durable event that was sent on.
    delivered: Seq,
    /// Whether events are held back.
    held_back: bool,
}

impl Attachment {
    pub(super) fn new(connection: Arc<Connection>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { me: me.clone(), connection, place: Mutex::default() })
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
            if is_public(&record.kind) {
                let event = Published::new(Some(record.seq), &record.kind, record.body);
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
        let mut place = self.lock();
        if place.held_back || event.seq.is_some_and(|seq| seq <= place.delivered) {
            return;
        }
        if self.connection.outbox().is_behind() {
            // Ephemeral events are simply left out; the first durable one starts the catching up.
            if let (Some(seq), Some(me)) = (event.seq, self.me.upgrade()) {
                *place = Place { delivered: Seq(seq.0 - 1), held_back: true };
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
