//! Notifications that sessions were created, changed or deleted, for all connections, attached or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use baton_core::Session;
use baton_protocol::{ClientId, SessionId, Timestamp};
use baton_store::{Seq, Summary};
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use crate::Runtime;

/// A receiver of notifications about all sessions.
pub trait Listener: Send + Sync {
    /// Receives a notification. Must not block.
    fn hear(&self, news: &News);
}

/// Notification about one session, encoded once for all listeners of a door.
pub struct News {
    /// The change.
    pub change: LifecycleChange,
    /// The session.
    pub session: SessionId,
    /// Metadata as in lists of sessions; none for a deleted session.
    pub metadata: Option<serde_json::Value>,
    encoded: OnceLock<Bytes>,
}

impl News {
    /// Returns the notification in a door's encoding. `encode` is called once, for the first listener.
    pub fn encoded(&self, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.encoded.get_or_init(encode).clone()
    }
}

/// A component that observes the state of sessions, rather than their events.
pub trait Observer: Send + Sync {
    /// Called when a session has appended events and its clients have received them, and when one with pending work was opened:
    /// after a restart, or taken over. `after` is the head before.
    /// Runs in the session's actor: must not block.
    fn recorded(&self, session: &Session, after: Seq);

    /// Called when the pending requests of a session changed without an event: forms, and requests of MCP servers. Must not
    /// block.
    fn asked(&self, _session: &Session) {}

    /// Called when another server created a session. Must not block.
    fn found(&self, _session: &Summary) {}

    /// Called when a session of another server has changed. `after` is its head before. Must not block.
    fn heard(&self, _session: &Session, _after: Seq) {}

    /// Called when changes of sessions of other servers may have been missed. Must not block.
    fn missed(&self) {}

    /// Called when a session was deleted.
    fn deleted(&self, session: &SessionId);
}

/// All listeners and observers.
#[derive(Default)]
pub struct Lifecycle {
    listeners: Mutex<BTreeMap<ClientId, Arc<dyn Listener>>>,
    /// Number of listeners.
    count: watch::Sender<usize>,
    observers: RwLock<Vec<Weak<dyn Observer>>>,
}

/// Change of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LifecycleChange {
    /// It was created.
    #[serde(rename = "session.created")]
    Created,
    /// Its history has grown.
    #[serde(rename = "session.updated")]
    Updated,
    /// It was deleted.
    #[serde(rename = "session.deleted")]
    Deleted,
}

impl Lifecycle {
    /// Adds the listener of a client.
    pub fn listen(&self, client: ClientId, listener: Arc<dyn Listener>) {
        let mut listeners = self.lock();
        listeners.insert(client, listener);
        self.count.send_replace(listeners.len());
    }

    /// Removes the listener of a client.
    pub fn forget(&self, client: ClientId) {
        let mut listeners = self.lock();
        listeners.remove(&client);
        self.count.send_replace(listeners.len());
    }

    /// Returns the number of listeners, as it changes.
    pub(crate) fn listener_count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Adds an observer, for as long as it exists.
    pub fn add_observer(&self, observer: Weak<dyn Observer>) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    fn each_observer(&self, notify: impl Fn(&dyn Observer)) {
        let observers = self.observers.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| notify(&*observer));
    }

    /// Notifies observers of a session that another server created.
    pub(crate) fn announce_found(&self, session: &Summary) {
        self.each_observer(|observer| observer.found(session));
    }

    /// Notifies observers of a session that was opened with pending work: they compare later states with this one, and the
    /// server that held it may have died before its own were notified.
    pub(crate) fn announce_pending(&self, session: &Session, head: Seq) {
        self.each_observer(|observer| observer.recorded(session, head));
    }

    /// Notifies observers of the state of a session of another server.
    pub(crate) fn announce_state(&self, session: &Session, after: Seq) {
        self.each_observer(|observer| observer.heard(session, after));
    }

    /// Notifies observers that changes of sessions of other servers may have been missed.
    pub(crate) fn announce_gap(&self) {
        self.each_observer(|observer| observer.missed());
    }

    /// Notifies all listeners of a change.
    pub fn announce(
        &self,
        change: LifecycleChange,
        session: &SessionId,
        metadata: Option<serde_json::Value>,
    ) {
        if change == LifecycleChange::Deleted {
            self.each_observer(|observer| observer.deleted(session));
        }
        let listeners = self.lock();
        if listeners.is_empty() {
            return;
        }
        let news = News { change, session: session.clone(), metadata, encoded: OnceLock::new() };
        listeners.values().for_each(|listener| listener.hear(&news));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ClientId, Arc<dyn Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Notifies observers that pending requests changed which are not recorded.
    pub(crate) fn announce_asks(&self, session: &Session) {
        self.lifecycle.each_observer(|observer| observer.asked(session));
    }

    /// Notifies observers and listeners that a history has grown. `after` is its head before.
    pub(crate) fn announce_update(&self, session: &Session, after: Seq) {
        self.lifecycle.each_observer(|observer| observer.recorded(session, after));
        let created = session.durable.seq == 1;
        let change = if created { LifecycleChange::Created } else { LifecycleChange::Updated };
        self.lifecycle.announce(change, &session.id, Some(metadata(session)));
    }
}

/// Returns the metadata of a session that has just changed, as in lists of sessions.
pub(crate) fn metadata(session: &Session) -> serde_json::Value {
    let facts = &session.durable.facts;
    let mut metadata = json!({ "startTime": session.durable.started, "modifiedTime": Timestamp::now() });
    if let Some(summary) = facts.name.as_ref().or(facts.title.as_ref()) {
        metadata["summary"] = json!(summary);
    }
    metadata
}
