//! Model requests that cross servers.
//!
//! The server that holds a session has an [`EdgeOffer`] for each server that carries requests of the session: calls to the
//! carrier go over the link, and parts of responses come back over it. The server that the client is connected to has
//! [`Relays`]: it calls the client, and passes the parts of its responses on. This module does not know what the link looks
//! like.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_protocol::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::cancel;
use super::{CHUNK, CarriedRequest, Carrier, CarrierId, ClientCall, Relayed, ResponsePart, START, Tunnel};
use crate::{CallFailed, Calling};

/// Part of a response, in a form that can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayedPart {
    /// Status and headers.
    Head {
        /// HTTP status.
        status: u16,
        /// Header fields.
        headers: Vec<(String, String)>,
    },
    /// Part of the body that is text.
    Text(String),
    /// Part of the body that is not text, in base64.
    Binary(String),
    /// The end of the body.
    End,
    /// The request failed.
    Failed(String),
}

/// Offer of another server to carry the model requests of a session. Dropping it withdraws the offer, and fails the
/// requests that are running.
pub struct EdgeOffer {
    tunnel: Arc<Tunnel>,
    session: SessionId,
    number: u64,
}

/// Requests of one session that this server relays to its client. Dropping it cancels those that are running: the server
/// that made them is lost, or does not hold the session any more.
pub struct Relays {
    tunnel: Arc<Tunnel>,
    number: u64,
}

impl Tunnel {
    /// Registers another server as the carrier of a session's requests. `call` calls its client.
    #[must_use]
    pub fn offer_for(self: &Arc<Self>, session: &SessionId, call: ClientCall) -> EdgeOffer {
        let mut state = self.lock();
        let number = state.next_number();
        let carrier = Carrier { id: CarrierId::Edge(number), call, catalog: Some(Arc::default()) };
        state.edges.entry(session.clone()).or_default().push(carrier);
        EdgeOffer { tunnel: self.clone(), session: session.clone(), number }
    }

    /// Prepares to relay requests of a session.
    #[must_use]
    pub fn relays(self: &Arc<Self>) -> Relays {
        let number = self.lock().next_number();
        Relays { tunnel: self.clone(), number }
    }
}

impl EdgeOffer {
    /// Accepts a part of a response.
    pub fn take(&self, request: &str, part: RelayedPart) {
        self.tunnel.lock().take(CarrierId::Edge(self.number), request, part.into());
    }
}

impl Drop for EdgeOffer {
    fn drop(&mut self) {
        let mut state = self.tunnel.lock();
        let id = CarrierId::Edge(self.number);
        if let Some(carriers) = state.edges.get_mut(&self.session) {
            carriers.retain(|carrier| carrier.id != id);
            if carriers.is_empty() {
                state.edges.remove(&self.session);
            }
        }
        state.fail_all(id);
    }
}

impl Relays {
    /// Calls this server's client for another server. `deliver` receives the parts of the response.
    pub fn call(
        &self,
        method: &str,
        params: Value,
        deliver: impl Fn(RelayedPart) -> bool + Send + 'static,
    ) -> Calling {
        let Some(request) = params["requestId"].as_str().map(str::to_owned) else { return gone() };
        match method {
            START => self.start(request, params, deliver),
            CHUNK => self.chunk(&request, params),
            _ => gone(),
        }
    }

    fn start(
        &self,
        request: String,
        params: Value,
        deliver: impl Fn(RelayedPart) -> bool + Send + 'static,
    ) -> Calling {
        let mut state = self.tunnel.lock();
        let Some(Carrier { id, call, .. }) = state.carrier(None) else { return gone() };
        if state.pending.contains_key(&request) {
            return gone();
        }
        let relayed = Some(Relayed { relays: self.number, call: call.clone() });
        let deliver = Box::new(move |part: ResponsePart| deliver(part.into()));
        state.pending.insert(request, CarriedRequest { carrier: id, deliver, relayed });
        drop(state);
        call(START, params)
    }

    fn chunk(&self, request: &str, params: Value) -> Calling {
        let mut state = self.tunnel.lock();
        let is_ours = |relayed: &&Relayed| relayed.relays == self.number;
        let found = state.pending.get(request).and_then(|pending| pending.relayed.as_ref().filter(is_ours));
        let Some(call) = found.map(|relayed| relayed.call.clone()) else { return gone() };
        if params["cancel"] == true {
            state.pending.remove(request);
        }
        drop(state);
        call(CHUNK, params)
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        let is_ours = |pending: &mut CarriedRequest| {
            pending.relayed.as_ref().is_some_and(|relayed| relayed.relays == self.number)
        };
        let mut state = self.tunnel.lock();
        let left: Vec<(String, CarriedRequest)> =
            state.pending.extract_if(|_, pending| is_ours(pending)).collect();
        drop(state);
        for (request, pending) in left {
            if let Some(relayed) = pending.relayed {
                cancel(&request, &relayed.call);
            }
        }
    }
}

fn gone() -> Calling {
    Box::pin(async { Err(CallFailed::Gone) })
}

impl From<ResponsePart> for RelayedPart {
    fn from(part: ResponsePart) -> Self {
        match part {
            ResponsePart::Head { status, headers } => Self::Head { status, headers },
            ResponsePart::Data(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Binary(STANDARD.encode(&bytes)),
            },
            ResponsePart::End => Self::End,
            ResponsePart::Failed(why) => Self::Failed(why),
        }
    }
}

impl From<RelayedPart> for ResponsePart {
    fn from(part: RelayedPart) -> Self {
        match part {
            RelayedPart::Head { status, headers } => Self::Head { status, headers },
            RelayedPart::Text(text) => Self::Data(text.into_bytes().into()),
            RelayedPart::Binary(text) => match STANDARD.decode(text) {
                Ok(bytes) => Self::Data(bytes.into()),
                Err(_) => {
                    Self::Failed("another server sent a part of a response that is not base64".to_owned())
                }
            },
            RelayedPart::End => Self::End,
            RelayedPart::Failed(why) => Self::Failed(why),
        }
    }
}
