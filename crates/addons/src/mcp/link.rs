//! Events and requests of MCP servers for the clients of their session. Any client can answer a request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::ask::{CloseLogin, Elicit, RequestLogin, Sample};
use baton_mcp::{
    AuthReason, Challenge, HeadersReason, HttpRequest, McpClient, Method, Notice, Protected, ServerQuestion,
    ServerStatus, Working, is_web_page, without_credentials,
};
use baton_protocol::{Body, Json};
use baton_sandbox::Place;
use baton_settings::Settings;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::authorization::authorization;
use super::network::Network;
use crate::{Addons, SessionPort};

/// How long the metadata of a protected resource may take.
const METADATA: Duration = Duration::from_secs(10);

/// How long a client may take to supply headers of a server.
const HEADERS: Duration = Duration::from_secs(30);

/// The connection between servers and their session.
pub(super) struct SessionLink {
    session: Arc<dyn SessionPort>,
    http: Network,
    addons: Arc<Addons>,
    /// Metadata of protected resources, by server: later challenges may not repeat where it is.
    metadata: Mutex<HashMap<String, String>>,
    /// The latest challenges of servers: they name metadata and scopes.
    challenges: Mutex<HashMap<String, Challenge>>,
    /// The latest tokens that servers were given, so that a rejected one is not given again.
    given: Mutex<HashMap<String, String>>,
    /// Requests that clients were asked for a token, by server.
    requests: Mutex<HashMap<String, String>>,
    /// Whether a client of the session shows forms.
    pub(super) elicits: AtomicBool,
    /// Whether a client of the session supplies tokens.
    pub(super) authorizes: AtomicBool,
    /// Whether a client of the session supplies headers.
    pub(super) supplies_headers: AtomicBool,
    /// Logins that clients were asked for a token, by the ids of their requests.
    pending: Mutex<HashMap<String, oneshot::Sender<Value>>>,
}

/// A form or a request of a server. Dropping it withdraws it: the call that it belongs to has ended.
struct Asked {
    session: Arc<dyn SessionPort>,
    key: String,
    is_answered: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_answered {
            self.session.withdraw(std::mem::take(&mut self.key));
        }
    }
}

impl SessionLink {
    pub(super) fn new(session: Arc<dyn SessionPort>, addons: Arc<Addons>) -> Self {
        Self {
            session,
            http: Network(addons.options.network.clone()),
            addons,
            metadata: Mutex::default(),
            challenges: Mutex::default(),
            given: Mutex::default(),
            requests: Mutex::default(),
            elicits: AtomicBool::new(false),
            authorizes: AtomicBool::new(false),
            supplies_headers: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }

    /// Notes what clients supply, as an earlier server of the session knew.
    pub(super) fn expect_of_clients(&self, settings: &Settings) {
        if settings.supplies_tokens {
            self.authorizes.store(true, Ordering::Relaxed);
        }
        if settings.supplies_headers {
            self.supplies_headers.store(true, Ordering::Relaxed);
        }
    }

    /// Shows an ephemeral event to all clients.
    pub(super) fn show(&self, kind: &str, mut data: Value) {
        self.addons.options.secrets.hide_in_value(&mut data);
        self.session.show(Body::Unknown { kind: kind.into(), data: Json::from(data) });
    }

    /// Answers a request. Returns whether it was pending.
    pub(super) fn answer_pending(&self, id: &str, answer: Value) -> bool {
        self.lock().remove(id).is_some_and(|pending| pending.send(answer).is_ok())
    }

    /// Withdraws all requests.
    pub(super) fn close(&self) {
        self.lock().clear();
    }

    fn asked(&self) -> Asked {
        Asked { session: self.session.clone(), key: uuid::Uuid::new_v4().to_string(), is_answered: false }
    }

    /// Returns the latest challenge of a server.
    pub(super) fn challenge(&self, server: &str) -> Option<Challenge> {
        self.challenges.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }

    /// Gives the token of a finished login to the connection that waits for it, and closes the request.
    pub(super) async fn logged_in(&self, server: &Protected) {
        let token = self.known(server).await;
        let close = CloseLogin { server: server.name.clone(), outcome: "token".into() };
        if !self.session.close_login(close).await {
            tracing::debug!(server = server.name, "no login was pending");
        }
        let request = self.requests.lock().unwrap_or_else(PoisonError::into_inner).remove(&server.name);
        if let (Some(token), Some(request)) = (token, request) {
            self.answer_pending(&request, json!({ "accessToken": token }));
        }
    }

    async fn known(&self, server: &Protected) -> Option<String> {
        let token = self.addons.logins.known(server).await?;
        self.give(&server.name, &token);
        Some(token)
    }

    fn has_token(&self, server: &str) -> bool {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).contains_key(server)
    }

    fn give(&self, server: &str, token: &str) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.insert(server.to_owned(), token.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn elicit(&self, server: String, mut params: Value) -> Result<Value, String> {
        // It was not offered: nobody could answer, and the call would wait for that.
        if !self.elicits.load(Ordering::Relaxed) {
            return Err("elicitation is not supported: no client can show a form".into());
        }
        self.addons.options.secrets.hide_in_value(&mut params);
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        if text("url").is_some_and(|url| !is_web_page(&url)) {
            return Err("the address of the page must begin with https:// or http://".into());
        }
        let mut asked = self.asked();
        let ask = Elicit {
            message: text("message").unwrap_or_default(),
            schema: params.get("requestedSchema").map(|schema| Json::from(schema.clone())),
            source: Some(server),
            url: text("url"),
            key: Some(asked.key.clone()),
        };
        let elicited = asked.session.elicit(ask).await?;
        asked.is_answered = true;
        let mut answer = json!({ "action": elicited.action });
        if let Some(content) = elicited.content {
            answer["content"] = json!(content);
        }
        Ok(answer)
    }

    /// Shows the request of a server for a model's answer. A client runs the model (`executeSampling`), and answers.
    async fn sample(&self, server: String, mut id: Value, mut params: Value) -> Result<Value, String> {
        for value in [&mut id, &mut params] {
            self.addons.options.secrets.hide_in_value(value);
        }
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let mut asked = self.asked();
        let ask = Sample { server, id, request: Json::from(params), key: asked.key.clone() };
        let answer = asked.session.sample(ask).await?;
        asked.is_answered = true;
        let answer =
            answer.and_then(|answer| answer.parse::<Value>().ok()).filter(|answer| !answer.is_null());
        answer.ok_or_else(|| "the user declined the request".into())
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
        let request = HttpRequest { method: Method::Get, url, headers: Vec::new(), body: Default::default() };
        let read = baton_mcp::fetch_text(&self.http, request);
        let text = tokio::time::timeout(METADATA, read).await.ok()?.ok()?;
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), text.clone());
        Some(text)
    }

    /// Gets another token for a server without a person: from an earlier login, or for the client itself.
    async fn renewed(&self, server: Protected, challenge: Challenge, reason: AuthReason) -> Option<String> {
        let name = server.name.clone();
        self.challenges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone(), challenge.clone());
        let rejected = self.given.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let rejected = rejected.unwrap_or_default();
        let token = self.addons.logins.replace(&server, &challenge, reason, Some(&rejected)).await;
        token.inspect(|token| self.give(&name, token))
    }

    /// Asks clients of the session for a token. Without one, the request for a login stays pending.
    async fn authorized(
        &self,
        server: Protected,
        challenge: Challenge,
        reason: AuthReason,
    ) -> Option<String> {
        let token = self.requested(&server, &challenge, reason).await;
        token.inspect(|token| self.give(&server.name, token))
    }

    /// Asks clients of the session for the headers of a server. They must not be shown.
    async fn supplied(
        &self,
        server: String,
        url: String,
        reason: HeadersReason,
    ) -> Option<Vec<(String, String)>> {
        if !self.supplies_headers.load(Ordering::Relaxed) {
            return None;
        }
        let request = uuid::Uuid::new_v4().to_string();
        let (sender, answer) = oneshot::channel();
        self.lock().insert(request.clone(), sender);
        let asked = json!({
            "requestId": request,
            "serverName": server,
            "serverUrl": url,
            "reason": reason.as_str(),
        });
        self.show("mcp.headers_refresh_required", asked);
        let answer = tokio::time::timeout(HEADERS, answer).await;
        self.lock().remove(&request);
        let (headers, outcome) = match answer {
            Err(_) => (None, "timeout"),
            Ok(answer) => match headers_of(answer.ok().as_ref()) {
                Some(headers) => (Some(headers), "headers"),
                None => (None, "none"),
            },
        };
        self.show("mcp.headers_refresh_completed", json!({ "requestId": request, "outcome": outcome }));
        headers
    }

    /// Requests a login, and returns the id of the request.
    pub(super) async fn request_login(
        &self,
        server: &Protected,
        reason: AuthReason,
    ) -> Result<String, String> {
        let request = self.session.request_login(login_request(server, reason)).await?;
        Ok(request.to_string())
    }

    /// Requests a login, and waits for a token if a client of the session supplies tokens.
    async fn requested(
        &self,
        server: &Protected,
        challenge: &Challenge,
        reason: AuthReason,
    ) -> Option<String> {
        let request = self.request_login(server, reason).await.ok()?;
        if !self.authorizes.load(Ordering::Relaxed) {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        self.lock().insert(request.clone(), sender);
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(server.name.clone(), request.clone());
        let metadata = self.resource_metadata(&server.name, challenge).await;
        let mut asked = authorization(&server.name, challenge, metadata);
        asked["requestId"] = json!(request);
        asked["reason"] = json!(reason.as_str());
        self.show("mcp.oauth_required", asked);
        let answer = answer.await.unwrap_or(Value::Null);
        self.lock().remove(&request);
        let token = answer.get("accessToken").and_then(Value::as_str).map(str::to_owned);
        self.addons.options.secrets.add_keys(token.clone().into_iter());
        let outcome = if token.is_some() { "token" } else { "cancelled" };
        let closed = CloseLogin { server: server.name.clone(), outcome: outcome.into() };
        self.session.close_login(closed).await;
        self.show("mcp.oauth_completed", json!({ "requestId": request, "outcome": outcome }));
        token
    }
}

impl McpClient for SessionLink {
    fn place(&self) -> Working<'_, Result<Place, String>> {
        self.session.place()
    }

    fn notice(&self, server: &str, notice: Notice) {
        // A token of another session, or of `baton mcp login`, has ended the wait for a login.
        if notice == Notice::Status(ServerStatus::Connected) && self.has_token(server) {
            drop(self.session.close_login(CloseLogin { server: server.to_owned(), outcome: "token".into() }));
        }
        let (kind, data) = match notice {
            Notice::Status(status) => ("session.mcp_server_status_changed", changed(server, &status)),
            Notice::Removed => ("session.mcp_server_removed", json!({ "serverName": server })),
            Notice::ToolsChanged => ("mcp.tools.list_changed", json!({ "serverName": server })),
            Notice::ResourcesChanged => ("mcp.resources.list_changed", json!({ "serverName": server })),
            Notice::ResourceUpdated(uri) => {
                ("mcp.resources.updated", json!({ "serverName": server, "uri": uri }))
            }
            Notice::PromptsChanged => ("mcp.prompts.list_changed", json!({ "serverName": server })),
        };
        self.show(kind, data);
    }

    fn keep_secret(&self, credentials: Vec<String>) {
        self.addons.options.secrets.add_keys(credentials.into_iter());
    }

    fn answer(&self, server: &str, question: ServerQuestion) -> Working<'_, Result<Value, String>> {
        let server = server.to_owned();
        match question {
            ServerQuestion::Elicitation(params) => Box::pin(self.elicit(server, params)),
            ServerQuestion::Sampling { id, params } => Box::pin(self.sample(server, id, params)),
        }
    }

    fn token(&self, server: &Protected) -> Working<'_, Option<String>> {
        let server = server.clone();
        Box::pin(async move { self.known(&server).await })
    }

    fn renew(
        &self,
        server: &Protected,
        challenge: &Challenge,
        reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        Box::pin(self.renewed(server.clone(), challenge.clone(), reason))
    }

    fn authorize(
        &self,
        server: &Protected,
        challenge: Challenge,
        reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        Box::pin(self.authorized(server.clone(), challenge, reason))
    }

    fn headers(
        &self,
        server: &str,
        url: &str,
        reason: HeadersReason,
    ) -> Working<'_, Option<Vec<(String, String)>>> {
        Box::pin(self.supplied(server.to_owned(), url.to_owned(), reason))
    }

    fn samples(&self) -> bool {
        true
    }

    fn elicits(&self) -> bool {
        self.elicits.load(Ordering::Relaxed)
    }
}

/// Returns the request for a login. It is stored, exported and shown to viewers, so the address comes without credentials.
fn login_request(server: &Protected, reason: AuthReason) -> RequestLogin {
    RequestLogin {
        server: server.name.clone(),
        url: without_credentials(&server.url).to_string(),
        reason: reason.as_str().to_owned(),
    }
}

/// Returns the headers in a client's answer; none if it has none.
fn headers_of(answer: Option<&Value>) -> Option<Vec<(String, String)>> {
    let headers = answer?.get("headers")?.as_object()?;
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    Some(headers.iter().filter_map(text).collect())
}

fn changed(server: &str, status: &ServerStatus) -> Value {
    let mut data = json!({ "serverName": server, "status": status.as_str() });
    if let Some(error) = status.error() {
        data["error"] = json!(error);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_texts_of_an_object() {
        let answer = json!({ "kind": "headers", "headers": { "X-Key": "k", "odd": 7 } });
        assert_eq!(headers_of(Some(&answer)), Some(vec![("X-Key".to_owned(), "k".to_owned())]));
        for none in [json!({ "kind": "none" }), json!({ "headers": [] }), Value::Null] {
            assert_eq!(headers_of(Some(&none)), None, "{none}");
        }
    }

    #[test]
    fn login_request_has_no_credentials() {
        let server = Protected {
            name: "s".into(),
            url: "https://me:pass@x.example/mcp?api_key=SECRET#x".parse().unwrap(),
            oauth: Default::default(),
            is_foreign: false,
        };
        assert_eq!(login_request(&server, AuthReason::Initial).url, "https://x.example/mcp");
    }
}
