//! Which sessions are in memory, and how to get at them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::{Mailbox, Nascent};
use super::hub::Hub;
use super::mail::{Failure, Handle, Joined, Joining, Mail};
use crate::Server;

/// See the module.
#[derive(Default)]
pub(crate) struct Registry {
    live: Mutex<HashMap<SessionId, Handle>>,
    arrivals: watch::Sender<()>,
}

impl Registry {
    /// The session, if it is in memory.
    pub(crate) fn get(&self, id: &SessionId) -> Option<Handle> {
        self.lock().get(id).cloned()
    }

    /// All sessions in memory.
    pub(crate) fn all(&self) -> Vec<Handle> {
        self.lock().values().cloned().collect()
    }

    /// Tells whenever a session comes into memory.
    pub(crate) fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// The session, read back from the store if need be. Messages may be sent at once: they wait until it is open, and
    /// are refused with the reason if it cannot be opened.
    pub(crate) fn open(&self, server: &Arc<Server>, id: &SessionId) -> Handle {
        let mut live = self.lock();
        // A closed mailbox is what a session leaves behind that ended without a word; the next one takes its place.
        if let Some(handle) = live.get(id).filter(|handle| !handle.mailbox.is_closed()) {
            return handle.clone();
        }
        let (handle, nascent) = conceive(server, id);
        live.insert(id.clone(), handle.clone());
        self.arrivals.send_replace(());
        server.tasks.spawn(nascent.open());
        handle
    }

    /// Makes a session, with its first client.
    pub(crate) async fn create(
        &self,
        server: &Arc<Server>,
        id: &SessionId,
        joining: Joining,
    ) -> Result<(Handle, Joined), Failure> {
        let (handle, nascent) = conceive(server, id);
        {
            let mut live = self.lock();
            if live.get(id).is_some_and(|handle| !handle.mailbox.is_closed()) {
                return Err(Failure::Refused(format!(
                    "a session named {id} exists already; use session.resume"
                )));
            }
            live.insert(id.clone(), handle.clone());
        }
        self.arrivals.send_replace(());
        let (sender, receiver) = oneshot::channel();
        server.tasks.spawn(nascent.create(joining, sender));
        let joined = receiver.await.unwrap_or_else(|_| Err(handle.gone()))?;
        Ok((handle, joined))
    }

    /// Forgets a session that has ended, unless another one has taken its place.
    pub(super) fn remove(&self, id: &SessionId, mailbox: &mpsc::UnboundedSender<Mail>) {
        let mut live = self.lock();
        if live.get(id).is_some_and(|handle| handle.mailbox.same_channel(mailbox)) {
            live.remove(id);
        }
    }

    /// Forgets a session that nobody needs, unless somebody has just written to it. Under the lock, so that whoever
    /// looks it up either gets it alive or not at all.
    pub(super) fn try_remove(
        &self,
        id: &SessionId,
        inbox: &mut mpsc::UnboundedReceiver<Mail>,
    ) -> Option<Mail> {
        let mut live = self.lock();
        match inbox.try_recv() {
            Ok(mail) => Some(mail),
            Err(_) => {
                live.remove(id);
                None
            }
        }
    }

    /// Hands on a message that reached a session on its way out; `gone` is why it left.
    pub(super) fn forward(&self, server: &Arc<Server>, id: &SessionId, mail: Mail, gone: Failure) {
        match mail {
            Mail::Finished(..) | Mail::Note(..) | Mail::Leave(_) => {}
            mail @ Mail::Join(..) => {
                if let Err(error) = self.open(server, id).mailbox.send(mail) {
                    error.0.refuse(gone);
                }
            }
            mail => mail.refuse(gone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Handle>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conceive(server: &Arc<Server>, id: &SessionId) -> (Handle, Nascent) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let hub = Arc::new(Hub::new(id.clone()));
    let handle = Handle { id: id.clone(), hub: hub.clone(), mailbox: sender.clone() };
    let mailbox = Mailbox { sender, receiver };
    (handle, Nascent { server: server.clone(), id: id.clone(), hub, mailbox })
}
