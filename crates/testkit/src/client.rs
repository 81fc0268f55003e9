//! A client like the official SDKs: JSON-RPC in `Content-Length` frames, over a pipe or a socket.
//!
//! It records every received frame in order, so that a test can check what came before what. It has its own
//! framing on purpose: with the server's code, a mistake in the framing would go unnoticed on both sides.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinHandle;

/// How long a test waits for something that should happen at once.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A connected client. Dropping it closes the connection.
pub struct Client {
    writer: AsyncMutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>,
    shared: Arc<Shared>,
    next_id: AtomicU64,
    reading: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Seen {
    frames: Vec<Value>,
    /// Responses to our calls, by id, as indexes into `frames`.
    answers: HashMap<String, usize>,
    closed: bool,
}

/// The outcome of a call: a result, or the error object.
pub type CallResult = Result<Value, Value>;

impl Client {
    /// Creates a client on any pair of streams.
    pub fn new(
        mut reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let received = Arc::clone(&shared);
        let reading = tokio::spawn(async move {
            let (mut buffer, mut chunk) = (Vec::new(), vec![0; 256 * 1024]);
            while let Ok(length @ 1..) = reader.read(&mut chunk).await {
                buffer.extend_from_slice(&chunk[..length]);
                received.take(&mut buffer);
            }
            received.change(|seen| seen.closed = true);
        });
        let writer: Box<dyn AsyncWrite + Send + Unpin> = Box::new(writer);
        Self { writer: AsyncMutex::new(Some(writer)), shared, next_id: AtomicU64::new(1), reading }
    }

    /// Calls a method and waits for the response.
    ///
    /// # Errors
    /// With the error object of the response.
    ///
    /// # Panics
    /// When there is no response within the time limit.
    pub async fn call(&self, method: &str, params: Value) -> CallResult {
        let id = self.start(method, params).await;
        self.answer(id).await
    }

    /// Calls a method that must succeed.
    pub async fn ok(&self, method: &str, params: Value) -> Value {
        self.call(method, params).await.unwrap_or_else(|error| panic!("{method} failed: {error}"))
    }

    /// Calls a method that must fail, and returns the error.
    pub async fn refused(&self, method: &str, params: Value) -> Value {
        match self.call(method, params.clone()).await {
            Ok(result) => panic!("{method} {params} should have failed, but returned {result}"),
            Err(error) => error,
        }
    }

    /// Sends a call without waiting for its response.
    pub async fn start(&self, method: &str, params: Value) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&call).await;
        id
    }

    /// Waits for the response to a call.
    pub async fn answer(&self, id: u64) -> CallResult {
        self.answer_to(&json!(id)).await
    }

    /// Waits for the response to a call with any id.
    pub async fn answer_to(&self, id: &Value) -> CallResult {
        let key = id.to_string();
        let answer = self
            .wait_for(&format!("a response to call {id}"), |seen| {
                seen.answers.get(&key).map(|at| seen.frames[*at].clone())
            })
            .await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Sends any message. If the server is gone, waiting for the response fails.
    pub async fn send(&self, message: &Value) {
        let _ = self.send_bytes(&frame(message)).await;
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *self.writer.lock().await {
            Some(writer) => {
                writer.write_all(bytes).await?;
                writer.flush().await
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes the sending half; the server's remaining frames are still read.
    pub async fn hang_up(&self) {
        if let Some(mut writer) = self.writer.lock().await.take() {
            let _ = writer.shutdown().await;
        }
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(&self) {
        self.wait_for("the end of the connection", |seen| seen.closed.then_some(())).await;
    }

    /// Waits until more than this many frames have arrived. Returns `false` if the connection ends first.
    pub async fn more_than(&self, count: usize) -> bool {
        let look = |seen: &Seen| {
            let more = seen.frames.len() > count;
            (more || seen.closed).then_some(more)
        };
        self.wait_for("another frame", look).await
    }

    /// Returns all received frames, in order.
    #[must_use]
    pub fn frames(&self) -> Vec<Value> {
        self.shared.seen().frames.clone()
    }

    /// Returns the number of received frames.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.seen().frames.len()
    }

    /// Returns the received events of a session, in order.
    #[must_use]
    pub fn events(&self, session: &str) -> Vec<Value> {
        self.shared.seen().frames.iter().filter_map(|frame| event_of(frame, session)).cloned().collect()
    }

    /// Waits for a frame at or after the given index. Returns its index and the value that `pick` returns for
    /// it.
    pub async fn find<T>(&self, what: &str, from: usize, pick: impl Fn(&Value) -> Option<T>) -> (usize, T) {
        self.wait_for(what, |seen| {
            seen.frames.iter().enumerate().skip(from).find_map(|(at, frame)| Some((at, pick(frame)?)))
        })
        .await
    }

    /// Waits for an event of a type, at or after the given index.
    pub async fn event(&self, session: &str, kind: &str, from: usize) -> (usize, Value) {
        let what = format!("{kind} in {session}");
        let wanted = |frame: &Value| event_of(frame, session).filter(|event| event["type"] == kind).cloned();
        self.find(&what, from, wanted).await
    }

    /// Waits for a call from the server. Returns its id and parameters.
    pub async fn asked(&self, method: &str, from: usize) -> (Value, Value) {
        let wanted = |frame: &Value| {
            let is_it = frame["method"] == method && frame.get("id").is_some();
            is_it.then(|| (frame["id"].clone(), frame["params"].clone()))
        };
        self.find(&format!("a call of {method}"), from, wanted).await.1
    }

    async fn wait_for<T>(&self, what: &str, look: impl Fn(&Seen) -> Option<T>) -> T {
        let mut changes = self.shared.changes.subscribe();
        let wait = async {
            loop {
                {
                    let seen = self.shared.seen();
                    if let Some(found) = look(&seen) {
                        return Some(found);
                    }
                    if seen.closed {
                        return None;
                    }
                }
                let _ = changes.changed().await;
            }
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("the connection ended before {what}; received {}", self.digest()),
            Err(_) => panic!("timed out after {LIMIT:?} waiting for {what}; received {}", self.digest()),
        }
    }

    /// Returns the last frames, shortened, for messages of failing tests.
    #[must_use]
    pub fn digest(&self) -> String {
        let seen = self.shared.seen();
        let short = |frame: &Value| frame.to_string().chars().take(300).collect::<String>();
        let last: Vec<String> = seen.frames.iter().rev().take(12).rev().map(short).collect();
        format!("{} frames, the last ones:\n{}", seen.frames.len(), last.join("\n"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changes.send_modify(|count| *count += 1);
    }

    /// Takes all complete frames out of the buffer.
    fn take(&self, buffer: &mut Vec<u8>) {
        self.change(|seen| {
            let mut at = 0;
            while let Some((body, end)) = next_frame(&buffer[at..]) {
                let message: Value = serde_json::from_slice(body).expect("a frame with JSON in it");
                if message.get("method").is_none() && !message["id"].is_null() {
                    let before = seen.answers.insert(message["id"].to_string(), seen.frames.len());
                    assert!(before.is_none(), "second response to a call: {message}");
                }
                seen.frames.push(message);
                at += end;
            }
            buffer.drain(..at);
        });
    }
}

/// Returns the body of the first frame, and the end of the frame. As strict as the strictest SDK: exactly one
/// header.
fn next_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let header = std::str::from_utf8(&bytes[..head]).expect("a header in ASCII");
    let length = header.strip_prefix("Content-Length: ").unwrap_or_else(|| panic!("the header {header:?}"));
    let length: usize = length.parse().unwrap_or_else(|_| panic!("the length {length:?}"));
    let end = head + 4 + length;
    (bytes.len() >= end).then(|| (&bytes[head + 4..end], end))
}

/// Encodes a message as a frame.
#[must_use]
pub fn frame(message: &Value) -> Vec<u8> {
    frame_of(message.to_string().as_bytes())
}

/// Encodes bytes as a frame.
#[must_use]
pub fn frame_of(body: &[u8]) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    frame
}

/// Returns the event in a frame, if it is one of this session.
#[must_use]
pub fn event_of<'a>(frame: &'a Value, session: &str) -> Option<&'a Value> {
    let is_it = frame["method"] == "session.event" && frame["params"]["sessionId"] == session;
    is_it.then(|| &frame["params"]["event"])
}
