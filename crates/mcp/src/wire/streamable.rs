//! Servers that are reached over streamable HTTP: every message is a POST, whose response is JSON or a stream of events.
//!
//! The response to `initialize` may name a session, which all later requests carry, and which is deleted at the end. With a
//! session, a GET stream brings messages that belong to no request; servers without it say 405. A stream that ends is
//! resumed by GET after the last event that had an id, a bounded number of times. The stream of a request that cannot be
//! resumed fails its request, and so does a session that has expired: no message is ever sent twice.

mod streams;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use self::streams::Awaited;
use super::handshake::{STATELESS, VERSION_FIELD};
use super::lines::LONGEST;
use super::message::{Failure, Message, number};
use super::peer::{Inlet, Outlet};
use super::remote::{Authorization, ERROR_BODY, read};
use super::standard::MarkedTools;
use crate::config::Remote;
use crate::http::{Http, HttpRequest, HttpResponse, Method};
use crate::log::ServerLog;
use crate::text::clean;
use crate::{Working, lock};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";

/// Messages that were received and not yet handled.
const INBOX: usize = 4;
/// How long the deletion of a session may take.
const DELETING: Duration = Duration::from_secs(2);
/// A server, as the half of a transport that sends.
pub(super) struct Streamable(Arc<Server>);

/// The receiving half of the transport.
pub(super) struct Inbox(mpsc::Receiver<Message>);

struct Server {
    url: Url,
    headers: Vec<(String, String)>,
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
    log: ServerLog,
    tasks: TaskTracker,
    inbox: mpsc::Sender<Message>,
    state: Mutex<State>,
    /// Cancelled when the connection is closed.
    closing: CancellationToken,
}

#[derive(Default)]
struct State {
    session: Option<String>,
    /// The version that was agreed on.
    version: Option<String>,
    /// Whether there is a stream for messages that belong to no request.
    is_listening: bool,
    /// Requests that are being sent, or whose responses are being received.
    requests: HashMap<u64, CancellationToken>,
    marked: MarkedTools,
}

impl State {
    fn is_stateless(&self) -> bool {
        self.version.as_deref() == Some(STATELESS)
    }
}

/// Creates the two halves of the transport to a server.
pub(super) fn transport(
    remote: &Remote,
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
    log: &ServerLog,
    tasks: &TaskTracker,
) -> (Streamable, Inbox) {
    let is_valid = |(name, value): &(&String, &String)| {
        HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
    };
    let headers = remote.headers.iter().filter(is_valid);
    let (inbox, received) = mpsc::channel(INBOX);
    let server = Server {
        url: remote.url.clone(),
        headers: headers.map(|(name, value)| (name.clone(), value.clone())).collect(),
        http,
        access,
        log: log.clone(),
        tasks: tasks.clone(),
        inbox,
        state: Mutex::default(),
        closing: CancellationToken::new(),
    };
    (Streamable(Arc::new(server)), Inbox(received))
}

impl Inlet for Inbox {
    fn next(&mut self) -> Working<'_, Option<Message>> {
        Box::pin(self.0.recv())
    }
}

impl Outlet for Streamable {
    fn send(&self, message: Message) -> Working<'static, Result<(), Failure>> {
        let server = self.0.clone();
        let (id, method) = match &message {
            Message::Request { id, method, .. } => (number(id), method.clone()),
            Message::Notification { method, .. } => (None, method.clone()),
            Message::Response { .. } => (None, String::new()),
        };
        // Without a handshake, closing the stream of a request cancels it.
        if method == "notifications/cancelled" && lock(&server.state).is_stateless() {
            return Box::pin(async { Ok(()) });
        }
        let Some(id) = id else {
            return Box::pin(async move {
                server.post(message, &method, None).await?;
                if method == "notifications/initialized" {
                    server.listen();
                }
                Ok(())
            });
        };
        let forgotten = CancellationToken::new();
        lock(&server.state).requests.insert(id, forgotten.clone());
        Box::pin(async move {
            let posted = tokio::select! {
                biased;
                () = forgotten.cancelled() => Ok(()),
                posted = server.post(message, &method, Some(id)) => posted,
            };
            lock(&server.state).requests.remove(&id);
            posted
        })
    }

    fn agreed(&self, version: &str) {
        lock(&self.0.state).version = Some(version.to_owned());
    }

    fn forget(&self, request: u64) {
        if let Some(forgotten) = lock(&self.0.state).requests.remove(&request) {
            forgotten.cancel();
        }
    }

    fn close(&self) -> Working<'_, ()> {
        self.0.closing.cancel();
        Box::pin(async {
            if lock(&self.0.state).session.is_some() {
                // A server that cannot delete it lets it expire.
                let deleted = self.0.request(Method::Delete, Vec::new(), Vec::new());
                let _ = timeout(DELETING, deleted).await;
            }
        })
    }
}

impl Server {
    /// Sends a request of HTTP, with the headers that all have.
    async fn request(
        &self,
        method: Method,
        more: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<HttpResponse, Failure> {
        let mut headers = self.headers.clone();
        let (session, version) = {
            let state = lock(&self.state);
            (state.session.clone(), state.version.clone())
        };
        let own = [(SESSION, session), ("mcp-protocol-version", version)];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        for (name, value) in own.chain(more) {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
        let request = HttpRequest { method, url: self.url.clone(), headers, body: body.into() };
        let response = self.access.send(&*self.http, request).await;
        let mut response = response.map_err(|error| Failure::NotSent(error.to_string()))?;
        if self.access.note(&self.url, &mut response).await {
            return Err(Failure::NotSent("authorization required".into()));
        }
        Ok(response)
    }

    /// Sends a message, and receives the response to a request.
    async fn post(&self, message: Message, method: &str, id: Option<u64>) -> Result<(), Failure> {
        let headers = self.headers_of(&message);
        let had_session = lock(&self.state).session.is_some();
        let mut response = self.request(Method::Post, headers, message.into_bytes()).await?;
        let Some(id) = id else {
            return match response.status {
                200..300 => Ok(()),
                _ => Err(refused(&mut response).await),
            };
        };
        match response.status {
            404 if had_session => Err(Failure::NotSent("the session has expired (HTTP 404)".into())),
            202 | 204 if lock(&self.state).is_listening => Ok(()),
            status @ (202 | 204) => Err(Failure::Unusable(format!("HTTP {status} without a response"))),
            200..300 => {
                if method == "initialize" {
                    lock(&self.state).session = response.header(SESSION).map(str::to_owned);
                }
                let awaited = Awaited { id, method };
                if response.is_of_type(EVENTS) {
                    return self.follow(response.body, Some(&awaited)).await;
                }
                let body = read(&mut response.body, LONGEST).await;
                let body = body.map_err(|error| Failure::NotSent(error.to_string()))?;
                match Message::parse(&body, &self.log) {
                    // Whatever its id is, it is the response to this request.
                    Some(Message::Response { result, .. }) => {
                        self.deliver(Message::Response { id: json!(id), result }, Some(&awaited)).await;
                        Ok(())
                    }
                    _ => Err(Failure::unusable()),
                }
            }
            _ => Err(refused(&mut response).await),
        }
    }

    /// Returns the headers of a message.
    fn headers_of(&self, message: &Message) -> Vec<(String, String)> {
        let mut headers = vec![
            ("accept".to_owned(), format!("{EVENTS}, {JSON}")),
            ("content-type".to_owned(), JSON.to_owned()),
        ];
        let (method, params) = match message {
            Message::Request { method, params, .. } | Message::Notification { method, params } => {
                (method, params)
            }
            Message::Response { .. } => return headers,
        };
        let version =
            params.pointer("/_meta").and_then(|meta| meta.get(VERSION_FIELD)).and_then(Value::as_str);
        headers.extend(version.map(|version| ("mcp-protocol-version".to_owned(), version.to_owned())));
        let state = lock(&self.state);
        if version == Some(STATELESS) || state.is_stateless() {
            headers.extend(state.marked.headers(method, params));
        }
        headers
    }

    /// Opens the stream for messages that belong to no request, if there is a session.
    fn listen(self: &Arc<Self>) {
        {
            let mut state = lock(&self.state);
            if state.session.is_none() || state.is_stateless() {
                return;
            }
            state.is_listening = true;
        }
        let server = self.clone();
        let listening: Working<'static, ()> = Box::pin(async move {
            let followed = async {
                if let Ok(Some(stream)) = server.stream(None).await {
                    // It was opened once; an end that stays is worth a line.
                    if server.follow(stream, None).await.is_err() {
                        server.log.add("the stream of notifications ended");
                    }
                }
            };
            tokio::select! {
                () = followed => {}
                () = server.closing.cancelled() => {}
            }
            lock(&server.state).is_listening = false;
        });
        self.tasks.spawn(listening);
    }

    /// Hands a message to the peer. Returns whether it wants more.
    async fn deliver(&self, mut message: Message, awaited: Option<&Awaited<'_>>) -> bool {
        if let (Message::Response { result: Ok(list), .. }, Some(Awaited { method: "tools/list", .. })) =
            (&mut message, awaited)
        {
            let mut state = lock(&self.state);
            if state.is_stateless() {
                for name in state.marked.learn(list) {
                    self.log
                        .add(&format!("lists the tool {name} with marks for headers that are not allowed"));
                }
            }
        }
        self.inbox.send(message).await.is_ok()
    }
}

/// Returns the failure that a response of HTTP means.
async fn refused(response: &mut HttpResponse) -> Failure {
    let body = read(&mut response.body, ERROR_BODY).await.unwrap_or_default();
    // The log of the server is not the place for the body of an error.
    if let Some(Message::Response { result: Err(failure), .. }) = Message::parse(&body, &ServerLog::default())
    {
        return failure;
    }
    let text = clean(String::from_utf8_lossy(&body).trim(), 300);
    let gap = if text.is_empty() { "" } else { ": " };
    Failure::NotSent(format!("HTTP {}{gap}{text}", response.status))
}

#[cfg(test)]
mod tests;
