//! State of a server: queued replies, recorded requests, and waiting tests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::ScriptedReply;

/// How long a test waits for something that should happen at once.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of requests whose bodies are recorded. Each body repeats its conversation, so those of an hour would fill the
/// memory.
const BODIES: usize = 1000;

/// A recorded request.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; `null` if it is not JSON.
    pub body: Value,
    /// How it ended, once it has.
    pub end: Option<End>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It received the whole scripted reply.
    Answered,
    /// The client disconnected before.
    ClientLeft,
}

impl Recorded {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn to_json(&self) -> Value {
        let headers: serde_json::Map<_, _> =
            self.headers.iter().map(|(n, v)| (n.clone(), Value::from(v.as_str()))).collect();
        let end = self.end.map(|end| match end {
            End::Answered => "answered",
            End::ClientLeft => "client_left",
        });
        json!({"method": self.method, "path": self.path, "headers": headers, "body": self.body, "end": end})
    }
}

/// Shared by the server's handle and all its connections.
pub(super) struct State {
    inner: Mutex<Inner>,
    /// Counts changes, to notify waiting tests.
    changes: watch::Sender<u64>,
}

struct Inner {
    queue: VecDeque<ScriptedReply>,
    requests: Vec<Recorded>,
    connections: usize,
    models: Value,
    has_sockets: bool,
    held: HashSet<String>,
    released: HashSet<String>,
    seen: HashMap<String, u32>,
}

impl Default for State {
    fn default() -> Self {
        let inner = Inner {
            queue: VecDeque::new(),
            requests: Vec::new(),
            connections: 0,
            models: json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}),
            has_sockets: true,
            held: HashSet::new(),
            released: HashSet::new(),
            seen: HashMap::new(),
        };
        Self { inner: Mutex::new(inner), changes: watch::Sender::new(0) }
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = change(&mut self.inner());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    pub(super) fn push(&self, reply: ScriptedReply) {
        self.change(|inner| inner.queue.push_back(reply));
    }

    pub(super) fn next_reply(&self) -> Option<ScriptedReply> {
        self.change(|inner| inner.queue.pop_front())
    }

    pub(super) fn set_models(&self, models: Value) {
        self.change(|inner| inner.models = models);
    }

    pub(super) fn models(&self) -> Value {
        self.inner().models.clone()
    }

    pub(super) fn refuse_sockets(&self) {
        self.change(|inner| inner.has_sockets = false);
    }

    pub(super) fn has_sockets(&self) -> bool {
        self.inner().has_sockets
    }

    pub(super) fn note_connection(&self) {
        self.change(|inner| inner.connections += 1);
    }

    pub(super) fn connections(&self) -> usize {
        self.inner().connections
    }

    /// Records a request and returns its index. Only the latest requests keep their bodies.
    pub(super) fn record(&self, request: Recorded) -> usize {
        self.change(|inner| {
            if let Some(old) = inner.requests.len().checked_sub(BODIES) {
                inner.requests[old].body = Value::Null;
            }
            inner.requests.push(request);
            inner.requests.len() - 1
        })
    }

    pub(super) fn end(&self, index: usize, end: End) {
        self.change(|inner| inner.requests[index].end = Some(end));
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.inner().requests.clone()
    }

    pub(super) fn requests_as_json(&self) -> Value {
        self.inner().requests.iter().map(Recorded::to_json).collect()
    }

    /// Counts how often this text was seen, including this time.
    pub(super) fn times_seen(&self, what: &str) -> u32 {
        self.change(|inner| {
            let times = inner.seen.entry(what.to_owned()).or_default();
            *times += 1;
            *times
        })
    }

    pub(super) fn is_held(&self, name: &str) -> bool {
        self.inner().held.contains(name)
    }

    pub(super) fn release(&self, name: &str) {
        self.change(|inner| inner.released.insert(name.to_owned()));
    }

    /// Waits until this name is released.
    pub(super) async fn hold(&self, name: &str) {
        self.change(|inner| inner.held.insert(name.to_owned()));
        self.until(|state| state.inner().released.contains(name)).await;
    }

    /// Waits for a condition, up to the time limit.
    pub(super) async fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(LIMIT, self.until(is_so)).await;
        assert!(
            waited.is_ok(),
            "timed out after {LIMIT:?} waiting for {what}; requests: {}",
            self.requests_as_json()
        );
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !is_so(self) {
            changes.changed().await.expect("the state outlives its waiters");
        }
    }
}
