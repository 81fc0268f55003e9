//! Subscribers: the cursor of one client in a session's events.
//!
//! Live events are sent as they happen, until the client falls behind. Then they are held back, and read from the store
//! once the client has read its outbox. In both cases it receives each durable event once and in order. Of the ephemeral
//! events that are held back, deltas and progress are dropped, because a later event has the whole; the others, such as
//! `session.idle`, are queued with their position, because clients wait for them. A client that does not read therefore
//! costs the server a bounded amount of memory, and delays no other client.
//!
//! All doors whose clients receive every event use subscribers. The door encodes events and calls the client: see
//! [`Recipient`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use baton_protocol::SessionId;
use baton_runtime::Runtime;
use baton_runtime::session::{Batch, Calling, Port, Published, joined};
use baton_store::{Page, Seq, Span, StoreError};
use bytes::Bytes;
use tokio::sync::Mutex as AsyncMutex;

use super::{Closed, Outbox};

/// Number of events that are read from the store at once.
const PAGE: usize = 200;

/// Size of the events that are read from the store at once, in bytes. They are queued for the client, however slowly it reads.
const PAGE_BYTES: usize = 1 << 20;

/// Maximum number of ephemeral events that are queued for a client that is behind. The oldest are dropped first: they are
/// out of date.
const MAX_EPHEMERAL: usize = 1000;

/// Connection of a client, as a subscriber needs it.
pub trait Recipient: Send + Sync + 'static {
    /// Returns the outbox of the connection.
    fn outbox(&self) -> &Outbox;

    /// Sends bytes after all earlier ones.
    ///
    /// # Errors
    /// When the outbox is closed.
    fn push(&self, bytes: Bytes) -> Result<(), Closed> {
        self.outbox().push(bytes)
    }

    /// Whether the client receives a live event.
    fn wants(&self, _: &Published) -> bool {
        true
    }

    /// Encodes an event for the client; none if the client does not receive such events.
    fn encode(&self, session: &SessionId, event: &Published) -> Option<Bytes>;

    /// Returns the encoding of a batch that most clients share, made once for all of them; none if the client needs another
    /// encoding.
    fn encode_shared(&self, session: &SessionId, events: &Batch) -> Option<Bytes>;

    /// Calls the client.
    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling;
}

/// Where subscribers read the events that they have missed. Opaque: a door that has it can do nothing else with the runtime.
#[derive(Clone)]
pub struct EventSource(Arc<Runtime>);

impl EventSource {
    /// Creates the source of a runtime's sessions.
    #[must_use]
    pub fn of(runtime: &Arc<Runtime>) -> Self {
        Self(runtime.clone())
    }
}

/// A client's subscription to one session.
pub struct Subscriber<R> {
    me: Weak<Self>,
    source: EventSource,
    recipient: R,
    cursor: Mutex<Cursor>,
    /// Held while the store is read for the client.
    catching_up: AsyncMutex<()>,
}

#[derive(Default)]
struct Cursor {
    /// The last durable event that was sent.
    delivered: Seq,
    /// Whether events are held back.
    held_back: bool,
    /// The last durable event that was held back.
    held_back_to: Seq,
    /// Ephemeral events that were held back, each with the durable event that it follows.
    ephemeral: VecDeque<(Seq, Arc<Published>)>,
}

impl Cursor {
    /// Holds an event back.
    fn hold_back(&mut self, event: &Arc<Published>) {
        match event.seq {
            Some(seq) => self.held_back_to = seq,
            None if is_delta(&event.kind) => {}
            None => {
                self.ephemeral.push_back((self.held_back_to, event.clone()));
                if self.ephemeral.len() > MAX_EPHEMERAL {
                    self.ephemeral.pop_front();
                }
            }
        }
    }

    /// Removes and returns the ephemeral events that follow the last delivered event.
    fn due(&mut self) -> Vec<Arc<Published>> {
        let count = self.ephemeral.partition_point(|(after, _)| *after <= self.delivered);
        self.ephemeral.drain(..count).map(|(_, event)| event).collect()
    }
}

/// Whether events of this type are deltas or progress, whose whole a later event contains.
pub fn is_delta(kind: &str) -> bool {
    kind.ends_with("_delta")
        || matches!(kind, "tool.execution_partial_result" | "tool.execution_progress" | "baton.stream_so_far")
}

impl<R: Recipient> Subscriber<R> {
    /// Subscribes to events from now on.
    pub fn from_now(source: EventSource, recipient: R) -> Arc<Self> {
        Self::new(source, recipient, Cursor::default())
    }

    /// Subscribes to events after `seen`. They are held back until [`Self::catch_up`].
    pub fn from(source: EventSource, recipient: R, seen: Seq) -> Arc<Self> {
        let cursor = Cursor { delivered: seen, held_back: true, held_back_to: seen, ..Cursor::default() };
        Self::new(source, recipient, cursor)
    }

    fn new(source: EventSource, recipient: R, cursor: Cursor) -> Arc<Self> {
        let (cursor, catching_up) = (Mutex::new(cursor), AsyncMutex::default());
        Arc::new_cyclic(|me| Self { me: me.clone(), source, recipient, cursor, catching_up })
    }

    /// Holds back live events until [`Self::catch_up`]. `head` is the head of the session.
    pub fn hold_back(&self, head: Seq) {
        let mut cursor = self.lock();
        cursor.held_back = true;
        cursor.held_back_to = cursor.held_back_to.max(head);
    }

    /// Sends the events that were held back, as fast as the client reads them.
    ///
    /// # Errors
    /// When the outbox is closed, or the store cannot be read, which closes it.
    pub async fn catch_up(&self, session: &SessionId) -> Result<(), Closed> {
        let _alone = self.catching_up.lock().await;
        let outbox = self.recipient.outbox();
        loop {
            outbox.relieved().await?;
            let after = self.lock().delivered;
            let span = Span::After { after, limit: PAGE };
            match self.source.0.store.read_page(session, span, PAGE_BYTES).await {
                Ok(page) => {
                    if self.send_page(session, page) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    match error {
                        StoreError::NotFound(_) => {
                            tracing::debug!(%session, "session was deleted; closing client connection");
                        }
                        error => {
                            tracing::warn!(%session, %error, "replay failed; closing client connection");
                        }
                    }
                    outbox.close();
                    return Err(Closed);
                }
            }
        }
    }

    /// Sends a page of events that were held back. Returns whether it was the last one.
    fn send_page(&self, session: &SessionId, page: Page) -> bool {
        let mut cursor = self.lock();
        let is_last = !page.is_cut && page.records.len() < PAGE;
        for record in page.records {
            cursor.delivered = record.seq;
            self.send(session, &Published::new(Some(record.seq), &record.kind, record.body));
            cursor.due().iter().for_each(|event| self.send(session, event));
        }
        drop(cursor);
        is_last
            && match self.source.0.registry.get(session) {
                Some(handle) => handle.hub.between_events(|head, so_far| self.go_live(session, head, so_far)),
                None => self.go_live(session, Seq::ZERO, &[]),
            }
    }

    /// Holds events back no longer, unless there are newer ones in the store; `head` is the last of them. Called while no event
    /// is published, so that the client gets each delta either as a part of `so_far` or by itself.
    fn go_live(&self, session: &SessionId, head: Seq, so_far: &[Arc<Published>]) -> bool {
        let mut cursor = self.lock();
        cursor.held_back = cursor.delivered < head;
        if !cursor.held_back {
            cursor.due().iter().chain(so_far).for_each(|event| self.send(session, event));
        }
        !cursor.held_back
    }

    /// Sends an event. A closed outbox is noticed by the next step of [`Self::catch_up`].
    fn send(&self, session: &SessionId, event: &Published) {
        if let Some(bytes) = self.recipient.encode(session, event) {
            let _ = self.recipient.push(bytes);
        }
    }

    /// Whether a live event is sent now; otherwise it is held back, or the client does not receive it.
    fn is_due(
        &self,
        cursor: &mut Cursor,
        session: &SessionId,
        event: &Arc<Published>,
        is_behind: bool,
    ) -> bool {
        if !self.recipient.wants(event) || event.seq.is_some_and(|seq| seq <= cursor.delivered) {
            return false;
        }
        if cursor.held_back {
            cursor.hold_back(event);
            return false;
        }
        if is_behind {
            if let (Some(seq), Some(me)) = (event.seq, self.me.upgrade()) {
                let (delivered, held_back_to) = (Seq(seq.0 - 1), seq);
                *cursor = Cursor { delivered, held_back: true, held_back_to, ..Cursor::default() };
                let session = session.clone();
                self.source.0.tasks.spawn(async move { me.catch_up(&session).await });
            }
            // A durable event starts the catch-up. Ephemeral events other than deltas are small, and are sent.
            return event.seq.is_none() && !is_delta(&event.kind);
        }
        cursor.delivered = event.seq.unwrap_or(cursor.delivered);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Recipient> Port for Subscriber<R> {
    fn deliver(&self, session: &SessionId, batch: &Arc<Batch>) {
        let mut cursor = self.lock();
        let is_behind = self.recipient.outbox().is_behind();
        let events = batch.events().iter();
        let due: Vec<_> =
            events.filter(|event| self.is_due(&mut cursor, session, event, is_behind)).collect();
        let all = due.len() == batch.events().len();
        // Usually all clients receive the whole batch in the same encoding, which is then made once.
        let bytes = all.then(|| self.recipient.encode_shared(session, batch)).flatten();
        let bytes = bytes.unwrap_or_else(|| {
            joined(due.into_iter().filter_map(|event| self.recipient.encode(session, event)))
        });
        if !bytes.is_empty() {
            let _ = self.recipient.push(bytes);
        }
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        self.recipient.call(method, params)
    }
}
