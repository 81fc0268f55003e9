//! A client of the HTTP API. It sends exactly what a test specifies, with one connection for each request,
//! and reads event streams.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_protocol::sse;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

use crate::client::LIMIT;
use crate::program::{Program, Running};

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection of any kind.
pub type Connection = Box<dyn Duplex>;

/// The address of the server.
#[derive(Debug, Clone)]
enum Address {
    Tcp(SocketAddr),
    Socket(PathBuf),
}

/// The client.
#[derive(Debug, Clone)]
pub struct Http {
    address: Address,
    token: Option<String>,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// The head, as received.
    pub head: String,
    /// The body, as text.
    pub body: String,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Streamed {
    /// Its sequence number; `None` if it is ephemeral.
    pub id: Option<u64>,
    /// Its type.
    pub kind: String,
    /// The event.
    pub event: Value,
}

impl Response {
    /// Parses the body, which must be JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the body of a response with this status.
    #[must_use]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Returns the code of an error with this status.
    #[must_use]
    pub fn refused(&self, status: u16) -> String {
        self.expect(status)["error"]["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

impl Http {
    /// Creates a client for a server's port, with the token of its home.
    #[must_use]
    pub fn new(program: &Program, server: &Running) -> Self {
        Self { token: Some(program.token()), ..Self::anonymous(server) }
    }

    /// Creates a client for a server's port, without a token.
    #[must_use]
    pub fn anonymous(server: &Running) -> Self {
        Self { address: Address::Tcp(server.http.expect("a server that listens for HTTP")), token: None }
    }

    /// Creates a client for a socket file.
    #[must_use]
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Self { address: Address::Socket(path.into()), token: None }
    }

    /// Replaces the token.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Opens a bare connection.
    pub async fn dial(&self) -> Connection {
        match &self.address {
            Address::Tcp(address) => {
                Box::new(TcpStream::connect(address).await.expect("it accepts connections"))
            }
            Address::Socket(path) => {
                Box::new(UnixStream::connect(path).await.expect("it accepts connections"))
            }
        }
    }

    /// Formats the head of a request, without the empty line that ends it.
    #[must_use]
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// Sends a request and reads the whole response.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Response {
        let mut request = self.head(method, path, headers) + "Connection: close\r\n";
        if let Some(body) = body {
            let body = body.to_string();
            request +=
                &format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        } else {
            request += "\r\n";
        }
        self.exchange(request.as_bytes()).await
    }

    /// Sends bytes and reads one response.
    pub async fn exchange(&self, request: &[u8]) -> Response {
        let mut connection = self.dial().await;
        // A server that refuses a request may close the connection while we still write.
        let _ = connection.write_all(request).await;
        read_response(connection).await
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], None).await
    }

    /// Sends a POST request.
    pub async fn post(&self, path: &str, body: Value) -> Response {
        self.send("POST", path, &[], Some(&body)).await
    }

    /// Creates a session with this id.
    pub async fn create(&self, id: &str, mut more: Value) {
        more["id"] = id.into();
        let _ = self.post("/api/sessions", more).await.expect(201);
    }

    /// Sends a prompt and returns its id.
    pub async fn prompt(&self, session: &str, text: &str) -> String {
        let path = format!("/api/sessions/{session}/prompts");
        let sent = self.post(&path, serde_json::json!({"text": text})).await.expect(202);
        sent["promptId"].as_str().expect("a prompt id").to_owned()
    }

    /// Waits for the outcome of a prompt.
    pub async fn outcome(&self, session: &str, prompt: &str) -> String {
        let mut events = self.events(session, 0).await;
        let settled = events.until(|streamed| {
            let ids = streamed.event["data"]["promptIds"].as_array();
            streamed.kind == "baton.turn_settled" && ids.is_some_and(|ids| ids.iter().any(|id| id == prompt))
        });
        settled.await.event["data"]["outcome"].as_str().expect("an outcome").to_owned()
    }

    /// Waits for a pending request in a session, and returns it.
    pub async fn pending(&self, session: &str) -> Value {
        let mut events = self.events(session, 0).await;
        loop {
            let listed = self.get(&format!("/api/sessions/{session}/requests")).await.expect(200);
            if let Some(first) = listed["requests"].get(0) {
                return first.clone();
            }
            events.next().await.expect("the stream continues");
        }
    }

    /// Opens a stream of a session's events after this sequence number.
    pub async fn events(&self, session: &str, after: u64) -> Events {
        let path = format!("/api/sessions/{session}/events");
        let cursor = after.to_string();
        self.stream(&path, &[("Accept", "text/event-stream"), ("Last-Event-ID", cursor.as_str())]).await
    }

    /// Opens the stream of the changes of all sessions.
    pub async fn feed(&self) -> Events {
        self.stream("/api/events", &[("Accept", "text/event-stream")]).await
    }

    async fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut connection = self.dial().await;
        let request = self.head("GET", path, headers) + "\r\n";
        connection.write_all(request.as_bytes()).await.expect("a connection");
        let mut reader = BufReader::new(connection);
        let head = read_head(&mut reader).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.to_lowercase().contains("content-type: text/event-stream"), "{head}");
        Events { reader, parser: sse::Parser::new(usize::MAX), events: VecDeque::new() }
    }
}

/// A stream of events.
pub struct Events {
    reader: BufReader<Connection>,
    parser: sse::Parser,
    events: VecDeque<sse::SseEvent>,
}

impl Events {
    /// Returns the next event, or `None` at the end of the stream.
    ///
    /// # Panics
    /// When no event arrives within the time limit.
    pub async fn next(&mut self) -> Option<Streamed> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event.into());
            }
            // The response has no length: it ends with its connection.
            let read = tokio::time::timeout(LIMIT, self.reader.fill_buf()).await;
            let Ok(bytes) = read.expect("no event within the time limit") else { return None };
            if bytes.is_empty() {
                return None;
            }
            self.parser.push(bytes, |event| self.events.push_back(event)).expect("no limit");
            let length = bytes.len();
            self.reader.consume(length);
        }
    }

    /// Waits for an event.
    pub async fn until(&mut self, wanted: impl Fn(&Streamed) -> bool) -> Streamed {
        loop {
            let streamed = self.next().await.expect("the stream ended before the event");
            if wanted(&streamed) {
                return streamed;
            }
        }
    }

    /// Waits for an event of a type.
    pub async fn kind(&mut self, kind: &str) -> Streamed {
        self.until(|streamed| streamed.kind == kind).await
    }
}

impl From<sse::SseEvent> for Streamed {
    fn from(sse::SseEvent { id, name, data }: sse::SseEvent) -> Self {
        assert!(!name.is_empty(), "an event without a type: {data}");
        Self {
            id: id.map(|id| id.parse().expect("a number")),
            kind: name,
            event: serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}")),
        }
    }
}

async fn read_head(reader: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    let read = async {
        while !head.ends_with(b"\r\n\r\n") {
            match reader.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("a response within the time limit");
    String::from_utf8(head).expect("UTF-8")
}

/// Reads a chunk of a chunked body; returns `None` at its end.
async fn read_chunk(reader: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut size = String::new();
    while !size.ends_with("\r\n") {
        size.push(char::from(reader.read_u8().await.ok()?));
    }
    let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).await.ok()?;
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

/// Reads a response to its end. Without any response, the status is 0.
pub async fn read_response(connection: Connection) -> Response {
    let mut reader = BufReader::new(connection);
    let head = read_head(&mut reader).await;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut response = Response { status, head, body: String::new() };
    let mut body = Vec::new();
    let read = async {
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = read_chunk(&mut reader).await {
                body.extend(chunk);
            }
        } else if let Some(length) = response.header("content-length") {
            body.resize(length.parse().expect("a length"), 0);
            reader.read_exact(&mut body).await.expect("the whole body");
        } else {
            let _ = reader.read_to_end(&mut body).await;
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("the whole response within the time limit");
    response.body = String::from_utf8(body).expect("UTF-8");
    response
}
