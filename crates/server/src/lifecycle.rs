//! News about sessions for every connection, attached or not: made, changed, deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use baton_core::Session;
use baton_protocol::rpc::Outgoing;
use baton_protocol::{ClientId, SessionId, Timestamp};
use baton_store::Seq;
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use crate::Server;

/// Who wants to hear the news.
pub(crate) trait Listener: Send + Sync {
    /// Takes a frame. Must not wait.
    fn hear(&self, frame: &Bytes);
}

/// A part of the server that looks at sessions themselves, not at what clients are told of them.
pub(crate) trait Witness: Send + Sync {
    /// A session has recorded something, and everybody attached to it has been shown it. `after` is the place before it.
    /// Called by the session: must not wait.
    fn recorded(&self, session: &Session, after: Seq);

    /// A session is gone for good.
    fn deleted(&self, session: &SessionId);
}

/// Everybody who listens.
#[derive(Default)]
pub(crate) struct Lifecycle {
    listeners: Mutex<BTreeMap<ClientId, Arc<dyn Listener>>>,
    witnesses: RwLock<Vec<Weak<dyn Witness>>>,
}

/// What happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum News {
    #[serde(rename = "session.created")]
    Created,
    #[serde(rename = "session.updated")]
    Updated,
    #[serde(rename = "session.deleted")]
    Deleted,
}

impl Lifecycle {
    pub(crate) fn listen(&self, client: ClientId, listener: Arc<dyn Listener>) {
        self.lock().insert(client, listener);
    }

    pub(crate) fn forget(&self, client: ClientId) {
        self.lock().remove(&client);
    }

    pub(crate) fn add_witness(&self, witness: Weak<dyn Witness>) {
        self.witnesses.write().unwrap_or_else(PoisonError::into_inner).push(witness);
    }

    fn each_witness(&self, tell: impl Fn(&dyn Witness)) {
        let witnesses = self.witnesses.read().unwrap_or_else(PoisonError::into_inner);
        witnesses.iter().filter_map(Weak::upgrade).for_each(|witness| tell(&*witness));
    }

    /// Tells everybody.
    pub(crate) fn announce(&self, news: News, session: &SessionId, metadata: Option<serde_json::Value>) {
        if news == News::Deleted {
            self.each_witness(|witness| witness.deleted(session));
        }
        let listeners = self.lock();
        if listeners.is_empty() {
            return;
        }
        let mut params = json!({ "type": news, "sessionId": session });
        if let Some(metadata) = metadata {
            params["metadata"] = metadata;
        }
        if let Ok(frame) = Outgoing::notification("session.lifecycle", params).to_frame() {
            listeners.values().for_each(|listener| listener.hear(&frame));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ClientId, Arc<dyn Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Tells everybody that a session's history has grown. `after` is where it ended before.
    pub(crate) fn announce_update(&self, session: &Session, after: Seq) {
        self.lifecycle.each_witness(|witness| witness.recorded(session, after));
        let news = if session.durable.seq == 1 { News::Created } else { News::Updated };
        self.lifecycle.announce(news, &session.id, Some(metadata(session)));
    }
}

fn metadata(session: &Session) -> serde_json::Value {
    let facts = &session.durable.facts;
    let mut metadata = json!({ "startTime": session.durable.started, "modifiedTime": Timestamp::now() });
    if let Some(summary) = facts.name.as_ref().or(facts.title.as_ref()) {
        metadata["summary"] = json!(summary);
    }
    metadata
}
