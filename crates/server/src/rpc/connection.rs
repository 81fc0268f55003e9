//! One client's connection: frames in, frames out, and what the client is attached to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::frame::{Decoder, FrameError};
use baton_protocol::rpc::{CallId, Incoming, Outgoing, RpcError};
use baton_protocol::{ClientId, Json, SessionId};
use bytes::{Bytes, BytesMut};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::dialect::Dialect;
use super::methods::{self, Handled, Pending};
use crate::Server;
use crate::lifecycle::Listener;
use crate::session::{CallFailed, Calling, Handle, Mail};
use crate::wire::{Closed, Outbox};

/// How many calls of one client may be under way. Whoever makes more is not read from until some are answered, so that
/// one client cannot fill the memory, and none is refused for being quick.
const MAX_CALLS: usize = 1024;

/// See the module.
pub(crate) struct Connection {
    pub(crate) server: Arc<Server>,
    pub(crate) client: ClientId,
    outbox: Arc<Outbox>,
    decoder: Mutex<Decoder>,
    state: Mutex<State>,
    calls: Arc<Semaphore>,
    reading: AsyncMutex<()>,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    /// How the client speaks; known from its first call.
    dialect: Option<Dialect>,
    /// Whether the client may call anything but `connect`.
    admitted: bool,
    attached: BTreeMap<SessionId, Handle>,
    /// Our calls that the client has not answered.
    asked: HashMap<u64, oneshot::Sender<Result<Json, RpcError>>>,
    last_asked: u64,
    closed: bool,
}

impl Connection {
    pub(crate) fn new(server: &Arc<Server>, outbox: Arc<Outbox>) -> Arc<Self> {
        let connection = Arc::new(Self {
            server: server.clone(),
            client: server.new_client(),
            outbox,
            decoder: Mutex::new(Decoder::new(server.options.max_message)),
            state: Mutex::new(State {
                admitted: server.options.connection_token.is_none(),
                ..State::default()
            }),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            reading: AsyncMutex::default(),
            ended: CancellationToken::new(),
        });
        server.lifecycle.listen(connection.client, connection.clone());
        connection
    }

    /// Takes all whole frames out of the buffer. An error means that the stream makes no sense any more.
    pub(crate) async fn receive(self: &Arc<Self>, buffer: &mut BytesMut) -> Result<(), FrameError> {
        loop {
            let frame = self.decode(buffer);
            match frame {
                Ok(Some(body)) => self.take(&body).await,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::warn!(client = %self.client, %error, "closing the connection");
                    let told = RpcError::new(baton_protocol::rpc::code::PARSE_ERROR, error.to_string());
                    self.answer(&Json::null(), &Err(told));
                    return Err(error);
                }
            }
        }
    }

    /// Takes the next frame out of the buffer. A client whose token has not come may send small ones only.
    fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let options = &self.server.options;
        let most = if self.is_admitted() { options.max_message } else { options.rpc.bytes_before_token };
        let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        decoder.limit(most.min(options.max_message));
        decoder.decode(buffer)
    }

    async fn take(self: &Arc<Self>, body: &[u8]) {
        match Incoming::parse(body) {
            Ok(Incoming::Request { id, method, params }) => self.take_call(id, &method, params).await,
            // The only notification that clients send asks to cancel a call. None of ours is worth cancelling: they
            // answer at once, or wait for something that is cancelled by its own method.
            Ok(Incoming::Notification { .. }) => {}
            Ok(Incoming::Response { id, outcome }) => {
                let asked = id.parse::<u64>().ok().and_then(|id| self.lock().asked.remove(&id));
                if let Some(waiting) = asked {
                    drop(waiting.send(outcome));
                }
            }
            Err(malformed) => self.answer(&malformed.id.unwrap_or_else(Json::null), &Err(malformed.error)),
        }
    }

    async fn take_call(self: &Arc<Self>, id: CallId, method: &str, params: Json) {
        match methods::dispatch(self, &id, method, params) {
            Handled::Now(outcome) => self.answer(&id, &outcome),
            Handled::ByResponder => {}
            Handled::Later(outcome) => {
                let place = self.calls.clone().acquire_owned().await;
                let connection = self.clone();
                self.server.tasks.spawn(async move {
                    connection.answer_later(id, outcome).await;
                    drop(place);
                });
            }
            Handled::Farewell(outcome) => {
                let connection = self.clone();
                self.server.tasks.spawn(async move {
                    connection.clone().answer_later(id, outcome).await;
                    connection.server.stopping.cancel();
                });
            }
        }
    }

    async fn answer_later(self: Arc<Self>, id: CallId, outcome: Pending) {
        let outcome = methods::guarded(outcome).await;
        self.answer(&id, &outcome);
    }

    /// Answers a call.
    pub(crate) fn answer(&self, id: &CallId, outcome: &Result<Json, RpcError>) {
        if let Ok(frame) = Outgoing::response(id, outcome.as_ref()).to_frame() {
            // Whoever has left does not need the answer.
            let _ = self.push(frame);
        }
    }

    /// Sends a frame after all frames before it.
    pub(super) fn push(&self, frame: Bytes) -> Result<(), Closed> {
        self.outbox.push(frame).inspect_err(|_| self.ended.cancel())
    }

    /// Waits until a call may read history for this client. What is read is in memory until it is written, and a history
    /// can be large: a client gets one at a time, and the next when it has read what it was sent.
    pub(super) async fn turn_to_read(&self) -> Result<AsyncMutexGuard<'_, ()>, RpcError> {
        let turn = self.reading.lock().await;
        let gone = |_| RpcError::failed("the connection is closed");
        self.outbox.relieved().await.map_err(gone)?;
        Ok(turn)
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Whether to go on: what `heard` says, unless the connection or the server ends before that.
    pub(crate) async fn until_over(&self, heard: impl Future<Output = bool>) -> bool {
        tokio::select! {
            () = self.server.stopping.cancelled() => false,
            () = self.ended.cancelled() => false,
            go_on = heard => go_on,
        }
    }

    /// The client is gone: its sessions hear of it, and nobody waits for its answers any more.
    pub(crate) fn close(&self) {
        let (attached, asked) = {
            let mut state = self.lock();
            state.closed = true;
            (std::mem::take(&mut state.attached), std::mem::take(&mut state.asked))
        };
        drop(asked);
        self.server.lifecycle.forget(self.client);
        self.server.models.tunnel.forget(self.client);
        for handle in attached.into_values() {
            drop(handle.send(Mail::Leave(self.client)));
        }
        self.outbox.close();
    }

    /// How the client speaks, as far as is known.
    pub(crate) fn dialect(&self) -> Dialect {
        self.lock().dialect.unwrap_or_default()
    }

    /// Takes note of how the client speaks, from its first call.
    pub(crate) fn note_dialect(&self, dialect: Dialect) {
        self.lock().dialect.get_or_insert(dialect);
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.lock().admitted
    }

    pub(crate) fn admit(&self) {
        self.lock().admitted = true;
    }

    /// The session, if the client is attached to it.
    pub(crate) fn attached(&self, id: &SessionId) -> Option<Handle> {
        self.lock().attached.get(id).cloned()
    }

    /// Takes note that the client is attached. If it left meanwhile, the session is told at once.
    pub(crate) fn attach(&self, handle: Handle) {
        let mut state = self.lock();
        if state.closed {
            drop(handle.send(Mail::Leave(self.client)));
        } else {
            state.attached.insert(handle.id.clone(), handle);
        }
    }

    pub(crate) fn detach(&self, id: &SessionId) -> Option<Handle> {
        self.lock().attached.remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Calls the client.
    pub(super) fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.lock();
            if state.closed {
                return Box::pin(async { Err(CallFailed::Gone) });
            }
            state.last_asked += 1;
            let id = state.last_asked;
            state.asked.insert(id, sender);
            id
        };
        let id = Json::from(serde_json::json!(id));
        if let Ok(frame) = Outgoing::request(&id, method, params).to_frame() {
            let _ = self.push(frame);
        }
        Box::pin(async move {
            match receiver.await {
                Ok(outcome) => outcome.map_err(CallFailed::Refused),
                Err(_) => Err(CallFailed::Gone),
            }
        })
    }
}

impl Listener for Connection {
    fn hear(&self, frame: &Bytes) {
        // News that can be looked up any time are not worth a queue. And they name sessions and quote prompts: they are
        // not for somebody who has yet to show the token.
        if self.is_admitted() && !self.outbox.is_behind() {
            let _ = self.push(frame.clone());
        }
    }
}
