//! Calls in both directions, over a socket pair, to a runtime with nothing in it.

use std::io::Write;

use baton_people::Role;
use baton_protocol::frame;
use baton_runtime::Options;
use baton_runtime::Runtime;
use baton_store::memory::MemoryStore;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

mod waits;

use super::*;
use crate::RpcLimits;

/// A connection, and the client's end of it.
struct Pair {
    connection: Arc<Connection>,
    client: UnixStream,
    decoder: Decoder,
    buffer: BytesMut,
    _home: Arc<TempDir>,
}

impl Pair {
    fn new(token: Option<&str>) -> Self {
        Self::with_people(token, None)
    }

    fn with_people(token: Option<&str>, people: Option<Arc<People>>) -> Self {
        Self::several(1, token, people, RpcLimits::default()).remove(0)
    }

    /// Opens connections to one server.
    fn several(
        count: usize,
        token: Option<&str>,
        people: Option<Arc<People>>,
        limits: RpcLimits,
    ) -> Vec<Self> {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let options = Options::new("0", home.path(), home.path());
        let runtime = Runtime::new(options, Arc::new(MemoryStore::default()));
        let options = RpcOptions {
            token: token.map(str::to_owned),
            people,
            limits,
            max_message: 1 << 20,
            max_backlog: 1 << 20,
        };
        let door = RpcDoor::new(&runtime, options);
        (0..count).map(|_| Self::of(&door, home.clone())).collect()
    }

    fn of(door: &RpcDoor, home: Arc<TempDir>) -> Self {
        let (server, client) = UnixStream::pair().unwrap();
        let (_, output) = server.into_split();
        let transport = ClientTransport::Tcp(Peer::User(1000));
        let (connection, _writer) = Connection::open(door, output, transport);
        let decoder = Decoder::new(1 << 20);
        Self { connection, client, decoder, buffer: BytesMut::new(), _home: home }
    }

    /// Passes a message to the server.
    async fn send(&self, message: &str) {
        let mut buffer = BytesMut::from(&frame::encode(message.as_bytes())[..]);
        self.connection.receive(&mut buffer).await.unwrap();
    }

    /// Returns the next message to the client.
    async fn received(&mut self) -> Value {
        loop {
            if let Some(body) = self.decoder.decode(&mut self.buffer).unwrap() {
                return baton_json::from_slice(&body).unwrap();
            }
            let read = self.client.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the connection ended");
        }
    }

    /// Calls a method and returns the response.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.send(&request.to_string()).await;
        let response = self.received().await;
        assert_eq!(response["id"], 7);
        response
    }
}

#[tokio::test]
async fn driver_changes_nothing_that_all_users_of_the_server_share() {
    let people = People::new(Arc::new(MemoryStore::default()));
    let mut tokens = Vec::new();
    for (name, role) in [("dora", Role::Driver), ("ada", Role::Admin)] {
        tokens.push(people.add(&name.parse().unwrap(), role, None).await.unwrap());
    }
    let server = json!({ "name": "m", "config": { "command": "true" } });
    let mut driver = Pair::with_people(Some("secret"), Some(people.clone()));
    driver.call("connect", json!({ "token": tokens[0].reveal() })).await;
    for (method, params) in [("mcp.config.add", server.clone()), ("runtime.shutdown", json!({}))] {
        let refused = driver.call(method, params).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("needs admin"), "{method}: {refused}");
    }
    assert!(driver.call("ping", json!({})).await["error"].is_null());
    let mut admin = Pair::with_people(Some("secret"), Some(people));
    admin.call("connect", json!({ "token": tokens[1].reveal() })).await;
    let added = admin.call("mcp.config.add", server).await;
    assert!(added["error"].is_null(), "{added}");
}

#[tokio::test]
async fn person_with_too_many_connections_is_refused_and_others_are_not() {
    let people = People::new(Arc::new(MemoryStore::default()));
    let mut tokens = Vec::new();
    for name in ["dora", "ada"] {
        tokens.push(people.add(&name.parse().unwrap(), Role::Driver, None).await.unwrap());
    }
    let (doras, adas) = (json!({ "token": tokens[0].reveal() }), json!({ "token": tokens[1].reveal() }));
    let limits = RpcLimits { max_per_person: 2, ..RpcLimits::default() };
    let mut pairs = Pair::several(5, Some("secret"), Some(people), limits);
    for pair in &mut pairs[..2] {
        assert_eq!(pair.call("connect", doras.clone()).await["result"]["ok"], true);
        let again = pair.call("connect", doras.clone()).await;
        assert_eq!(again["result"]["ok"], true, "one connection counts once: {again}");
    }
    let refused = pairs[2].call("connect", doras.clone()).await;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("too many connections"), "{refused}");
    let listed = pairs[2].call("session.list", json!({})).await;
    assert_eq!(listed["error"]["code"], code::AUTHENTICATION_REQUIRED, "it is not admitted: {listed}");
    assert_eq!(pairs[3].call("connect", adas).await["result"]["ok"], true, "another person");
    assert_eq!(
        pairs[4].call("connect", json!({ "token": "secret" })).await["result"]["ok"],
        true,
        "the owner"
    );
    pairs[0].connection.close();
    assert_eq!(pairs[2].call("connect", doras).await["result"]["ok"], true, "one has ended");
}

#[tokio::test]
async fn only_connect_is_allowed_before_the_token() {
    let mut pair = Pair::new(Some("secret"));
    let code = |response: &Value| response["error"]["code"].as_i64();
    assert_eq!(code(&pair.call("session.list", json!({})).await), Some(code::AUTHENTICATION_REQUIRED));
    let wrong = pair.call("connect", json!({ "token": "wrong" })).await;
    assert_eq!(code(&wrong), Some(code::AUTHENTICATION_FAILED));
    assert_eq!(code(&pair.call("session.list", json!({})).await), Some(code::AUTHENTICATION_REQUIRED));
    assert_eq!(pair.call("connect", json!({ "token": "secret" })).await["result"]["ok"], true);
    assert_eq!(pair.call("session.list", json!({})).await["result"], json!({ "sessions": [] }));
}

#[tokio::test]
async fn first_call_sets_the_dialect() {
    let mut legacy = Pair::new(None);
    assert!(legacy.call("ping", json!({})).await["result"]["timestamp"].is_number());
    assert_eq!(legacy.call("connect", json!({})).await["result"]["ok"], true);
    assert!(legacy.call("ping", json!({})).await["result"]["timestamp"].is_number(), "it does not change");
    let mut current = Pair::new(None);
    assert_eq!(current.call("connect", json!({})).await["result"]["ok"], true);
    assert!(current.call("ping", json!({})).await["result"]["timestamp"].is_string());
}

#[tokio::test]
async fn errors_name_the_method() {
    let mut pair = Pair::new(None);
    let unknown = pair.call("session.send", json!({ "sessionId": "none", "prompt": "hello" })).await;
    let expected = "Request session.send failed with message: Session not found: none";
    assert_eq!(unknown["error"], json!({ "code": code::INTERNAL_ERROR, "message": expected }));
    let missing = pair.call("session.name.set", json!({ "sessionId": "none" })).await;
    assert_eq!(missing["error"]["code"], code::INVALID_PARAMS);
    let message = missing["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("session.name.set: ") && message.contains("`name`"), "{message}");
    let nonsense = pair.call("session.nonsense", json!({})).await;
    assert_eq!(nonsense["error"]["code"], code::METHOD_NOT_FOUND);
}

#[tokio::test]
async fn malformed_message_is_answered_and_malformed_frame_ends_the_connection() {
    let mut pair = Pair::new(None);
    pair.send("not json").await;
    assert_eq!(pair.received().await["error"]["code"], code::PARSE_ERROR);
    assert!(pair.call("ping", json!({})).await["result"].is_object());
    let mut nonsense = BytesMut::from("Content-Length: many\r\n\r\n");
    assert!(pair.connection.receive(&mut nonsense).await.is_err());
    assert_eq!(pair.received().await["error"]["code"], code::PARSE_ERROR);
}

#[tokio::test]
async fn call_to_the_client_ends_with_its_response_or_with_the_connection() {
    let mut pair = Pair::new(None);
    let call = pair.connection.call("hooks.invoke", json!({}));
    let request = pair.received().await;
    assert_eq!(request["method"], "hooks.invoke");
    pair.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": 1 }).to_string()).await;
    assert_eq!(call.await, Ok(Json::from(json!(1))));
    let call = pair.connection.call("hooks.invoke", json!({}));
    pair.connection.close();
    assert_eq!(call.await, Err(CallFailed::Gone));
    assert_eq!(pair.connection.call("hooks.invoke", json!({})).await, Err(CallFailed::Gone));
}

/// Log of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn panic_fails_its_call_and_is_logged_with_method_and_connection() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // For all threads: tracing turns a span off for good if a thread without a subscriber is the first to reach it.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut pair = Pair::new(None);
    let connection = pair.connection.clone();
    let panicking: CallFuture = Box::pin(async { panic!("lost {}", "count") });
    pair.connection.spawn(async move {
        connection.respond_later(Json::from(json!(1)), "session.example", panicking).await;
    });
    let response = pair.received().await;
    assert_eq!(response["error"]["message"], "internal error; see the server log");
    assert!(pair.call("ping", json!({})).await["result"].is_object(), "the connection goes on");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for part in [r#"transport="tcp""#, "peer=uid 1000", r#"method="session.example""#, "lost count"] {
        assert!(log.contains(part), "{part} in {log}");
    }
}
