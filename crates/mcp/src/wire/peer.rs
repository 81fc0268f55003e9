//! The peer: sends requests to a server and finds their responses, and has the server's own messages handled.
//!
//! One task reads. Every request is sent by a task of its own, so that a caller that leaves cannot interrupt it halfway, and
//! so is every answer to a server's request. All of them end with the connection. What the messages mean is decided in
//! [`super::handler`]; how they travel, by the two halves of a transport, [`Outlet`] and [`Inlet`].
//!
//! The server is a stranger: responses to unknown requests are ignored, its unanswered requests are bounded (reading pauses
//! above that), and so are the messages that it has not read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Progress;
use super::handler::{Handler, Observer, is_question};
use super::message::{Failure, INVALID_PARAMS, Message, number};
use crate::text::clean;
use crate::{Working, lock};

/// Messages to a server that may be on their way at the same time.
const SENDING: usize = 1024;
/// Requests of a server that may be unanswered at the same time.
const ANSWERING: usize = 64;
/// How long a server may take to receive a message that has no response, or a request that does not wait for one any more.
const TELLING: Duration = Duration::from_secs(10);

/// JSON-RPC error code: a message that is not allowed now.
const INVALID_REQUEST: i64 = -32600;

/// The half of a transport that sends.
pub(super) trait Outlet: Send + Sync {
    /// Sends a message. Its place in the order of messages is that of this call; the future has the result, and ends early
    /// if it is dropped, but never within a message.
    fn send(&self, message: Message) -> Working<'static, Result<(), Failure>>;

    /// Receives the version of the protocol that was agreed on.
    fn agreed(&self, _version: &str) {}

    /// Ends what belongs to a request that waits for nothing any more.
    fn forget(&self, _request: u64) {}

    /// Closes the connection.
    fn close(&self) -> Working<'_, ()>;
}

/// The half of a transport that receives.
pub(super) trait Inlet: Send {
    /// Returns the next message; `None` at the end.
    fn next(&mut self) -> Working<'_, Option<Message>>;
}

/// A connection whose messages are correlated. Dropping it closes the connection.
pub(super) struct Peer {
    core: Arc<Core>,
    _stop: DropGuard,
}

struct Core {
    outlet: Box<dyn Outlet>,
    handler: Arc<Handler>,
    tasks: TaskTracker,
    last: AtomicU64,
    /// Requests without a response; none any more once the connection has ended.
    pending: Mutex<Option<HashMap<u64, Pending>>>,
    /// Requests of the server that are being answered, by their id as JSON.
    questions: Mutex<HashMap<String, CancellationToken>>,
    sending: Arc<Semaphore>,
    answering: Arc<Semaphore>,
    /// `_meta` of every request, if there is no handshake.
    meta: OnceLock<Map<String, Value>>,
    /// Whether the server has answered the first request.
    is_ready: AtomicBool,
    /// Cancelled to end the connection.
    stop: CancellationToken,
    /// Cancelled when the connection has ended.
    over: CancellationToken,
}

struct Pending {
    response: oneshot::Sender<Result<Value, Failure>>,
    observer: Option<Observer>,
    /// Says that it does not wait any more.
    _ended: DropGuard,
}

/// A request that waits for its response. Dropping it forgets the request, without telling the server.
pub(super) struct Waiting {
    pub(super) id: u64,
    response: oneshot::Receiver<Result<Value, Failure>>,
    core: Arc<Core>,
}

impl Waiting {
    /// Returns the result. Cancel-safe.
    pub(super) async fn response(&mut self) -> Result<Value, Failure> {
        (&mut self.response).await.unwrap_or(Err(Failure::Closed))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.core.take(self.id).is_some() {
            self.core.outlet.forget(self.id);
        }
    }
}

impl Peer {
    /// Starts reading.
    pub(super) fn start(
        outlet: Box<dyn Outlet>,
        inlet: Box<dyn Inlet>,
        handler: Arc<Handler>,
        tasks: &TaskTracker,
    ) -> Self {
        let core = Arc::new(Core {
            outlet,
            handler,
            tasks: tasks.clone(),
            last: AtomicU64::new(0),
            pending: Mutex::new(Some(HashMap::new())),
            questions: Mutex::default(),
            sending: Arc::new(Semaphore::new(SENDING)),
            answering: Arc::new(Semaphore::new(ANSWERING)),
            meta: OnceLock::new(),
            is_ready: AtomicBool::new(false),
            stop: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        let stop = core.stop.clone().drop_guard();
        core.spawn(Box::pin(core.clone().read(inlet)));
        Self { core, _stop: stop }
    }

    /// Sends a request. Its `_meta` gets a progress token, and what requests without a handshake need.
    pub(super) fn request(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        observer: Option<Observer>,
    ) -> Waiting {
        let id = self.core.next_id();
        let mut meta = self.core.meta.get().cloned().unwrap_or_default();
        if let Some(Value::Object(more)) = params.remove("_meta") {
            meta.extend(more);
        }
        meta.insert("progressToken".into(), json!(id));
        params.insert("_meta".into(), Value::Object(meta));
        self.core.begin(id, method, Value::Object(params), observer)
    }

    /// Sends a request with these parameters only.
    pub(super) fn plain_request(&self, method: &str, params: Value) -> Waiting {
        self.core.begin(self.core.next_id(), method, params, None)
    }

    /// Sends a notification. It is sent even if the caller does not wait for it.
    pub(super) async fn notify(&self, method: &str, params: Value) -> Result<(), Failure> {
        let permit = self.core.permit()?;
        let sent = self.core.outlet.send(Message::Notification { method: method.into(), params });
        let (sender, result) = oneshot::channel();
        let core = self.core.clone();
        self.core.spawn(Box::pin(async move {
            let _ = sender.send(core.tell(sent).await);
            drop(permit);
        }));
        result.await.unwrap_or(Err(Failure::Closed))
    }

    /// Uses a version of the protocol from now on. Without a handshake, every request carries `meta`.
    pub(super) fn agree(&self, version: &str, meta: Option<Map<String, Value>>) {
        if let Some(meta) = meta {
            // A second agreement does not happen.
            let _ = self.core.meta.set(meta);
        }
        self.core.outlet.agreed(version);
    }

    /// Ends the connection, in the background.
    pub(super) fn stop(&self) {
        self.core.stop.cancel();
    }

    /// Returns the token that is cancelled when the connection has ended.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.core.over
    }
}

impl Core {
    /// Spawns a task of the connection. The future is boxed by the caller, so that the code of tasks exists once.
    fn spawn(&self, future: Working<'static, ()>) {
        self.tasks.spawn(future);
    }

    fn next_id(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = self.sending.clone().try_acquire_owned();
        permit.map_err(|_| Failure::NotSent("the server does not read its messages".into()))
    }

    async fn unless_stopped(&self, sent: Working<'static, Result<(), Failure>>) -> Result<(), Failure> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Failure::Closed),
            result = sent => result,
        }
    }

    /// Waits until a message was sent that has no response.
    async fn tell(&self, sent: Working<'static, Result<(), Failure>>) -> Result<(), Failure> {
        let slow = || Failure::NotSent(format!("not received within {} s", TELLING.as_secs()));
        timeout(TELLING, self.unless_stopped(sent)).await.unwrap_or_else(|_| Err(slow()))
    }

    fn begin(self: &Arc<Self>, id: u64, method: &str, params: Value, observer: Option<Observer>) -> Waiting {
        let (sender, response) = oneshot::channel();
        let waiting = Waiting { id, response, core: self.clone() };
        let ended = CancellationToken::new();
        match &mut *lock(&self.pending) {
            Some(pending) => {
                let _ended = ended.clone().drop_guard();
                pending.insert(id, Pending { response: sender, observer, _ended });
            }
            // Without a sender, the response is that the connection is closed.
            None => return waiting,
        }
        let permit = match self.permit() {
            Ok(permit) => permit,
            Err(failure) => {
                self.resolve(id, Err(failure));
                return waiting;
            }
        };
        let sent = self.outlet.send(Message::Request { id: json!(id), method: method.into(), params });
        let core = self.clone();
        self.spawn(Box::pin(async move {
            // A server that has responded may never say that it received the request.
            let abandoned = async {
                ended.cancelled().await;
                sleep(TELLING).await;
            };
            let sent = tokio::select! {
                sent = core.unless_stopped(sent) => sent,
                () = abandoned => Ok(()),
            };
            if let Err(failure) = sent {
                core.resolve(id, Err(failure));
            }
            drop(permit);
        }));
        waiting
    }

    fn take(&self, id: u64) -> Option<Pending> {
        lock(&self.pending).as_mut()?.remove(&id)
    }

    fn resolve(&self, id: u64, result: Result<Value, Failure>) {
        // A request that was cancelled, or that never was.
        let Some(pending) = self.take(id) else { return };
        let _ = pending.response.send(result);
        self.outlet.forget(id);
    }

    async fn read(self: Arc<Self>, mut inlet: Box<dyn Inlet>) {
        loop {
            let message = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                message = inlet.next() => message,
            };
            match message {
                Some(Message::Response { id, result }) => self.responded(&id, result),
                Some(Message::Notification { method, params }) => self.notified(&method, &params),
                Some(Message::Request { id, method, params }) => self.asked(id, method, params).await,
                None => break,
            }
        }
        self.stop.cancel();
        let unanswered = lock(&self.pending).take();
        // Dropping the senders fails the requests.
        drop((unanswered, inlet));
        self.outlet.close().await;
        self.over.cancel();
    }

    fn responded(&self, id: &Value, result: Result<Value, Failure>) {
        let id = match number(id) {
            Some(id) => id,
            // The server could not read a request. Before it is ready there is only one.
            None if id.is_null() && !self.is_ready.load(Ordering::Relaxed) => {
                self.last.load(Ordering::Relaxed)
            }
            None => return,
        };
        if result.is_ok() {
            self.is_ready.store(true, Ordering::Relaxed);
        }
        self.resolve(id, result);
    }

    fn notified(&self, method: &str, params: &Value) {
        if !self.is_ready.load(Ordering::Relaxed) && method != "notifications/message" {
            return;
        }
        match method {
            "notifications/cancelled" => {
                let question = params.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(question) = lock(&self.questions).remove(&question) {
                    question.cancel();
                }
            }
            "notifications/progress" => {
                let observer = params
                    .get("progressToken")
                    .and_then(number)
                    .and_then(|token| lock(&self.pending).as_ref()?.get(&token)?.observer.clone());
                if let (Some(observer), Some(progress)) = (observer, progress(params)) {
                    observer(progress);
                }
            }
            _ => self.handler.notified(method, params),
        }
    }

    /// Answers a request of the server, in a task of its own.
    async fn asked(self: &Arc<Self>, id: Value, method: String, params: Value) {
        let permit = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            permit = self.answering.clone().acquire_owned() => permit,
        };
        let refusal = self.refusal(&method);
        let (key, cancelled) = (id.to_string(), self.stop.child_token());
        lock(&self.questions).insert(key.clone(), cancelled.clone());
        let core = self.clone();
        self.spawn(Box::pin(async move {
            let answer = async {
                match refusal {
                    Some(refusal) => Err(refusal),
                    None => core.handler.answer(&id, &method, params).await,
                }
            };
            // One that the server cancelled is not answered.
            let answer = tokio::select! {
                biased;
                () = cancelled.cancelled() => None,
                answer = answer => Some(answer),
            };
            lock(&core.questions).remove(&key);
            if let Some(result) = answer {
                let sent = core.outlet.send(Message::Response { id, result });
                // The server asked; if it cannot be told, it knows why.
                let _ = core.tell(sent).await;
            }
            drop(permit);
        }));
    }

    /// Returns why a request of the server is not looked at.
    fn refusal(&self, method: &str) -> Option<Failure> {
        if method != "ping" && !self.is_ready.load(Ordering::Relaxed) {
            return Some(Failure::refused(INVALID_REQUEST, "there was no handshake yet"));
        }
        // Without a handshake, a server asks within a request or not at all.
        let is_idle = || lock(&self.pending).as_ref().is_none_or(HashMap::is_empty);
        if self.meta.get().is_some() && is_question(method) && is_idle() {
            return Some(Failure::refused(INVALID_PARAMS, "there is no request that this belongs to"));
        }
        None
    }
}

fn progress(params: &Value) -> Option<Progress> {
    let message = params.get("message").and_then(Value::as_str).map(|message| clean(message, 1000));
    let number = |name: &str| params.get(name).and_then(Value::as_f64);
    Some(Progress { progress: number("progress")?, total: number("total"), message })
}

#[cfg(test)]
mod tests;
