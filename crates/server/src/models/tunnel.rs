//! A client that carries model requests itself: to a network of its own, or to answers that it makes up.
//!
//! Requests go to it as calls, and what it gets for them comes back as calls of its own. It is one for the whole server:
//! a session that another client resumes is asked for on the same way. When it leaves, requests fail until somebody else
//! offers to carry them; they never take another way unasked, because the way was chosen for a reason.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_model::http::{
    Body, Headers, HttpRequest, HttpResponse, Opening, Sending, Socket, Transferring, Transport,
    TransportError,
};
use baton_protocol::{AgentId, ClientId, SessionId};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{Asker, interaction_type};
use crate::session::{CallFailed, Calling};

/// Calls the client.
pub(crate) type Call = Arc<dyn Fn(&'static str, Value) -> Calling + Send + Sync>;

/// What the client says about a request.
pub(crate) enum Piece {
    /// The head of the response.
    Head { status: u16, headers: Vec<(String, String)> },
    /// More of the body; on a WebSocket, a message.
    Data(Bytes),
    /// The end of the body.
    End,
    /// It did not get through.
    Failed(String),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Tunnel {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    carrier: Option<Carrier>,
    /// Requests that are under way.
    pending: HashMap<String, mpsc::UnboundedSender<Piece>>,
}

#[derive(Clone)]
struct Carrier {
    client: ClientId,
    call: Call,
}

impl Tunnel {
    /// A client offers to carry requests. The newest one does.
    pub(crate) fn offer(&self, client: ClientId, call: Call) {
        self.lock().carrier = Some(Carrier { client, call });
    }

    /// Whether somebody carries requests.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().carrier.is_some()
    }

    /// Takes what the client says about a request; whether there is such a request.
    pub(crate) fn take(&self, request: &str, piece: Piece) -> bool {
        let mut state = self.lock();
        let is_last = matches!(piece, Piece::End | Piece::Failed(_));
        let taken = state.pending.get(request).is_some_and(|pending| pending.send(piece).is_ok());
        if is_last || !taken {
            state.pending.remove(request);
        }
        taken
    }

    /// A client has left. What it was carrying has failed.
    pub(crate) fn forget(&self, client: ClientId) {
        let mut state = self.lock();
        if state.carrier.as_ref().is_some_and(|carrier| carrier.client == client) {
            state.pending.clear();
        }
    }

    /// The way through the client, for the requests of one conversation.
    pub(super) fn transport(self: &Arc<Self>, asker: Option<&Asker<'_>>) -> Option<Arc<dyn Transport>> {
        let carrier = self.lock().carrier.clone()?;
        let session = asker.map(|asker| asker.session.clone());
        let agent = asker.and_then(|asker| asker.agent.cloned());
        Some(Arc::new(Way { tunnel: self.clone(), carrier, session, agent }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Way {
    tunnel: Arc<Tunnel>,
    carrier: Carrier,
    session: Option<SessionId>,
    agent: Option<AgentId>,
}

/// A request under way. Dropping it before its end tells the client to stop.
struct Carried {
    id: String,
    tunnel: Arc<Tunnel>,
    call: Call,
    pieces: mpsc::UnboundedReceiver<Piece>,
    is_over: bool,
}

impl Way {
    /// Tells the client of a request, and waits until it has heard of it.
    async fn start(
        &self,
        request: &HttpRequest,
        url: &str,
        method: &str,
        transport: &str,
    ) -> Result<Carried, TransportError> {
        let id = Uuid::new_v4().to_string();
        let (sender, pieces) = mpsc::unbounded_channel();
        self.tunnel.lock().pending.insert(id.clone(), sender);
        let call = self.carrier.call.clone();
        let carried = Carried { id: id.clone(), tunnel: self.tunnel.clone(), call, pieces, is_over: false };
        let headers: HashMap<&str, [&str; 1]> =
            request.headers.iter().map(|(name, value)| (name.as_str(), [value.as_str()])).collect();
        let mut params = json!({
            "requestId": id, "method": method, "url": url, "headers": headers, "transport": transport,
        });
        if let Some(session) = &self.session {
            params["sessionId"] = json!(session);
            params["agentId"] = json!(session);
            params["interactionType"] = interaction_type(self.agent.is_some()).into();
            if let Some(agent) = &self.agent {
                params["agentId"] = json!(agent);
                params["parentAgentId"] = json!(session);
            }
        }
        (self.carrier.call)("llmInference.httpRequestStart", params).await.map_err(uncarried)?;
        Ok(carried)
    }

    async fn carry(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (url, method) = (request.url.as_str(), request.method.as_str());
        let mut carried = self.start(&request, url, method, "http").await?;
        let body = String::from_utf8_lossy(&request.body);
        carried.send(&body, true).await?;
        let (status, headers) = carried.head().await?;
        Ok(HttpResponse { status, headers: Headers(headers), body: carried.body() })
    }

    async fn connect(&self, request: HttpRequest) -> Result<Option<Box<dyn Socket>>, TransportError> {
        let mut carried = self.start(&request, &request.url.as_websocket(), "GET", "websocket").await?;
        match carried.head().await? {
            (101, _) => Ok(Some(Box::new(carried))),
            _ => Ok(None),
        }
    }
}

impl Transport for Way {
    fn send(&self, request: HttpRequest) -> Sending<'_> {
        Box::pin(self.carry(request))
    }

    fn open(&self, request: HttpRequest) -> Opening<'_> {
        Box::pin(self.connect(request))
    }
}

impl Carried {
    async fn send(&self, data: &str, end: bool) -> Result<(), TransportError> {
        let params =
            json!({ "requestId": self.id, "data": data, "binary": false, "end": end, "cancel": false });
        (self.call)("llmInference.httpRequestChunk", params).await.map(drop).map_err(uncarried)
    }

    async fn head(&mut self) -> Result<(u16, Vec<(String, String)>), TransportError> {
        match self.next().await? {
            Some(Piece::Head { status, headers }) => Ok((status, headers)),
            _ => Err(TransportError::Broken("the client answered without a head".to_owned())),
        }
    }

    /// What the client says next; `None` at the end.
    async fn next(&mut self) -> Result<Option<Piece>, TransportError> {
        match self.pieces.recv().await {
            Some(Piece::End) => {
                self.is_over = true;
                Ok(None)
            }
            Some(Piece::Failed(why)) => {
                self.is_over = true;
                Err(TransportError::Broken(why))
            }
            Some(piece) => Ok(Some(piece)),
            None => {
                self.is_over = true;
                Err(TransportError::Broken("the client that carried the request has left".to_owned()))
            }
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            match self.next().await? {
                Some(Piece::Data(bytes)) => return Ok(Some(bytes)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn body(self) -> Body {
        Box::pin(stream::unfold(Some(self), |carried| async {
            let mut carried = carried?;
            match carried.data().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(carried))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

impl Socket for Carried {
    fn send(&mut self, message: String) -> Transferring<'_, ()> {
        Box::pin(async move { Carried::send(self, &message, false).await })
    }

    fn next(&mut self) -> Transferring<'_, Option<String>> {
        Box::pin(async move {
            let data = self.data().await?;
            Ok(data.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        })
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.tunnel.lock().pending.remove(&self.id);
        if !self.is_over {
            let params = json!({
                "requestId": self.id, "data": "", "binary": false, "end": true, "cancel": true,
                "cancelReason": "nobody waits for the answer any more",
            });
            // Sent by the call itself; nobody waits for what the client says to it.
            drop((self.call)("llmInference.httpRequestChunk", params));
        }
    }
}

fn uncarried(failed: CallFailed) -> TransportError {
    TransportError::Unreachable(match failed {
        CallFailed::Gone => "the client that carries the model requests of this server has left".to_owned(),
        CallFailed::Refused(error) => format!("the client does not carry the request: {error}"),
    })
}
