//! A client's connection: frames in both directions, calls in both directions, and the sessions that the client is attached to.

mod wait;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::frame::{Decoder, FrameError};
use baton_protocol::rpc::{CallId, Incoming, Outgoing, RpcError, code};
use baton_protocol::{Author, ClientId, Json, SessionId};
use bytes::{Bytes, BytesMut};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, info_span};

use super::dialect::Dialect;
use super::extensions::Membership;
use super::frames;
use super::methods::{self, CallFuture, CallReply};
use super::peer::Peer;
use super::{RpcDoor, RpcOptions};
use baton_people::{Identity, People};
use baton_runtime::lifecycle::{Listener, News};
use baton_runtime::session::{CallFailed, Calling};
use baton_service::{Caller, LiveSession, Service};
use baton_wire::{Closed, Outbox, Pipe, Share, stdio};

pub(crate) use self::wait::Wait;

/// Maximum number of calls of one client that run at a time. At the limit the connection is not read until one has ended:
/// a client cannot fill the memory, and no call is refused because the client is fast.
const MAX_CALLS: usize = 1024;

/// How a client is connected.
#[derive(Debug, Clone)]
pub(crate) enum ClientTransport {
    Stdio,
    Tcp(Peer),
    /// The pipes of an extension.
    Extension(Arc<Membership>),
}

impl ClientTransport {
    /// Returns the span of a connection, for log entries of its calls and tasks.
    fn span(&self, client: ClientId) -> Span {
        match self {
            Self::Stdio => info_span!("connection", %client, transport = "stdio"),
            Self::Tcp(peer) => info_span!("connection", %client, transport = "tcp", %peer),
            Self::Extension(member) => info_span!("connection", %client, extension = member.id()),
        }
    }
}

/// A connection to a client.
pub(crate) struct Connection {
    /// The door that opened it.
    pub(crate) door: RpcDoor,
    pub(crate) service: Service,
    pub(crate) options: Arc<RpcOptions>,
    pub(crate) client: ClientId,
    /// The extension that is connected; none for other clients.
    pub(crate) extension: Option<Arc<Membership>>,
    span: Span,
    outbox: Arc<Outbox>,
    decoder: Mutex<Decoder>,
    state: Mutex<State>,
    calls: Arc<Semaphore>,
    history_reads: AsyncMutex<()>,
    /// Whether the client is at standard input and output.
    is_stdio: bool,
    /// Held from a call that stops the server until its response has been sent.
    last_response: Arc<AsyncMutex<()>>,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The client's dialect; set by its first call.
    dialect: Option<Dialect>,
    /// Whether the client may call methods other than `connect`.
    admitted: bool,
    /// The person whose token the client has sent; none for the owner.
    person: Option<Identity>,
    /// The person's share of the connections.
    share: Option<Share>,
    attached: BTreeMap<SessionId, LiveSession>,
    /// Calls to the client that it has not answered.
    outgoing: HashMap<u64, oneshot::Sender<Result<Json, RpcError>>>,
    last_outgoing: u64,
    /// Calls that wait for the end of a turn, by the text of their id.
    waits: HashMap<String, CancellationToken>,
    closed: bool,
}

impl Connection {
    /// Creates a connection, and starts the task that writes to the client. The task ends after [`Connection::close`].
    pub(crate) fn open(
        door: &RpcDoor,
        output: impl Pipe,
        transport: ClientTransport,
    ) -> (Arc<Self>, JoinHandle<io::Result<()>>) {
        let (service, options) = (&door.service, &door.options);
        let client = service.new_client();
        let outbox = Outbox::new(output, options.max_backlog);
        let span = transport.span(client);
        let is_stdio = matches!(transport, ClientTransport::Stdio);
        let extension = match transport {
            ClientTransport::Extension(member) => Some(member),
            ClientTransport::Stdio | ClientTransport::Tcp(_) => None,
        };
        let admitted = options.token.is_none() || extension.is_some();
        let connection = Arc::new(Self {
            door: door.clone(),
            service: service.clone(),
            options: options.clone(),
            client,
            extension,
            span,
            outbox: outbox.clone(),
            decoder: Mutex::new(Decoder::new(options.max_message)),
            state: Mutex::new(State { admitted, ..State::default() }),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            history_reads: AsyncMutex::default(),
            is_stdio,
            last_response: Arc::default(),
            ended: CancellationToken::new(),
        });
        // An extension belongs to one session, and learns of no other.
        if connection.extension.is_none() {
            service.listen(client, connection.clone());
        }
        let writer = connection.spawn(async move { outbox.run().await });
        (connection, writer)
    }

    /// Returns the span of the connection.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Starts a task in the span of the connection. The server waits for it when it stops.
    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.service.tasks().spawn(task.instrument(self.span()))
    }

    /// Handles all complete frames in the buffer. After an error the stream cannot be decoded any further.
    pub(crate) async fn receive(self: &Arc<Self>, buffer: &mut BytesMut) -> Result<(), FrameError> {
        loop {
            match self.decode(buffer) {
                Ok(Some(body)) => self.handle_message(&body).await,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "malformed frame; closing connection");
                    let response = RpcError::new(code::PARSE_ERROR, error.to_string());
                    self.respond(&Json::null(), &Err(response));
                    return Err(error);
                }
            }
        }
    }

    /// Decodes the next frame. Before a client is admitted, it may send small frames only.
    fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let options = &self.options;
        let limit = if self.is_admitted() { options.max_message } else { options.limits.bytes_before_token };
        let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        decoder.limit(limit.min(options.max_message));
        decoder.decode(buffer)
    }

    async fn handle_message(self: &Arc<Self>, body: &[u8]) {
        match Incoming::parse(body) {
            Ok(Incoming::Request { id, method, params }) => self.handle_call(id, method, params).await,
            // Only calls that wait need this: the others are short, or wait for something that another method cancels.
            Ok(Incoming::Notification { method, params }) if method == "$/cancelRequest" => {
                self.cancel_wait(&params);
            }
            Ok(Incoming::Notification { .. }) => {}
            Ok(Incoming::Response { id, outcome }) => {
                let caller = id.parse::<u64>().ok().and_then(|id| self.lock().outgoing.remove(&id));
                if let Some(caller) = caller {
                    drop(caller.send(outcome));
                }
            }
            Err(malformed) => self.respond(&malformed.id.unwrap_or_else(Json::null), &Err(malformed.error)),
        }
    }

    async fn handle_call(self: &Arc<Self>, id: CallId, method: String, params: Json) {
        match methods::dispatch(self, &id, &method, params) {
            CallReply::Now(result) => self.respond(&id, &result),
            CallReply::BySession => {}
            CallReply::Wait(result) => {
                let connection = self.clone();
                self.spawn(async move { connection.respond_later(id, &method, result).await });
            }
            CallReply::Later(result) => {
                let permit = self.calls.clone().acquire_owned().await;
                let connection = self.clone();
                self.spawn(async move {
                    connection.respond_later(id, &method, result).await;
                    drop(permit);
                });
            }
            CallReply::ThenStop(result) => {
                let connection = self.clone();
                let last = self.last_response.clone().try_lock_owned();
                self.spawn(async move {
                    let result = methods::run(&method, result).await;
                    if connection.is_stdio && result.is_ok() {
                        // Before the client knows: a call that it sends next fails at once. Nobody would answer it.
                        stdio::refuse_input();
                    }
                    connection.respond(&id, &result);
                    drop(last);
                    connection.service.stopping().cancel();
                });
            }
        }
    }

    async fn respond_later(&self, id: CallId, method: &str, result: CallFuture) {
        let result = methods::run(method, result).await;
        self.respond(&id, &result);
    }

    /// Sends the response to a call.
    pub(crate) fn respond(&self, id: &CallId, result: &Result<Json, RpcError>) {
        if let Ok(frame) = Outgoing::response(id, result.as_ref()).to_frame() {
            // A client that has disconnected needs no response.
            let _ = self.push(frame);
        }
    }

    /// Sends a frame after all earlier ones.
    pub(super) fn push(&self, frame: Bytes) -> Result<(), Closed> {
        self.outbox.push(frame).inspect_err(|_| self.ended.cancel())
    }

    /// Waits until a call of this client may read history. A history can be large, and is in memory from reading it until it is
    /// written to the client: a client reads one at a time, and only after it has received most of what it was sent.
    pub(super) async fn acquire_history_read(&self) -> Result<AsyncMutexGuard<'_, ()>, RpcError> {
        let permit = self.history_reads.lock().await;
        self.outbox.relieved().await.map_err(|_| RpcError::failed("the connection is closed"))?;
        Ok(permit)
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Awaits a future, and returns its value; `false` if the connection or the server ends before.
    pub(crate) async fn while_open(&self, step: impl Future<Output = bool>) -> bool {
        tokio::select! {
            () = self.service.stopping().cancelled() => false,
            () = self.ended.cancelled() => false,
            more = step => more,
        }
    }

    /// Waits until a response that was to be the last one has been sent.
    pub(crate) async fn last_response_sent(&self) {
        drop(self.last_response.lock().await);
    }

    /// Closes the connection: detaches the client from its sessions, and fails calls to it.
    pub(crate) fn close(&self) {
        let (attached, outgoing) = {
            let mut state = self.lock();
            state.closed = true;
            state.share = None;
            (std::mem::take(&mut state.attached), std::mem::take(&mut state.outgoing))
        };
        drop(outgoing);
        self.service.forget(self.client);
        for session in attached.into_values() {
            session.leave(self.client);
        }
        self.outbox.close();
        self.ended.cancel();
    }

    /// Returns the client's dialect; the current one before its first call.
    pub(crate) fn dialect(&self) -> Dialect {
        self.lock().dialect.unwrap_or_default()
    }

    /// Sets the client's dialect, if it is not set yet.
    pub(crate) fn set_dialect(&self, dialect: Dialect) {
        self.lock().dialect.get_or_insert(dialect);
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.lock().admitted
    }

    pub(crate) fn admit(&self) {
        self.lock().admitted = true;
    }

    /// Admits a client of a person, unless the person has too many. The connection ends with the person's token. Returns
    /// whether the client was admitted.
    #[must_use]
    pub(crate) fn admit_person(self: &Arc<Self>, people: Arc<People>, person: Identity) -> bool {
        let mut state = self.lock();
        let name = person.person();
        if state.share.as_ref().is_none_or(|share| share.person() != name.as_ref()) {
            let Some(share) = self.door.shares.take(name.as_ref()) else { return false };
            state.share = Some(share);
        }
        state.admitted = true;
        state.person = Some(person.clone());
        drop(state);
        let connection = self.clone();
        drop(self.spawn(async move {
            tokio::select! {
                () = people.revoked(&person) => {
                    tracing::info!("token revoked; closing connection");
                    connection.ended.cancel();
                }
                () = connection.ended.cancelled() => {}
                () = connection.service.stopping().cancelled() => {}
            }
        }));
        true
    }

    /// Returns who the client is: the person whose token it has sent, or else the owner.
    pub(crate) fn caller(&self) -> Caller {
        let identity = self.lock().person.clone().unwrap_or(Identity::Owner);
        Caller::new(identity, Author::sdk(self.client))
    }

    /// Returns the session, if the client is attached to it.
    pub(crate) fn attached(&self, id: &SessionId) -> Option<LiveSession> {
        self.lock().attached.get(id).cloned()
    }

    /// Records that the client is attached to a session. If the connection is closed by now, detaches it again.
    pub(crate) fn attach(&self, session: LiveSession) {
        let mut state = self.lock();
        if state.closed {
            session.leave(self.client);
        } else {
            state.attached.insert(session.id().clone(), session);
        }
    }

    pub(crate) fn detach(&self, id: &SessionId) -> Option<LiveSession> {
        self.lock().attached.remove(id)
    }

    /// Calls a method of the client.
    pub(super) fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.lock();
            if state.closed {
                return Box::pin(async { Err(CallFailed::Gone) });
            }
            state.last_outgoing += 1;
            let id = state.last_outgoing;
            state.outgoing.insert(id, sender);
            id
        };
        let id = Json::from(serde_json::json!(id));
        if let Ok(frame) = Outgoing::request(&id, method, params).to_frame() {
            let _ = self.push(frame);
        }
        Box::pin(async move {
            match receiver.await {
                Ok(result) => result.map_err(CallFailed::Refused),
                Err(_) => Err(CallFailed::Gone),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Connection {
    fn hear(&self, news: &News) {
        // A client that is behind can look these changes up later, so they are not queued. They name sessions and quote
        // prompts, so a client without a token does not get them.
        if self.is_admitted() && !self.outbox.is_behind() {
            let _ = self.push(news.encoded(|| frames::lifecycle(news)));
        }
    }
}

#[cfg(test)]
mod tests;
