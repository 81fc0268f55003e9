//! News about sessions for every connection, attached or not: made, changed, deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::Session;
use baton_protocol::rpc::Outgoing;
use baton_protocol::{ClientId, SessionId, Timestamp};
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use crate::Server;

/// Who wants to hear the news.
pub(crate) trait Listener: Send + Sync {
    /// Takes a frame. Must not wait.
    fn hear(&self, frame: &Bytes);
}

/// Everybody who listens.
#[derive(Default)]
pub(crate) struct Lifecycle {
    listeners: Mutex<BTreeMap<ClientId, Arc<dyn Listener>>>,
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

    /// Tells everybody.
    pub(crate) fn announce(&self, news: News, session: &SessionId, metadata: Option<serde_json::Value>) {
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
    /// Tells everybody that a session's history has grown.
    pub(crate) fn announce_update(&self, session: &Session) {
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
