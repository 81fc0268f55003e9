//! A runtime with one session, and scripted clients of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::ask::{Amend, SendPrompt};
use baton_core::{Change, LogLevel, Profile};
use baton_history::owner;
use baton_protocol::event::Prompt;
use baton_protocol::params::SessionParams;
use baton_protocol::{ClientId, EventId, Json, PromptId, SessionId};
use baton_store::{Holder, Owner, Store, Summary, Take};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::store::ScriptedStore;
use crate::Runtime;
use crate::cluster::Cluster;
use crate::options::Options;
use crate::session::{Batch, CallFailed, Calling, Failure, Handle, JoinKind, JoinRequest, Port};

/// Virtual time after which a test fails, instead of waiting forever.
const LIMIT: Duration = Duration::from_secs(3600);

pub(super) struct World {
    pub(super) runtime: Arc<Runtime>,
    pub(super) store: Arc<ScriptedStore>,
    pub(super) id: SessionId,
    home: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(ScriptedStore::new());
        let options = Options::new("test", home.path().join("home"), home.path());
        let runtime = Runtime::new(options, store.clone());
        Self { runtime, store, id: "s1".parse().unwrap(), home }
    }

    /// A world whose server shares its sessions with others.
    pub(super) fn shared() -> Self {
        let mut world = Self::new();
        Arc::get_mut(&mut world.runtime).unwrap().cluster = Some(Cluster::default());
        world
    }

    /// Creates the session, with a client that offers nothing.
    pub(super) async fn create(&self) -> (Handle, Client) {
        self.create_with(Profile::default(), self.params()).await
    }

    /// Creates the session, with a client that has hooks: each hook is a [`Call`], and work waits for its reply.
    pub(super) async fn create_with_hooks(&self) -> (Handle, Client) {
        self.create_with(Profile { hooks: true, ..Profile::default() }, self.params()).await
    }

    pub(super) async fn create_with(&self, profile: Profile, params: SessionParams) -> (Handle, Client) {
        self.try_create(profile, params).await.unwrap()
    }

    pub(super) async fn try_create(
        &self,
        profile: Profile,
        params: SessionParams,
    ) -> Result<(Handle, Client), Failure> {
        let (client, port) = self.client();
        let joining = joining(client.id, profile, params, JoinKind::Create);
        let created = self.runtime.registry.create(&self.runtime, &self.id, joining, port).await;
        created.map(|(handle, _)| (handle, client))
    }

    /// Attaches a further client.
    pub(super) async fn join(&self, handle: &Handle) -> Result<Client, Failure> {
        self.join_with(handle, Profile::default()).await
    }

    pub(super) async fn join_with(&self, handle: &Handle, profile: Profile) -> Result<Client, Failure> {
        let (client, port) = self.client();
        let joining = joining(client.id, profile, self.params(), JoinKind::Resume);
        handle.join(joining, port).await.map(|_| client)
    }

    pub(super) fn params(&self) -> SessionParams {
        let directory = self.home.path().to_string_lossy().into_owned();
        SessionParams { working_directory: Some(directory), ..SessionParams::default() }
    }

    pub(super) fn open(&self) -> Handle {
        self.runtime.registry.open(&self.runtime, &self.id)
    }

    pub(super) fn is_live(&self) -> bool {
        self.runtime.registry.get(&self.id).is_some()
    }

    pub(super) async fn summary(&self) -> Summary {
        self.store.memory.summary(&self.id).await.unwrap().unwrap()
    }

    pub(super) async fn holder(&self) -> Option<Holder> {
        self.summary().await.holder
    }

    /// Lets another server take the session over. That server is dead afterwards, so that this one can open it again.
    pub(super) async fn take_over(&self) {
        let epoch = self.holder().await.unwrap().epoch;
        let other = Owner { boot: "another boot".into(), ..owner::this_process() };
        self.store.memory.acquire(&self.id, other, Take::From(epoch)).await.unwrap();
    }

    pub(super) fn client(&self) -> (Client, Arc<dyn Port>) {
        let id = self.runtime.new_client();
        let (event_sender, events) = mpsc::unbounded_channel();
        let (call_sender, calls) = mpsc::unbounded_channel();
        let panic_on = Arc::<Mutex<Option<On>>>::default();
        let port = ScriptedPort { events: event_sender, calls: call_sender, panic_on: panic_on.clone() };
        (Client { id, events, calls, panic_on }, Arc::new(port))
    }
}

pub(super) fn joining(
    client: ClientId,
    profile: Profile,
    params: SessionParams,
    kind: JoinKind,
) -> JoinRequest {
    JoinRequest { client, profile, params: Box::new(params), legacy: false, kind, returning: None }
}

pub(super) struct Client {
    pub(super) id: ClientId,
    events: mpsc::UnboundedReceiver<Value>,
    pub(super) calls: mpsc::UnboundedReceiver<Call>,
    panic_on: Arc<Mutex<Option<On>>>,
}

/// Use of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Event,
    Call,
}

/// A call of the session to its client.
pub(super) struct Call {
    pub(super) params: Value,
    reply: oneshot::Sender<Result<Json, CallFailed>>,
}

impl Call {
    pub(super) fn reply(self) {
        self.reply_with(json!({}));
    }

    pub(super) fn reply_with(self, reply: Value) {
        drop(self.reply.send(Ok(Json::from(reply))));
    }

    /// Waits until the work that made the call has been stopped.
    pub(super) async fn stopped(mut self) {
        at_once("the end of the work", self.reply.closed()).await;
    }
}

impl Client {
    /// Waits for the next event of a type, and returns its data.
    pub(super) async fn next(&mut self, kind: &str) -> Value {
        let search = async {
            loop {
                let event = self.events.recv().await.unwrap_or_else(|| panic!("closed before {kind}"));
                if event["type"] == kind {
                    break event["data"].clone();
                }
            }
        };
        within_limit(kind, search).await
    }

    /// Waits until the session has dropped the client, and returns the types of the events until then.
    pub(super) async fn closed(&mut self) -> Vec<String> {
        let mut kinds = Vec::new();
        let drain = async {
            while let Some(event) = self.events.recv().await {
                kinds.push(event["type"].as_str().unwrap().to_owned());
            }
        };
        at_once("the end of the session", drain).await;
        kinds
    }

    /// Returns the types of the events that have arrived.
    pub(super) fn arrived(&mut self) -> Vec<String> {
        let mut kinds = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            kinds.push(event["type"].as_str().unwrap().to_owned());
        }
        kinds
    }

    /// Waits for a call of the session.
    pub(super) async fn called(&mut self) -> Call {
        within_limit("a call", self.calls.recv()).await.unwrap()
    }

    /// Replies to all calls from now on.
    pub(super) fn reply_to_calls(&mut self) {
        let (_, none) = mpsc::unbounded_channel();
        let mut calls = std::mem::replace(&mut self.calls, none);
        tokio::spawn(async move {
            while let Some(call) = calls.recv().await {
                call.reply();
            }
        });
    }

    /// Makes the client's port panic once.
    pub(super) fn panic_on(&self, on: On) {
        *self.panic_on.lock().unwrap() = Some(on);
    }
}

/// Waits until the actor has been unloaded.
pub(super) async fn gone(handle: &Handle) {
    at_once("the end of the actor", handle.mailbox().closed()).await;
}

/// Waits for something that needs no timer. The clock stands still meanwhile: it would advance while the tasks wait for the
/// thread that writes mirror files.
async fn at_once<T>(what: &str, future: impl Future<Output = T>) -> T {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    // The clock does not advance while a blocking task runs.
    let stop_clock = tokio::task::spawn_blocking(move || wait.recv_timeout(Duration::from_secs(30)).is_ok());
    tokio::select! {
        value = future => {
            drop(done);
            value
        }
        _ = stop_clock => panic!("no {what}"),
    }
}

/// Waits for something that may take timers.
async fn within_limit<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("no {what}"))
}

struct ScriptedPort {
    events: mpsc::UnboundedSender<Value>,
    calls: mpsc::UnboundedSender<Call>,
    panic_on: Arc<Mutex<Option<On>>>,
}

impl ScriptedPort {
    fn panic_if_planned(&self, on: On) {
        let planned = self.panic_on.lock().unwrap().take_if(|planned| *planned == on);
        assert!(planned.is_none(), "planned panic");
    }
}

impl Port for ScriptedPort {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        self.panic_if_planned(On::Event);
        for event in events.events() {
            drop(self.events.send(baton_json::from_slice(&event.json).unwrap()));
        }
    }

    fn call(&self, _: &'static str, params: Value) -> Calling {
        self.panic_if_planned(On::Call);
        let (reply, receiver) = oneshot::channel();
        drop(self.calls.send(Call { params, reply }));
        Box::pin(async move { receiver.await.unwrap_or(Err(CallFailed::Gone)) })
    }
}

/// Records one event, `session.info`.
pub(super) fn note(text: &str) -> Amend {
    let message = text.to_owned();
    let change = Change::Log { level: LogLevel::Info, message, url: None, ephemeral: false };
    Amend::unsigned(change)
}

pub(super) fn rename(name: &str) -> Amend {
    Amend::unsigned(Change::Name { name: name.into(), by_user: true })
}

pub(super) async fn prompt(handle: &Handle, text: &str) -> PromptId {
    let prompt = Prompt { text: text.into(), ..Prompt::default() };
    handle.ask(SendPrompt { prompt: Box::new(prompt) }).await.unwrap()
}

pub(super) async fn noted(handle: &Handle, text: &str) -> Result<Option<EventId>, Failure> {
    handle.ask(note(text)).await
}

/// Lets all other tasks run until they wait. The clock stands still.
pub(super) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
