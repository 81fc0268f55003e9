//! Events on their way to clients. Each is serialised once.

use std::sync::{Arc, OnceLock};

use baton_protocol::Event;
use baton_store::Seq;
use bytes::Bytes;

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
    pub fn live(event: &Event, seq: Option<Seq>, json: Bytes) -> Arc<Self> {
        let of_agent = event.agent_id.is_some();
        Arc::new(Self { of_agent, ..Self::unshared(seq, event.body.kind(), json) })
    }

    /// Creates one for an event that was received from the server that holds the session.
    pub fn received(seq: Option<Seq>, kind: &str, of_agent: bool, json: Bytes) -> Arc<Self> {
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
    /// Creates a batch.
    pub fn new(events: impl IntoIterator<Item = Arc<Published>>) -> Arc<Self> {
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
