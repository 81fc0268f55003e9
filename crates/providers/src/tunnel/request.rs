//! Requests through the tunnel.

use std::collections::HashMap;
use std::sync::Arc;

use baton_model::http::{
    BodyStream, Headers, HttpRequest, HttpResponse, Opening, Sending, Socket, Transferring, Transport,
    TransportError,
};
use baton_protocol::{AgentId, SessionId};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{CHUNK, CarriedRequest, ClientCall, ResponsePart, START, Tunnel};
use crate::{CallFailed, ModelCaller, interaction_type};

/// The tunnel as transport.
pub(super) struct TunnelTransport {
    tunnel: Arc<Tunnel>,
    /// The session that the requests are made for.
    session: Option<SessionId>,
    caller: Caller,
}

/// The conversation that requests name.
enum Caller {
    None,
    Session,
    Agent(AgentId),
}

/// A running request. Dropping it before its end cancels it at the client.
struct TunnelRequest {
    id: String,
    tunnel: Arc<Tunnel>,
    call: ClientCall,
    parts: mpsc::UnboundedReceiver<ResponsePart>,
    is_finished: bool,
}

impl TunnelTransport {
    pub(super) fn of_conversation(tunnel: &Arc<Tunnel>, caller: &ModelCaller<'_>) -> Arc<dyn Transport> {
        let session = Some(caller.session.clone());
        let caller = caller.agent.cloned().map_or(Caller::Session, Caller::Agent);
        Arc::new(Self { tunnel: tunnel.clone(), session, caller })
    }

    pub(super) fn anonymous(tunnel: &Arc<Tunnel>, session: Option<&SessionId>) -> Arc<dyn Transport> {
        Arc::new(Self { tunnel: tunnel.clone(), session: session.cloned(), caller: Caller::None })
    }

    /// Announces a request to the client, and waits for the reply.
    async fn start(
        &self,
        request: &HttpRequest,
        url: &str,
        method: &str,
        transport: &str,
    ) -> Result<TunnelRequest, TransportError> {
        let tunneled = self.register()?;
        let headers: HashMap<&str, [&str; 1]> =
            request.headers.iter().map(|(name, value)| (name.as_str(), [value.as_str()])).collect();
        let mut params = json!({
            "requestId": tunneled.id, "method": method, "url": url, "headers": headers, "transport": transport,
        });
        if !matches!(self.caller, Caller::None) {
            params["sessionId"] = json!(self.session);
            params["agentId"] = json!(self.session);
            params["interactionType"] = interaction_type(matches!(self.caller, Caller::Agent(_))).into();
        }
        if let Caller::Agent(agent) = &self.caller {
            params["agentId"] = json!(agent);
            params["parentAgentId"] = json!(self.session);
        }
        (tunneled.call)(START, params).await.map_err(unreachable)?;
        Ok(tunneled)
    }

    /// Registers a request with the current carrier, which may have changed since the last attempt.
    fn register(&self) -> Result<TunnelRequest, TransportError> {
        let id = Uuid::new_v4().to_string();
        let (sender, parts) = mpsc::unbounded_channel();
        let mut state = self.tunnel.lock();
        let carrier = state.carrier(self.session.as_ref()).ok_or(CallFailed::Gone).map_err(unreachable)?;
        let deliver = Box::new(move |part| sender.send(part).is_ok());
        state.pending.insert(id.clone(), CarriedRequest { carrier: carrier.id, deliver, relayed: None });
        drop(state);
        let tunnel = self.tunnel.clone();
        Ok(TunnelRequest { id, tunnel, call: carrier.call, parts, is_finished: false })
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
        (self.call)(CHUNK, params).await.map(drop).map_err(unreachable)
    }

    async fn head(&mut self) -> Result<(u16, Vec<(String, String)>), TransportError> {
        match self.next().await? {
            Some(ResponsePart::Head { status, headers }) => Ok((status, headers)),
            _ => Err(TransportError::Broken("the client sent a response without a head".to_owned())),
        }
    }

    /// Waits for the next part of the response; `None` at the end.
    async fn next(&mut self) -> Result<Option<ResponsePart>, TransportError> {
        match self.parts.recv().await {
            Some(ResponsePart::End) => {
                self.is_finished = true;
                Ok(None)
            }
            Some(ResponsePart::Failed(why)) => {
                self.is_finished = true;
                Err(TransportError::Broken(why))
            }
            Some(part) => Ok(Some(part)),
            None => {
                self.is_finished = true;
                Err(TransportError::Broken("the response has already ended".to_owned()))
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

    fn body(self) -> BodyStream {
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
            cancel(&self.id, &self.call);
        }
    }
}

/// Cancels a request at the client.
pub(super) fn cancel(request: &str, call: &ClientCall) {
    let params = json!({
        "requestId": request, "data": "", "binary": false, "end": true, "cancel": true,
        "cancelReason": "the response is no longer needed",
    });
    // The call is sent when it is made; its reply is not needed.
    drop(call(CHUNK, params));
}

fn unreachable(failed: CallFailed) -> TransportError {
    TransportError::Unreachable(match failed {
        CallFailed::Gone => "the client that tunnels model requests has disconnected".to_owned(),
        CallFailed::Refused(error) => format!("the client refused the request: {error}"),
    })
}
