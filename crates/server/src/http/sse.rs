//! A session's events as a stream that misses nothing.
//!
//! Durable events carry their place in the sequence as the stream's event id, so that a browser that reconnects says where
//! it was (`Last-Event-ID`) and gets each event once. Ephemeral events carry none. A reader that falls behind is served
//! from the store until it has caught up: it costs a bounded queue, and nobody else anything.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::SessionId;
use baton_store::{Record, Seq, Span};
use bytes::Bytes;

use super::Shared;
use super::ear::{Heard, Hearing, ear};
use crate::session::{Handle, Published};

/// How many events may wait for a reader before it is served from the store.
const QUEUE: usize = 128;
const PAGE: usize = 200;
/// How often a quiet stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often to look for news of a session that is not in memory.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An attachment to a live session that ends with the stream.
struct Listening {
    handle: Handle,
    client: baton_protocol::ClientId,
    hearing: Hearing,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.handle.hub.detach(self.client);
    }
}

/// One reader's stream.
pub(crate) struct EventStream {
    door: Shared,
    session: SessionId,
    /// The last durable event that was handed on.
    cursor: Seq,
    /// What is to be handed on next.
    ready: VecDeque<Bytes>,
    listening: Option<Listening>,
    /// Whether the store has to be read before anything else.
    behind: bool,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl EventStream {
    pub(crate) fn new(
        door: &Shared,
        session: SessionId,
        after: Seq,
        place: tokio::sync::OwnedSemaphorePermit,
    ) -> Self {
        door.metrics.streams.fetch_add(1, Ordering::Relaxed);
        Self {
            door: door.clone(),
            session,
            cursor: after,
            ready: VecDeque::new(),
            listening: None,
            behind: true,
            _place: place,
        }
    }

    /// The next piece of the stream; none when the session is gone or the server stops.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            self.listen();
            if self.behind {
                self.read_store().await?;
                continue;
            }
            let stopping = self.door.server.stopping.clone();
            tokio::select! {
                () = stopping.cancelled() => return None,
                () = wait(self.listening.as_mut(), &mut self.ready, &mut self.cursor, &mut self.behind) => {}
            }
        }
    }

    /// Attaches to the session if it is in memory, before the store is read: what happens in between is heard.
    fn listen(&mut self) {
        let live = self.door.server.registry.get(&self.session);
        let stale =
            self.listening.as_ref().is_some_and(|l| live.as_ref().is_none_or(|h| !h.is_same(&l.handle)));
        if stale {
            self.listening = None;
        }
        let (None, Some(handle)) = (&self.listening, live) else { return };
        let (client, (ear, hearing)) = (self.door.server.new_client(), ear(QUEUE));
        handle.hub.attach(client, ear);
        self.listening = Some(Listening { handle, client, hearing });
        self.behind = true;
    }

    async fn read_store(&mut self) -> Option<()> {
        let span = Span::After { after: self.cursor, limit: PAGE };
        let page = self.door.server.store.read(&self.session, span).await.ok()?;
        self.behind = page.len() == PAGE;
        for record in page {
            self.cursor = record.seq;
            self.ready.push_back(piece_of(&record));
        }
        Some(())
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.door.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for news, or for the time to say that we live.
async fn wait(
    listening: Option<&mut Listening>,
    ready: &mut VecDeque<Bytes>,
    cursor: &mut Seq,
    behind: &mut bool,
) {
    let Some(listening) = listening else {
        tokio::time::sleep(LOOK_AGAIN).await;
        *behind = true;
        return;
    };
    let heard = tokio::select! {
        heard = listening.hearing.next() => heard,
        () = tokio::time::sleep(HEARTBEAT) => {
            ready.push_back(Bytes::from_static(b": still here\n\n"));
            return;
        }
    };
    let Heard::Event(event) = heard else {
        *behind = true;
        return;
    };
    match event.seq {
        Some(seq) if seq <= *cursor => {}
        // Something before this one was left out: the store has it, and this one too.
        Some(seq) if seq.0 != cursor.0 + 1 => *behind = true,
        Some(seq) => {
            *cursor = seq;
            ready.push_back(event.sse_piece());
        }
        None => ready.push_back(event.sse_piece()),
    }
}

fn piece_of(record: &Record) -> Bytes {
    Published::new(Some(record.seq), &record.kind, record.body.clone()).sse_piece()
}
