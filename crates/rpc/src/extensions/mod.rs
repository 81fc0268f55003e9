//! Extensions of sessions: programs that this door starts, and that join a session over their own pipes.
//!
//! A client asks for them with `requestExtensions`, and the server that holds the session starts them ([`DoorHost`]). They
//! belong to the clients that asked, like tools do: when the last of those leaves the session, their connections are closed
//! and their processes end. An extension is a client with fewer rights than its user: it sees one session, and may call the
//! methods in [`rights`] only.

mod host;
mod member;
mod rights;
mod start;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_ask::extensions::ExtensionEntry;
use baton_core::Change;
use baton_core::ask::{Amend, LogLevel};
use baton_protocol::event::Body;
use baton_protocol::{ClientId, Json, SessionId};
use baton_runtime::session::Handle;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use self::host::DoorHost;
pub(crate) use self::member::Membership;
pub(crate) use self::rights::{check_call, may_call};
pub(crate) use self::start::granted_variables;
use super::RpcDoor;

/// How long a client's `session.create` or `session.resume` waits for extensions to join.
const PATIENCE: Duration = Duration::from_secs(30);

/// Extensions of all sessions that this server holds.
#[derive(Default)]
pub(crate) struct Extensions {
    sessions: Mutex<HashMap<SessionId, Arc<SessionExtensions>>>,
}

/// Extensions of one session.
pub(crate) struct SessionExtensions {
    handle: Handle,
    sdk: Option<PathBuf>,
    state: Mutex<State>,
    /// Cancelled when no client wants them any more, or they are started again.
    ended: Mutex<CancellationToken>,
    /// Cancelled when they have settled for the first time.
    settled: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Clients that asked for extensions.
    requesters: BTreeSet<ClientId>,
    members: BTreeMap<String, Arc<Membership>>,
}

impl Extensions {
    /// Adds a client that wants the extensions of a session. Returns them, and whether they are to be started.
    fn enter(
        &self,
        client: ClientId,
        handle: &Handle,
        sdk: Option<PathBuf>,
    ) -> (Arc<SessionExtensions>, bool) {
        let mut sessions = lock(&self.sessions);
        if let Some(found) = sessions.get(&handle.id).filter(|found| found.handle.is_same(handle)) {
            lock(&found.state).requesters.insert(client);
            return (found.clone(), false);
        }
        let state = State { requesters: BTreeSet::from([client]), ..State::default() };
        let new = Arc::new(SessionExtensions {
            handle: handle.clone(),
            sdk,
            state: Mutex::new(state),
            ended: Mutex::default(),
            settled: CancellationToken::new(),
        });
        let earlier = sessions.insert(handle.id.clone(), new.clone());
        // Closing a connection detaches it, which comes back here.
        drop(sessions);
        if let Some(earlier) = earlier {
            earlier.stop();
        }
        (new, true)
    }

    /// Returns the extensions of a session, if a client has asked for them.
    fn of(&self, handle: &Handle) -> Option<Arc<SessionExtensions>> {
        lock(&self.sessions).get(&handle.id).filter(|found| found.handle.is_same(handle)).cloned()
    }

    /// Ends the extensions of a session if this was the last client that wanted them.
    fn release(&self, handle: &Handle, client: ClientId) {
        let Some(found) = self.of(handle) else { return };
        let mut state = lock(&found.state);
        let was_requester = state.requesters.remove(&client);
        let is_last = was_requester && state.requesters.is_empty();
        drop(state);
        if is_last {
            self.end(handle);
        }
    }

    /// Ends the extensions of a session.
    fn end(&self, handle: &Handle) {
        let mut sessions = lock(&self.sessions);
        let is_same = |found: &Arc<SessionExtensions>| found.handle.is_same(handle);
        let ended =
            if sessions.get(&handle.id).is_some_and(is_same) { sessions.remove(&handle.id) } else { None };
        drop(sessions);
        if let Some(ended) = ended {
            ended.stop();
        }
    }
}

impl SessionExtensions {
    /// Finds the extensions, and starts them. The future is ready when they have settled; they go on without it.
    fn start(self: &Arc<Self>, door: &RpcDoor) -> impl Future<Output = ()> + Send + use<> {
        let (session, door) = (self.clone(), door.clone());
        let ended = lock(&self.ended).clone();
        let started = door.service.tasks().spawn({
            let door = door.clone();
            async move {
                tokio::select! {
                    () = start::all(&session, &door, &ended) => {}
                    () = ended.cancelled() => {}
                    () = door.service.stopping().cancelled() => {}
                }
                session.settled.cancel();
            }
        });
        async move { drop(started.await) }
    }

    /// Ends all extensions, and waits until their processes are gone.
    async fn restart(self: &Arc<Self>, door: &RpcDoor) {
        let before: Vec<Arc<Membership>> = lock(&self.state).members.values().cloned().collect();
        self.stop();
        for member in before {
            member.gone().await;
        }
        *lock(&self.ended) = CancellationToken::new();
        lock(&self.state).members.clear();
        drop(tokio::time::timeout(PATIENCE, self.start(door)).await);
    }

    /// Ends all extensions, without waiting for their processes.
    fn stop(&self) {
        lock(&self.ended).cancel();
        let members: Vec<Arc<Membership>> = lock(&self.state).members.values().cloned().collect();
        for member in members {
            member.stop();
        }
    }

    /// Describes all extensions, by id.
    fn list(&self) -> Vec<ExtensionEntry> {
        lock(&self.state).members.values().map(|member| member.describe()).collect()
    }

    /// Whether there is an extension of this id.
    fn has(&self, id: &str) -> bool {
        lock(&self.state).members.contains_key(id)
    }

    fn add(&self, member: Arc<Membership>) {
        lock(&self.state).members.insert(member.id().to_owned(), member);
    }

    /// Shows the list to the session's clients.
    fn announce(&self) {
        let without_pid = |entry: ExtensionEntry| ExtensionEntry { pid: None, ..entry };
        let extensions: Vec<ExtensionEntry> = self.list().into_iter().map(without_pid).collect();
        show(&self.handle, "session.extensions_loaded", json!({ "extensions": extensions }));
    }

    /// Shows a problem to the session's clients.
    fn warn(&self, message: String) {
        let change = Change::Log { level: LogLevel::Warning, message, url: None, ephemeral: true };
        // A session that has ended meanwhile has nobody to warn.
        let _ = self.handle.tell(Amend::unsigned(change));
    }
}

/// Shows an event that is not recorded.
pub(crate) fn show(handle: &Handle, kind: &str, data: Value) {
    let body = Body::Unknown { kind: kind.into(), data: Json::from(data) };
    // A session that has ended meanwhile has no clients.
    let _ = handle.tell(Amend::unsigned(Change::Shown(Box::new(body))));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
