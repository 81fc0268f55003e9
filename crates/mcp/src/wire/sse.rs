//! Servers that are reached over the older HTTP transport: an event stream whose first event names the address for
//! messages. `rmcp` does not have it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::sse::Parser;
use futures_util::StreamExt;
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::time::timeout;
use url::Url;

use super::lines::LONGEST;
use super::remote::Authorization;
use super::stdio::understand;
use crate::config::Remote;
use crate::http::{ByteStream, Http, HttpError, HttpRequest, Method};
use crate::log::ServerLog;

/// How long the first event may take.
const ENDPOINT: Duration = Duration::from_secs(30);

/// The event stream of a server, with the address for messages.
pub(super) struct Stream {
    body: ByteStream,
    parser: Parser,
    ready: VecDeque<ServerJsonRpcMessage>,
    endpoint: Url,
    headers: Vec<(String, String)>,
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
    log: ServerLog,
}

impl Stream {
    /// Opens the stream and waits for the address.
    pub(super) async fn open(
        remote: &Remote,
        http: Arc<dyn Http>,
        access: Arc<Authorization>,
        log: &ServerLog,
    ) -> Result<Self, String> {
        let headers: Vec<(String, String)> =
            remote.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut with_accept = headers.clone();
        with_accept.push(("accept".into(), "text/event-stream".into()));
        let request = HttpRequest {
            method: Method::Get,
            url: remote.url.clone(),
            headers: with_accept,
            body: bytes::Bytes::new(),
        };
        let mut response = access.send(&*http, request).await.map_err(|error| error.to_string())?;
        if access.note(&remote.url, &mut response).await {
            return Err("authorization required".into());
        }
        if response.status != 200 || !response.is_of_type("text/event-stream") {
            return Err(format!("HTTP {}: not an event stream", response.status));
        }
        let mut stream = Self {
            body: response.body,
            parser: Parser::new(LONGEST),
            ready: VecDeque::new(),
            endpoint: remote.url.clone(),
            headers,
            http,
            access,
            log: log.clone(),
        };
        let address = timeout(ENDPOINT, stream.endpoint())
            .await
            .map_err(|_| "the server sent no endpoint".to_owned())??;
        let endpoint = remote.url.join(&address).map_err(|error| format!("endpoint: {error}"))?;
        // The configured headers may hold a key, which must not go to another host.
        if endpoint.origin() != remote.url.origin() {
            return Err("the server names an endpoint of another origin".into());
        }
        stream.endpoint = endpoint;
        Ok(stream)
    }

    async fn endpoint(&mut self) -> Result<String, String> {
        loop {
            if let Some(address) = self.read().await? {
                return Ok(address);
            }
        }
    }

    /// Reads more of the stream: messages become ready, and an address is returned.
    async fn read(&mut self) -> Result<Option<String>, String> {
        let bytes =
            self.body.next().await.ok_or("the event stream ended")?.map_err(|error| error.to_string())?;
        let (ready, log, mut address) = (&mut self.ready, &self.log, None);
        let pushed = self.parser.push(&bytes, |event| match event.name.as_str() {
            "endpoint" => address = Some(event.data),
            "" | "message" => ready.extend(understand(event.data.as_bytes(), log)),
            _ => {}
        });
        pushed.map_err(|error| error.to_string())?;
        Ok(address)
    }
}

impl Transport<RoleClient> for Stream {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (http, access, url, mut headers) =
            (self.http.clone(), self.access.clone(), self.endpoint.clone(), self.headers.clone());
        async move {
            headers.push(("content-type".into(), "application/json".into()));
            let body = serde_json::to_vec(&item).map_err(|error| HttpError(error.to_string()))?;
            let request = HttpRequest { method: Method::Post, url: url.clone(), headers, body: body.into() };
            let mut response = access.send(&*http, request).await?;
            if access.note(&url, &mut response).await {
                return Err(HttpError("authorization required".into()));
            }
            match response.status {
                200..300 => Ok(()),
                status => Err(HttpError(format!("HTTP {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if let Err(problem) = self.read().await {
                self.log.add(&problem);
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
