//! Tunnel: transport of model requests through a client, for example into its own network, or to a mock.
//!
//! Requests are calls to the client, and the parts of responses are calls of the client. There is one tunnel for the whole
//! server: it also serves sessions that other clients resume. When its client disconnects, requests fail until a client
//! offers a tunnel again. They never fall back to the network: the tunnel was chosen for a reason.

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

use crate::{CallFailed, Calling, ModelCaller, interaction_type};

/// Function that calls the client.
pub type Call = Arc<dyn Fn(&'static str, Value) -> Calling + Send + Sync>;

/// Part of a response, sent by the client.
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
}

#[derive(Default)]
struct State {
    client: Option<TunnelClient>,
    /// Running requests.
    pending: HashMap<String, mpsc::UnboundedSender<ResponsePart>>,
}

/// Client that has registered as the end of the tunnel.
#[derive(Clone)]
struct TunnelClient {
    id: ClientId,
    call: Call,
}

impl Tunnel {
    /// Registers a client as the end of the tunnel. It replaces an earlier one.
    pub fn offer(&self, client: ClientId, call: Call) {
        self.lock().client = Some(TunnelClient { id: client, call });
    }

    /// Returns whether a client has registered.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().client.is_some()
    }

    /// Accepts a part of a response. Returns whether the request is running.
    pub fn take(&self, request: &str, piece: ResponsePart) -> bool {
        let mut state = self.lock();
        let is_last = matches!(piece, ResponsePart::End | ResponsePart::Failed(_));
        let accepted = state.pending.get(request).is_some_and(|pending| pending.send(piece).is_ok());
        if is_last || !accepted {
            state.pending.remove(request);
        }
        accepted
    }

    /// Fails the running requests of a client that disconnected.
    pub fn forget(&self, client: ClientId) {
        let mut state = self.lock();
        if state.client.as_ref().is_some_and(|registered| registered.id == client) {
            state.pending.clear();
        }
    }

    /// Returns the transport for the requests of a conversation.
    pub(super) fn transport(
        self: &Arc<Self>,
        caller: Option<&ModelCaller<'_>>,
    ) -> Option<Arc<dyn Transport>> {
        let client = self.lock().client.clone()?;
        let session = caller.map(|caller| caller.session.clone());
        let agent = caller.and_then(|caller| caller.agent.cloned());
        Some(Arc::new(TunnelTransport { tunnel: self.clone(), client, session, agent }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tunnel as transport of one conversation.
struct TunnelTransport {
    tunnel: Arc<Tunnel>,
    client: TunnelClient,
    session: Option<SessionId>,
    agent: Option<AgentId>,
}

/// A running request. Dropping it before its end cancels it at the client.
struct TunnelRequest {
    id: String,
    tunnel: Arc<Tunnel>,
    call: Call,
    pieces: mpsc::UnboundedReceiver<ResponsePart>,
    is_finished: bool,
}

impl TunnelTransport {
    /// Announces a request to the client, and waits for the reply.
    async fn start(
        &self,
        request: &HttpRequest,
        url: &str,
        method: &str,
        transport: &str,
    ) -> Result<TunnelRequest, TransportError> {
        let id = Uuid::new_v4().to_string();
        let (sender, pieces) = mpsc::unbounded_channel();
        self.tunnel.lock().pending.insert(id.clone(), sender);
        let call = self.client.call.clone();
        let tunneled =
            TunnelRequest { id: id.clone(), tunnel: self.tunnel.clone(), call, pieces, is_finished: false };
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
        (self.client.call)("llmInference.httpRequestStart", params).await.map_err(unreachable)?;
        Ok(tunneled)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (url, method) = (request.url.as_str(), request.method.as_str());
        let mut tunneled = self.start(&request, url, method, "http").await?;
        let body = String::from_utf8_lossy(&request.body);
        tunneled.send(&body, true).await?;
        let (status, headers) = tunneled.head().await?;
        Ok(HttpResponse { status, headers: Headers(headers), body: tunneled.body() })
    }

    async fn connect(&self, request: HttpRequest) -> Result<Option<Box<dyn Socket>>, TransportError> {
        let mut tunneled = self.start(&request, &request.url.as_websocket(), "GET", "websocket").await?;
        match tunneled.head().await? {
            (101, _) => Ok(Some(Box::new(tunneled))),
            _ => Ok(None),
        }
    }
}

impl Transport for TunnelTransport {
    fn send(&self, request: HttpRequest) -> Sending<'_> {
        Box::pin(self.exchange(request))
    }

    fn open(&self, request: HttpRequest) -> Opening<'_> {
        Box::pin(self.connect(request))
    }
}

impl TunnelRequest {
    async fn send(&self, data: &str, end: bool) -> Result<(), TransportError> {
        let params =
            json!({ "requestId": self.id, "data": data, "binary": false, "end": end, "cancel": false });
        (self.call)("llmInference.httpRequestChunk", params).await.map(drop).map_err(unreachable)
    }

    async fn head(&mut self) -> Result<(u16, Vec<(String, String)>), TransportError> {
        match self.next().await? {
            Some(ResponsePart::Head { status, headers }) => Ok((status, headers)),
            _ => Err(TransportError::Broken("the client sent a response without a head".to_owned())),
        }
    }

    /// Waits for the next part of the response; `None` at the end.
    async fn next(&mut self) -> Result<Option<ResponsePart>, TransportError> {
        match self.pieces.recv().await {
            Some(ResponsePart::End) => {
                self.is_finished = true;
                Ok(None)
            }
            Some(ResponsePart::Failed(why)) => {
                self.is_finished = true;
                Err(TransportError::Broken(why))
            }
            Some(piece) => Ok(Some(piece)),
            None => {
                self.is_finished = true;
                Err(TransportError::Broken("the client of the tunnel has disconnected".to_owned()))
            }
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            match self.next().await? {
                Some(ResponsePart::Data(bytes)) => return Ok(Some(bytes)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn body(self) -> Body {
        Box::pin(stream::unfold(Some(self), |tunneled| async {
            let mut tunneled = tunneled?;
            match tunneled.data().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(tunneled))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

impl Socket for TunnelRequest {
    fn send(&mut self, message: String) -> Transferring<'_, ()> {
        Box::pin(async move { TunnelRequest::send(self, &message, false).await })
    }

    fn next(&mut self) -> Transferring<'_, Option<String>> {
        Box::pin(async move {
            let data = self.data().await?;
            Ok(data.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        })
    }
}

impl Drop for TunnelRequest {
    fn drop(&mut self) {
        self.tunnel.lock().pending.remove(&self.id);
        if !self.is_finished {
            let params = json!({
                "requestId": self.id, "data": "", "binary": false, "end": true, "cancel": true,
                "cancelReason": "the response is no longer needed",
            });
            // The call is sent when it is made; its reply is not needed.
            drop((self.call)("llmInference.httpRequestChunk", params));
        }
    }
}

fn unreachable(failed: CallFailed) -> TransportError {
    TransportError::Unreachable(match failed {
        CallFailed::Gone => "the client that tunnels model requests has disconnected".to_owned(),
        CallFailed::Refused(error) => format!("the client refused the request: {error}"),
    })
}
