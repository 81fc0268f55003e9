//! Tunnel: transport of model requests through a client, for example into its own network, or to a mock.
//!
//! Requests are calls to the client, and the parts of responses are calls of the client. There is one tunnel for the whole
//! server: it also serves sessions that other clients resume. When its client disconnects, requests fail until a client
//! offers a tunnel again. They never fall back to the network: the tunnel was chosen for a reason.
//!
//! The client can be connected to another server than the one that holds a session. That server offers its tunnel for the
//! sessions of its clients ([`relay`]), and such an offer takes precedence over the tunnel of the holder itself: it was made
//! for the session.

mod relay;
mod request;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_model::catalog::Catalog;
use baton_model::http::Transport;
use baton_protocol::{ClientId, SessionId};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use self::request::TunnelTransport;
use crate::{Calling, ModelCaller};

pub use self::relay::{EdgeOffer, RelayedPart, Relays};

/// Method that announces a request to the client.
pub(super) const START: &str = "llmInference.httpRequestStart";

/// Method that sends the client a part of a request, or cancels it.
pub(super) const CHUNK: &str = "llmInference.httpRequestChunk";

/// Function that calls the client.
pub type ClientCall = Arc<dyn Fn(&'static str, Value) -> Calling + Send + Sync>;

/// Part of a response, sent by the client.
#[derive(Debug)]
pub enum ResponsePart {
    /// Status and headers.
    Head {
        /// HTTP status.
        status: u16,
        /// Header fields.
        headers: Vec<(String, String)>,
    },
    /// Part of the body; on a WebSocket, a message.
    Data(Bytes),
    /// The end of the body.
    End,
    /// The request failed.
    Failed(String),
}

/// Transport of model requests through a client.
#[derive(Default)]
pub struct Tunnel {
    state: Mutex<State>,
    /// Whether a client of this server has registered.
    is_offered: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// The client of this server.
    client: Option<Carrier>,
    /// Other servers whose clients carry the requests of a session. The last one counts.
    edges: HashMap<SessionId, Vec<Carrier>>,
    last_number: u64,
    /// Running requests.
    pending: HashMap<String, CarriedRequest>,
}

/// Where requests go: a client of this server, or another server that relays them.
#[derive(Clone)]
struct Carrier {
    id: CarrierId,
    call: ClientCall,
    /// Model lists that came through another server. They are not shared with sessions that it has not joined.
    catalog: Option<Arc<Catalog>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CarrierId {
    Client(ClientId),
    Edge(u64),
}

/// A request that has no complete response yet.
struct CarriedRequest {
    carrier: CarrierId,
    /// Delivers a part of the response. Returns whether a request still waits for it.
    deliver: Box<dyn Fn(ResponsePart) -> bool + Send>,
    /// Set for a request of another server.
    relayed: Option<Relayed>,
}

/// A request that this server relays.
struct Relayed {
    relays: u64,
    /// Calls the client that the request was announced to.
    call: ClientCall,
}

impl Tunnel {
    /// Registers a client as the end of the tunnel. It replaces an earlier one.
    pub fn offer(&self, client: ClientId, call: ClientCall) {
        self.lock().client = Some(Carrier { id: CarrierId::Client(client), call, catalog: None });
        self.is_offered.send_replace(true);
    }

    /// Subscribes to whether a client of this server has registered.
    pub fn offered(&self) -> watch::Receiver<bool> {
        self.is_offered.subscribe()
    }

    /// Returns whether requests of a session, or those without a session, go through the tunnel.
    pub fn is_open(&self, session: Option<&SessionId>) -> bool {
        self.lock().carrier(session).is_some()
    }

    /// Accepts a part of a response from a client of this server. Returns whether the request is running.
    pub fn take(&self, client: ClientId, request: &str, part: ResponsePart) -> bool {
        self.lock().take(CarrierId::Client(client), request, part)
    }

    /// Fails the running requests of a client that disconnected.
    pub fn forget(&self, client: ClientId) {
        self.lock().fail_all(CarrierId::Client(client));
    }

    /// Returns the transport for the requests of a conversation.
    pub(super) fn transport(self: &Arc<Self>, caller: &ModelCaller<'_>) -> Option<Arc<dyn Transport>> {
        self.is_open(Some(caller.session)).then(|| TunnelTransport::of_conversation(self, caller))
    }

    /// Returns the transport for requests that name no session, but are made for one.
    pub(super) fn anonymous_transport(
        self: &Arc<Self>,
        session: Option<&SessionId>,
    ) -> Option<Arc<dyn Transport>> {
        self.is_open(session).then(|| TunnelTransport::anonymous(self, session))
    }

    /// Returns the model lists of a session whose requests another server carries.
    pub(super) fn catalog(&self, session: &SessionId) -> Option<Arc<Catalog>> {
        self.lock().carrier(Some(session))?.catalog
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn carrier(&self, session: Option<&SessionId>) -> Option<Carrier> {
        let edge = session.and_then(|session| self.edges.get(session)?.last());
        edge.or(self.client.as_ref()).cloned()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn take(&mut self, from: CarrierId, request: &str, part: ResponsePart) -> bool {
        let Some(pending) = self.pending.get(request).filter(|pending| pending.carrier == from) else {
            return false;
        };
        let is_last = matches!(part, ResponsePart::End | ResponsePart::Failed(_));
        let accepted = (pending.deliver)(part);
        if is_last || !accepted {
            self.pending.remove(request);
        }
        accepted
    }

    fn fail_all(&mut self, carrier: CarrierId) {
        let failed = self.pending.extract_if(|_, pending| pending.carrier == carrier);
        failed.for_each(|(_, pending)| {
            (pending.deliver)(ResponsePart::Failed("the client of the tunnel has disconnected".to_owned()));
        });
    }
}
