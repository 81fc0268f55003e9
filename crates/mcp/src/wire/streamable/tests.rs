//! Streamable HTTP, with an HTTP client that answers from memory.

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::Map;

use super::streams::ATTEMPTS;
use super::*;
use crate::config::RemoteKind;
use crate::http::{ByteStream, HttpError};
use crate::shared::SharedConnection;
use crate::wire::handler::Handler;
use crate::wire::handshake::{Lifecycle, Refusal, shake_hands};
use crate::wire::peer::Peer;

/// A request as the server sees it.
#[derive(Clone)]
struct Seen {
    method: Method,
    headers: HashMap<String, String>,
    body: Value,
}

impl Seen {
    fn called(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

type Answer = dyn Fn(&Seen) -> HttpResponse + Send + Sync;

struct Web {
    seen: Mutex<Vec<Seen>>,
    answer: Box<Answer>,
}

impl Http for Web {
    fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
        let headers = request.headers.into_iter().collect::<HashMap<_, _>>();
        let body = baton_json::from_slice(&request.body).unwrap_or_default();
        let seen = Seen { method: request.method, headers, body };
        let response = (self.answer)(&seen);
        lock(&self.seen).push(seen);
        Box::pin(async { Ok(response) })
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: ByteStream) -> HttpResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    HttpResponse { status, headers: headers.collect(), body }
}

fn bytes(text: &str) -> ByteStream {
    let chunk = Ok(Bytes::from(text.to_owned()));
    Box::pin(stream::iter([chunk]))
}

fn json_of(value: &Value) -> HttpResponse {
    response(200, &[("content-type", JSON)], bytes(&value.to_string()))
}

fn empty(status: u16) -> HttpResponse {
    response(status, &[], bytes(""))
}

/// A stream of events that ends, or stays open.
fn events(text: &str, ends: bool) -> HttpResponse {
    let rest: ByteStream = if ends { Box::pin(stream::empty()) } else { Box::pin(stream::pending()) };
    response(200, &[("content-type", EVENTS)], Box::pin(bytes(text).chain(rest)))
}

fn result(seen: &Seen, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result })
}

/// Answers the handshake, with a session, and leaves everything else to `other`.
fn with_session(seen: &Seen, other: impl Fn(&Seen) -> HttpResponse) -> HttpResponse {
    match (seen.method, seen.called()) {
        (_, "initialize") => {
            let mut response = json_of(&result(seen, &json!({ "protocolVersion": "2025-06-18" })));
            response.headers.push((SESSION.into(), "s-1".into()));
            response
        }
        (_, "notifications/initialized") => empty(202),
        _ => other(seen),
    }
}

struct World {
    web: Arc<Web>,
    peer: Peer,
    tasks: TaskTracker,
}

impl World {
    async fn begin(
        lifecycle: Lifecycle,
        answer: impl Fn(&Seen) -> HttpResponse + Send + Sync + 'static,
    ) -> Result<Self, Refusal> {
        let web = Arc::new(Web { seen: Mutex::default(), answer: Box::new(answer) });
        let (log, tasks) = (ServerLog::default(), TaskTracker::new());
        let remote = Remote {
            url: Url::parse("http://127.0.0.1:1/mcp").unwrap(),
            headers: [("X-Key".to_owned(), "k".to_owned()), ("Accept".to_owned(), "all".to_owned())].into(),
            kind: RemoteKind::Http,
            supplied_headers: None,
        };
        let (outlet, inlet) = transport(&remote, web.clone(), Arc::default(), &log, &tasks);
        let client = Arc::new(SharedConnection::default());
        let handler = Handler::new("s".into(), client, log, PathBuf::from("/"), Arc::new(|| {}));
        let handler = Arc::new(handler);
        let peer = Peer::start(Box::new(outlet), Box::new(inlet), handler.clone(), &tasks);
        shake_hands(&peer, &handler, lifecycle).await?;
        Ok(Self { web, peer, tasks })
    }

    async fn connected(other: impl Fn(&Seen) -> HttpResponse + Send + Sync + 'static) -> Self {
        Self::begin(Lifecycle::Handshake, move |seen| with_session(seen, &other)).await.unwrap()
    }

    async fn request(&self, method: &str) -> Result<Value, Failure> {
        self.peer.request(method, Map::new(), None).response().await
    }

    fn seen(&self) -> Vec<Seen> {
        lock(&self.web.seen).clone()
    }

    fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.called() == method).count()
    }

    async fn close(&self) {
        self.peer.stop();
        self.peer.over().cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[tokio::test]
async fn session_and_version_are_in_all_later_requests_and_the_session_is_deleted() {
    let world = World::connected(|seen| match seen.method {
        Method::Post => json_of(&result(seen, &json!({ "ok": 1 }))),
        _ => empty(405),
    })
    .await;
    assert_eq!(world.request("a").await, Ok(json!({ "ok": 1 })));
    world.close().await;
    let seen = world.seen();
    assert_eq!((seen[0].header(SESSION), seen[0].header("mcp-protocol-version")), (None, None));
    for later in &seen[1..] {
        assert_eq!(later.header(SESSION), Some("s-1"));
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(later.header("X-Key"), Some("k"));
    }
    assert!(seen.iter().filter(|seen| seen.method == Method::Post).all(|seen| {
        seen.header("accept") == Some("text/event-stream, application/json")
            && seen.header("Accept").is_none()
    }));
    assert_eq!(seen.iter().filter(|seen| seen.method == Method::Get).count(), 1, "405 is not repeated");
    assert_eq!(seen.last().map(|seen| seen.method), Some(Method::Delete));
}

#[tokio::test(start_paused = true)]
async fn stream_that_ends_before_the_response_is_resumed_after_its_last_event() {
    let world = World::connected(|seen| match (seen.method, seen.header("last-event-id")) {
        (Method::Post, _) => events("id: e-1\ndata:\n\n", true),
        (Method::Get, None) => events("", false),
        (Method::Get, Some("e-1")) => events("id: e-2\nevent: other\ndata: x\n\n", true),
        (Method::Get, Some("e-2")) => {
            let response = json!({ "jsonrpc": "2.0", "id": "2", "result": { "resumed": true } });
            events(&format!("data: {response}\n\n"), false)
        }
        _ => empty(200),
    })
    .await;
    assert_eq!(world.request("a").await, Ok(json!({ "resumed": true })));
    assert_eq!(world.count("a"), 1, "the request was sent once");
    world.close().await;
}

#[tokio::test(start_paused = true)]
async fn stream_that_cannot_be_resumed_fails_its_request() {
    let world = World::connected(|seen| match (seen.method, seen.called()) {
        (Method::Post, "without id") => events("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", true),
        (Method::Post, _) => events("id: e-1\ndata:\n\n", true),
        _ => empty(500),
    })
    .await;
    for method in ["without id", "with id"] {
        assert_eq!(world.request(method).await, Err(Failure::Closed), "{method}");
        assert_eq!(world.count(method), 1);
    }
    let resumed = world.seen().iter().filter(|seen| seen.header("last-event-id").is_some()).count();
    assert_eq!(resumed, usize::try_from(ATTEMPTS).unwrap());
    world.close().await;
}

#[tokio::test(start_paused = true)]
async fn notifications_continue_after_their_stream_was_interrupted() {
    let world = World::connected(|seen| match (seen.method, seen.header("last-event-id")) {
        (Method::Get, None) => events("id: 7\ndata:\n\n", true),
        (Method::Get, Some("7")) => {
            let response = json!({ "jsonrpc": "2.0", "id": 2, "result": { "from": "stream" } });
            events(&format!("data: {response}\n\n"), false)
        }
        // Accepted: the response comes on the stream of notifications.
        _ => empty(202),
    })
    .await;
    assert_eq!(world.request("a").await, Ok(json!({ "from": "stream" })));
    world.close().await;
}

#[tokio::test]
async fn responses_that_mean_a_failure_fail_the_request_at_once() {
    let world = World::connected(|seen| match seen.called() {
        "expired" => empty(404),
        "refused" => {
            let error = json!({ "code": -32600, "message": "no" });
            let body = json!({ "jsonrpc": "2.0", "id": "server-error", "error": error });
            response(400, &[], bytes(&body.to_string()))
        }
        "unread" => events("data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700}}\n\n", false),
        "broken" => response(500, &[], bytes(" down\n")),
        "no json" => response(200, &[("content-type", "text/html")], bytes("<p>")),
        "large" => events(&format!("data: {}\n\n", "x".repeat(LONGEST)), true),
        _ => empty(405),
    })
    .await;
    let expired = Failure::NotSent("the session has expired (HTTP 404)".into());
    assert_eq!(world.request("expired").await, Err(expired));
    assert_eq!(world.request("refused").await, Err(Failure::refused(-32600, "no")));
    assert_eq!(world.request("unread").await, Err(Failure::refused(-32700, "")));
    assert_eq!(world.request("broken").await, Err(Failure::NotSent("HTTP 500: down".into())));
    assert_eq!(world.request("no json").await, Err(Failure::unusable()));
    assert_eq!(world.request("large").await, Err(Failure::Closed));
    for method in ["expired", "refused", "unread", "broken", "no json", "large"] {
        assert_eq!(world.count(method), 1, "{method} was sent once");
    }
    world.close().await;
}

#[tokio::test]
async fn server_without_a_response_to_initialize_fails_the_handshake() {
    let accepted = World::begin(Lifecycle::Handshake, |_| empty(202)).await.err();
    assert_eq!(accepted, Some(Refusal::Failed("the response to initialize cannot be used".into())));
    let ended = World::begin(Lifecycle::Handshake, |_| events("", true)).await.err();
    assert_eq!(ended, Some(Refusal::Failed("the connection ended during the handshake".into())));
}

#[tokio::test]
async fn requests_without_a_handshake_repeat_their_parts_in_headers() {
    let world = World::begin(Lifecycle::Stateless, |seen| match seen.called() {
        "server/discover" => json_of(&result(seen, &json!({ "supportedVersions": ["2026-07-28"] }))),
        "tools/list" => {
            let region = json!({ "type": "string", "x-mcp-header": "Region" });
            let schema = json!({ "type": "object", "properties": { "region": region } });
            json_of(&result(seen, &json!({ "tools": [{ "name": "t", "inputSchema": schema }] })))
        }
        _ => events("", false),
    })
    .await
    .unwrap();
    world.request("tools/list").await.unwrap();
    let params = json!({ "name": "t", "arguments": { "region": "eu" } });
    let call = world.peer.request("tools/call", params.as_object().unwrap().clone(), None);
    while world.count("tools/call") == 0 {
        tokio::task::yield_now().await;
    }
    let id = call.id;
    drop(call);
    // The stream of the call is closed, which cancels it; there is nothing to send.
    world.peer.notify("notifications/cancelled", json!({ "requestId": id })).await.unwrap();
    world.close().await;
    let seen = world.seen();
    assert_eq!(
        seen.iter().map(Seen::called).collect::<Vec<_>>(),
        ["server/discover", "tools/list", "tools/call"]
    );
    for seen in &seen {
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), Some(seen.called()));
        assert_eq!(seen.body["params"]["_meta"][VERSION_FIELD], "2026-07-28");
    }
    assert_eq!(seen[2].header("mcp-name"), Some("t"));
    assert_eq!(seen[2].header("mcp-param-Region"), Some("eu"));
}
