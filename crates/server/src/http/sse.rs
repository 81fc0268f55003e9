//! A session's events as a stream that misses nothing.
//!
//! Durable events carry their place in the sequence as the stream's event id, so that a browser that reconnects says where
//! it was (`Last-Event-ID`) and gets each event once. Ephemeral events carry none. A reader that falls behind is served
//! from the store until it has caught up: it costs a bounded queue, and nobody else anything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::SessionId;
use baton_store::{Record, Seq, Span};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Shared;
use super::ear::{Heard, Hearing, ear};
use crate::session::{Handle, Published};

/// How many events may wait for a reader before it is served from the store.
const QUEUE: usize = 128;
const PAGE: usize = 200;
/// How often a stream says that it lives. Whoever hears nothing for longer knows that the connection is dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often to look for news of a session that is not in memory here: another server may have it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
    heartbeat: Interval,
    /// Changes whenever a session comes into memory.
    arrivals: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    pub(crate) fn new(door: &Shared, session: SessionId, after: Seq, place: OwnedSemaphorePermit) -> Self {
        door.metrics.streams.fetch_add(1, Ordering::Relaxed);
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            door: door.clone(),
            session,
            cursor: after,
            // Said at once, so that the reader knows that it is connected, however quiet the session.
            ready: VecDeque::from([Bytes::from_static(b": connected\n\n")]),
            listening: None,
            behind: true,
            heartbeat,
            arrivals: door.server.registry.arrivals(),
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
                () = self.wait() => {}
            }
        }
    }

    /// Attaches to the session if it is in memory, before the store is read: what happens in between is heard.
    fn listen(&mut self) {
        if self.listening.is_some() {
            return;
        }
        let Some(handle) = self.door.server.registry.get(&self.session) else { return };
        let (client, (ear, hearing)) = (self.door.server.new_client(), ear(QUEUE, handle.hub.head()));
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

    /// Waits for news, or for the time to say that we live.
    async fn wait(&mut self) {
        tokio::select! {
            biased;
            heard = hear(&mut self.listening) => self.take(heard),
            _ = self.arrivals.changed(), if self.listening.is_none() => {}
            () = tokio::time::sleep(LOOK_AGAIN), if self.listening.is_none() => self.behind = true,
            _ = self.heartbeat.tick() => {
                self.ready.push_back(Bytes::from_static(b": still here\n\n"));
                self.notice_sudden_death();
            }
        }
    }

    /// A session that died without a word leaves us listening to nobody, while its successor speaks.
    fn notice_sudden_death(&mut self) {
        let live = self.door.server.registry.get(&self.session);
        self.listening.take_if(|l| live.is_none_or(|handle| !handle.is_same(&l.handle)));
    }

    fn take(&mut self, heard: Heard) {
        let (event, place) = match heard {
            Heard::Event(event, place) => (event, place),
            Heard::Missed => return self.behind = true,
            Heard::Silence => return self.listening = None,
        };
        self.hand_on(&event, place);
    }

    fn hand_on(&mut self, event: &Arc<Published>, place: Seq) {
        match event.seq {
            Some(seq) if seq <= self.cursor => {}
            // Something before this one was left out: the store has it, and this one too.
            Some(seq) if seq.0 != self.cursor.0 + 1 => self.behind = true,
            Some(seq) => {
                self.cursor = seq;
                self.ready.push_back(event.sse_piece());
            }
            None if place < self.cursor => {}
            None => self.ready.push_back(event.sse_piece()),
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.door.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn hear(listening: &mut Option<Listening>) -> Heard {
    match listening {
        Some(listening) => listening.hearing.next().await,
        None => std::future::pending().await,
    }
}

fn piece_of(record: &Record) -> Bytes {
    Published::new(Some(record.seq), &record.kind, record.body.clone()).sse_piece()
}
