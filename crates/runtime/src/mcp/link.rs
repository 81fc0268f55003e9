//! What MCP servers tell and ask a session: events for its clients, and requests that any of them answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::ask::Elicit;
use baton_mcp::{AuthReason, Challenge, Client, Method, Notice, Question, Request, Status, Working};
use baton_protocol::{Json, SessionId};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::authorization::authorization;
use super::network::Network;
use crate::Runtime;
use crate::session::{ActorMessage, Handle, Hub};

/// Requests of servers that may be pending at the same time.
const MOST_PENDING: usize = 64;
/// How long the metadata of a protected resource may take.
const METADATA: Duration = Duration::from_secs(10);

/// The connection between servers and their session.
pub(super) struct Link {
    id: SessionId,
    hub: Arc<Hub>,
    mailbox: mpsc::UnboundedSender<ActorMessage>,
    http: Network,
    runtime: Arc<Runtime>,
    /// Metadata of protected resources, by server: later challenges may not repeat where it is.
    metadata: Mutex<HashMap<String, String>>,
    /// Whether a client of the session shows forms.
    pub(super) elicits: AtomicBool,
    /// Whether a client of the session supplies tokens.
    pub(super) authorizes: AtomicBool,
    /// Requests that wait for an answer, by their ids. They end with the call or the connection that they belong to.
    pending: Mutex<HashMap<String, oneshot::Sender<Value>>>,
}

/// A request that waits for an answer. Dropping it withdraws the request.
struct Pending<'a> {
    link: &'a Link,
    id: String,
    answer: oneshot::Receiver<Value>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.link.lock().remove(&self.id);
    }
}

impl Link {
    pub(super) fn new(
        id: SessionId,
        hub: Arc<Hub>,
        mailbox: mpsc::UnboundedSender<ActorMessage>,
        runtime: Arc<Runtime>,
    ) -> Self {
        Self {
            id,
            hub,
            mailbox,
            http: Network(runtime.models.network()),
            runtime,
            metadata: Mutex::default(),
            elicits: AtomicBool::new(false),
            authorizes: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }

    /// Shows an ephemeral event to all clients.
    pub(super) fn show(&self, kind: &str, mut data: Value) {
        self.runtime.secrets.hide_in_value(&mut data);
        super::show(&self.hub, kind, data);
    }

    /// Answers a request. Returns whether it was pending.
    pub(super) fn answer_pending(&self, id: &str, answer: Value) -> bool {
        self.lock().remove(id).is_some_and(|pending| pending.send(answer).is_ok())
    }

    /// Withdraws all requests.
    pub(super) fn close(&self) {
        self.lock().clear();
    }

    fn open(&self) -> Option<Pending<'_>> {
        let (sender, answer) = oneshot::channel();
        let id = uuid::Uuid::new_v4().to_string();
        let mut pending = self.lock();
        if pending.len() >= MOST_PENDING {
            return None;
        }
        pending.insert(id.clone(), sender);
        Some(Pending { link: self, id, answer })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn elicit(&self, server: String, mut params: Value) -> Result<Value, String> {
        self.runtime.secrets.hide_in_value(&mut params);
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let ask = Elicit {
            message: text("message").unwrap_or_default(),
            schema: params.get("requestedSchema").map(|schema| Json::from(schema.clone())),
            source: Some(server),
            url: text("url"),
        };
        let handle = Handle::new(self.id.clone(), self.hub.clone(), self.mailbox.clone());
        let elicited = handle.ask(ask).await.map_err(|failure| failure.to_string())?;
        let mut answer = json!({ "action": elicited.action });
        if let Some(content) = elicited.content {
            answer["content"] = json!(content);
        }
        Ok(answer)
    }

    /// Shows the request of a server for a model's answer. A client runs the model (`executeSampling`), and answers.
    async fn sample(&self, server: String, id: Value, params: Value) -> Result<Value, String> {
        let mut pending = self.open().ok_or("too many requests are pending")?;
        let request = pending.id.clone();
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let asked =
            json!({ "requestId": request, "serverName": server, "mcpRequestId": id, "request": params });
        self.show("sampling.requested", asked);
        let answer = (&mut pending.answer).await.map_err(|_| "the request was withdrawn".to_owned());
        self.show("sampling.completed", json!({ "requestId": request }));
        match answer? {
            Value::Null => Err("the user declined the request".into()),
            answer => Ok(answer),
        }
    }

    /// Reads the metadata of the protected resource, from the server's own origin only: the challenge is a stranger's.
    async fn resource_metadata(&self, server: &str, challenge: &Challenge) -> Option<String> {
        let known = || self.metadata.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        let Some(url) =
            challenge.parameter("resource_metadata").and_then(|url| challenge.url.join(&url).ok())
        else {
            return known();
        };
        if url.origin() != challenge.url.origin() {
            return known();
        }
        let request = Request { method: Method::Get, url, headers: Vec::new(), body: Default::default() };
        let read = baton_mcp::fetch_text(&self.http, request);
        let text = tokio::time::timeout(METADATA, read).await.ok()?.ok()?;
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), text.clone());
        Some(text)
    }

    /// Asks clients for a token.
    async fn token(&self, server: String, challenge: Challenge, reason: AuthReason) -> Option<String> {
        if !self.authorizes.load(Ordering::Relaxed) {
            return None;
        }
        let mut pending = self.open()?;
        let request = pending.id.clone();
        let metadata = self.resource_metadata(&server, &challenge).await;
        let mut asked = authorization(&server, &challenge, metadata);
        asked["requestId"] = json!(request);
        asked["reason"] = json!(reason.as_str());
        self.show("mcp.oauth_required", asked);
        let answer = (&mut pending.answer).await.unwrap_or(Value::Null);
        let token = answer.get("accessToken").and_then(Value::as_str).map(str::to_owned);
        self.runtime.secrets.add_keys(token.clone().into_iter());
        let outcome = if token.is_some() { "token" } else { "cancelled" };
        self.show("mcp.oauth_completed", json!({ "requestId": request, "outcome": outcome }));
        token
    }
}

impl Client for Link {
    fn notice(&self, server: &str, notice: Notice) {
        let (kind, data) = match notice {
            Notice::Status(status) => ("session.mcp_server_status_changed", changed(server, &status)),
            Notice::Removed => ("session.mcp_server_removed", json!({ "serverName": server })),
            Notice::ToolsChanged => ("mcp.tools.list_changed", json!({ "serverName": server })),
            Notice::ResourcesChanged => ("mcp.resources.list_changed", json!({ "serverName": server })),
            Notice::PromptsChanged => ("mcp.prompts.list_changed", json!({ "serverName": server })),
        };
        self.show(kind, data);
    }

    fn keep_secret(&self, credentials: Vec<String>) {
        self.runtime.secrets.add_keys(credentials.into_iter());
    }

    fn answer(&self, server: &str, question: Question) -> Working<'_, Result<Value, String>> {
        let server = server.to_owned();
        match question {
            Question::Elicitation(params) => Box::pin(self.elicit(server, params)),
            Question::Sampling { id, params } => Box::pin(self.sample(server, id, params)),
        }
    }

    fn authorize(
        &self,
        server: &str,
        challenge: Challenge,
        reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        Box::pin(self.token(server.to_owned(), challenge, reason))
    }

    fn samples(&self) -> bool {
        true
    }

    fn elicits(&self) -> bool {
        self.elicits.load(Ordering::Relaxed)
    }
}

fn changed(server: &str, status: &Status) -> Value {
    let mut data = json!({ "serverName": server, "status": status.as_str() });
    if let Some(error) = status.error() {
        data["error"] = json!(error);
    }
    data
}
