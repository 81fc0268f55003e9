//! A client's place in a session's sequence.
//!
//! Events go out as they happen, until the client falls behind: then they are held back, and read from the store once
//! the client has caught up with what it was sent. Durable events arrive once each and in order either way. Of the
//! ephemeral ones, pieces of what is told again as a whole are left out; the others, such as the news that the session is
//! idle, are kept in their places: clients wait for them. So a client that does not read costs the server a bounded amount
//! of memory, and nobody any time.
//!
//! All doors whose clients see every event follow sessions in this way. In which words they are told, and how they are
//! asked something, is the door's affair: see [`Recipient`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baton_protocol::SessionId;
use baton_store::{Record, Seq, Span};
use bytes::Bytes;
use tokio::sync::Mutex as AsyncMutex;

use super::hub::{Batch, Calling, Port, Published, joined};
use crate::Server;
use crate::wire::{Closed, Outbox};

const PAGE: usize = 200;

/// How many ephemeral events are kept for a client that is behind. Of more, the oldest are forgotten: what they say is
/// out of date.
const KEPT: usize = 1000;

/// Who is told.
pub(crate) trait Recipient: Send + Sync + 'static {
    /// Where what is sent waits to be read.
    fn outbox(&self) -> &Outbox;

    /// Sends something after all that was sent before.
    fn push(&self, bytes: Bytes) -> Result<(), Closed> {
        self.outbox().push(bytes)
    }

    /// Whether something that happens now is of use to it.
    fn wants(&self, _: &Published) -> bool {
        true
    }

    /// An event in its words; none if it has no words for it.
    fn words(&self, session: &SessionId, event: &Published) -> Option<Bytes>;

    /// Events in the words of nearly everybody, made once for all of them; none if its own are others.
    fn common_words(&self, session: &SessionId, events: &Batch) -> Option<Bytes>;

    /// Asks the client something that it answers directly.
    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling;
}

/// One client that follows one session.
pub(crate) struct Follower<R> {
    me: Weak<Self>,
    server: Arc<Server>,
    recipient: R,
    place: Mutex<Place>,
    /// Held by whoever reads the store for it.
    catching_up: AsyncMutex<()>,
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
pub(crate) fn is_piece(kind: &str) -> bool {
    kind.ends_with("_delta") || matches!(kind, "tool.execution_partial_result" | "tool.execution_progress")
}

impl<R: Recipient> Follower<R> {
    /// Somebody who wants to hear what happens from now on.
    pub(crate) fn from_now(server: &Arc<Server>, recipient: R) -> Arc<Self> {
        Self::new(server, recipient, Place::default())
    }

    /// Somebody who has seen everything up to a place. What comes after it is held back until [`Self::catch_up`].
    pub(crate) fn from(server: &Arc<Server>, recipient: R, seen: Seq) -> Arc<Self> {
        let place = Place { delivered: seen, held_back: true, passed: seen, ..Place::default() };
        Self::new(server, recipient, place)
    }

    fn new(server: &Arc<Server>, recipient: R, place: Place) -> Arc<Self> {
        let (server, place, catching_up) = (server.clone(), Mutex::new(place), AsyncMutex::default());
        Arc::new_cyclic(|me| Self { me: me.clone(), server, recipient, place, catching_up })
    }

    /// Holds back what happens, up to the place where a session stands, until it is caught up with.
    pub(crate) fn hold_back(&self, head: Seq) {
        let mut place = self.lock();
        place.held_back = true;
        place.passed = place.passed.max(head);
    }

    /// Sends what was held back, as fast as the client reads it, until there is nothing more. `Err` when nothing can be
    /// sent any more.
    pub(crate) async fn catch_up(&self, session: &SessionId) -> Result<(), Closed> {
        let _alone = self.catching_up.lock().await;
        let outbox = self.recipient.outbox();
        loop {
            outbox.relieved().await?;
            let after = self.lock().delivered;
            match self.server.store.read(session, Span::After { after, limit: PAGE }).await {
                Ok(page) => {
                    if self.send_page(session, page) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "a client cannot be caught up; it has to come again");
                    outbox.close();
                    return Err(Closed);
                }
            }
        }
    }

    /// Sends some of what was held back. Returns whether that was all.
    fn send_page(&self, session: &SessionId, page: Vec<Record>) -> bool {
        let mut place = self.lock();
        let is_last = page.len() < PAGE;
        for record in page {
            place.delivered = record.seq;
            self.send(session, &Published::new(Some(record.seq), &record.kind, record.body));
            place.due().iter().for_each(|event| self.send(session, event));
        }
        let head = self.server.registry.get(session).map_or(place.delivered, |handle| handle.hub.head());
        place.held_back = !is_last || place.delivered < head;
        if !place.held_back {
            place.due().iter().for_each(|event| self.send(session, event));
        }
        !place.held_back
    }

    /// A closed outbox ends the catching up at its next look.
    fn send(&self, session: &SessionId, event: &Published) {
        if let Some(words) = self.recipient.words(session, event) {
            let _ = self.recipient.push(words);
        }
    }

    /// Whether an event goes out now. One that does not is held back, or of no use to this client.
    fn is_due(
        &self,
        place: &mut Place,
        session: &SessionId,
        event: &Arc<Published>,
        is_behind: bool,
    ) -> bool {
        if !self.recipient.wants(event) || event.seq.is_some_and(|seq| seq <= place.delivered) {
            return false;
        }
        if place.held_back {
            place.hold_back(event);
            return false;
        }
        if is_behind {
            if let (Some(seq), Some(me)) = (event.seq, self.me.upgrade()) {
                *place =
                    Place { delivered: Seq(seq.0 - 1), held_back: true, passed: seq, ..Place::default() };
                let session = session.clone();
                self.server.tasks.spawn(async move { me.catch_up(&session).await });
            }
            // What is durable starts the catching up; what is ephemeral and no piece is small, and goes out.
            return event.seq.is_none() && !is_piece(&event.kind);
        }
        place.delivered = event.seq.unwrap_or(place.delivered);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Recipient> Port for Follower<R> {
    fn deliver(&self, session: &SessionId, batch: &Arc<Batch>) {
        let mut place = self.lock();
        let is_behind = self.recipient.outbox().is_behind();
        let events = batch.events().iter();
        let due: Vec<_> = events.filter(|event| self.is_due(&mut place, session, event, is_behind)).collect();
        let all = due.len() == batch.events().len();
        // Nearly always, everything goes to everybody in the same words, and has been put into them once.
        let words = all.then(|| self.recipient.common_words(session, batch)).flatten();
        let words = words.unwrap_or_else(|| {
            joined(due.into_iter().filter_map(|event| self.recipient.words(session, event)))
        });
        if !words.is_empty() {
            let _ = self.recipient.push(words);
        }
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.recipient.call(method, params)
    }
}
