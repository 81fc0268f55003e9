//! Registry of the live sessions.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_handle::{ActorMessage, Failure, Handle, JoinReply, JoinRequest, Port, Publisher};
use baton_protocol::SessionId;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

use super::actor::{Loading, Mailbox};
use super::panics;
use crate::Runtime;

/// Handles of all live sessions.
#[derive(Default)]
pub struct Registry {
    live: Mutex<HashMap<SessionId, Handle>>,
    arrivals: watch::Sender<()>,
}

impl Registry {
    /// Returns the session, if it is live.
    pub fn get(&self, id: &SessionId) -> Option<Handle> {
        self.lock().get(id).cloned()
    }

    /// Returns all live sessions.
    pub fn all(&self) -> Vec<Handle> {
        self.lock().values().cloned().collect()
    }

    /// Subscribes to the loading and creation of sessions.
    pub fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// Returns the session, and opens it from the store if it is not live. Asks can be sent at once: they are served
    /// once the session is open, and fail with the reason if it cannot be opened.
    pub fn open(&self, runtime: &Arc<Runtime>, id: &SessionId) -> Handle {
        let mut live = self.lock();
        // An actor whose task was aborted leaves a closed mailbox behind; the next actor replaces it. One that has lost its
        // lease serves nothing any more, although it may take a moment to end.
        let serves = |handle: &&Handle| !handle.mailbox().is_closed() && !handle.hub.has_lost_its_lease();
        if let Some(handle) = live.get(id).filter(serves) {
            return handle.clone();
        }
        let (handle, nascent) = prepare_loading(runtime, id);
        live.insert(id.clone(), handle.clone());
        self.arrivals.send_replace(());
        spawn(runtime, &handle, nascent.hub.clone(), nascent.open());
        handle
    }

    /// Creates a session with its first client.
    ///
    /// # Errors
    /// If the session exists, or cannot be written.
    pub async fn create(
        &self,
        runtime: &Arc<Runtime>,
        id: &SessionId,
        joining: JoinRequest,
        port: Arc<dyn Port>,
    ) -> Result<(Handle, JoinReply), Failure> {
        let (handle, nascent) = prepare_loading(runtime, id);
        {
            let mut live = self.lock();
            if live.get(id).is_some_and(|handle| !handle.mailbox().is_closed()) {
                return Err(Failure::Refused(format!(
                    "a session named {id} exists already; resume it, or choose another id"
                )));
            }
            live.insert(id.clone(), handle.clone());
        }
        self.arrivals.send_replace(());
        let (sender, receiver) = oneshot::channel();
        spawn(runtime, &handle, nascent.hub.clone(), nascent.create(joining, port, sender));
        let joined = receiver.await.unwrap_or_else(|_| Err(handle.hub.gone()))?;
        Ok((handle, joined))
    }

    /// Removes a session that has ended, unless another actor has replaced it.
    pub(crate) fn remove(&self, id: &SessionId, mailbox: &mpsc::UnboundedSender<ActorMessage>) {
        let mut live = self.lock();
        if live.get(id).is_some_and(|handle| handle.mailbox().same_channel(mailbox)) {
            live.remove(id);
        }
    }

    /// Removes an unused session, unless a message has just arrived; returns that message. Under the lock, so that a lookup
    /// finds the session alive or not at all.
    pub(crate) fn try_remove(
        &self,
        id: &SessionId,
        inbox: &mut mpsc::UnboundedReceiver<ActorMessage>,
    ) -> Option<ActorMessage> {
        let mut live = self.lock();
        match inbox.try_recv() {
            Ok(message) => Some(message),
            Err(_) => {
                live.remove(id);
                None
            }
        }
    }

    /// Forwards a message that reached a session while it ended: a client attaches to the next actor, everything else fails
    /// with `gone`.
    pub(crate) fn forward(
        &self,
        runtime: &Arc<Runtime>,
        id: &SessionId,
        message: ActorMessage,
        gone: Failure,
    ) {
        match message {
            ActorMessage::Work(_)
            | ActorMessage::Leave(_)
            | ActorMessage::Unlink(..)
            | ActorMessage::StepDown => {}
            message @ ActorMessage::Join(..) => {
                if let Err(error) = self.open(runtime, id).mailbox().send(message) {
                    error.0.refuse(gone);
                }
            }
            message => message.refuse(gone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Handle>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prepare_loading(runtime: &Arc<Runtime>, id: &SessionId) -> (Handle, Loading) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let hub = Publisher::new(id.clone());
    let handle = Handle::new(id.clone(), &hub, sender.clone());
    let mailbox = Mailbox { sender, receiver };
    (handle, Loading { runtime: runtime.clone(), id: id.clone(), hub, mailbox })
}

/// Starts the task of an actor, in the session's span. A panic while the session is opened or created is logged; the actor
/// itself handles later ones.
fn spawn(
    runtime: &Arc<Runtime>,
    handle: &Handle,
    hub: Publisher,
    nascent: impl Future<Output = ()> + Send + 'static,
) {
    // Boxed: what an async block captures and then awaits has room in it twice.
    let nascent = Box::pin(nascent);
    // Without a parent: the session outlives the connection that opens it, and serves others.
    let span = tracing::info_span!(parent: None, "session", session = %handle.id);
    let (runtime, handle) = (runtime.clone(), handle.clone());
    let tasks = runtime.tasks.clone();
    let task = async move {
        if let Err(panic) = AssertUnwindSafe(nascent).catch_unwind().await {
            tracing::error!(panic = panics::text(&*panic), "session panicked while it was opened");
            hub.fail(Failure::Internal(handle.id.clone()));
            hub.close();
            runtime.registry.remove(&handle.id, handle.mailbox());
        }
    };
    tasks.spawn(task.instrument(span));
}
