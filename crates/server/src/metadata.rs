//! What lists of sessions show: kept beside the history, so that a list needs no history to be read.

use baton_core::Session;
use baton_protocol::event::WorkContext;
use baton_protocol::params::SessionMetadata;
use baton_store::Summary;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::session::Settings;

/// The metadata of a session, as stored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) title: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) client_name: Option<String>,
    pub(crate) context: WorkContext,
}

pub(crate) fn encode(session: &Session, settings: &Settings) -> Bytes {
    let facts = &session.durable.facts;
    let metadata = Metadata {
        title: facts.title.clone(),
        name: facts.name.clone(),
        client_name: settings.client_name.clone(),
        context: facts.context.clone(),
    };
    serde_json::to_vec(&metadata).unwrap_or_default().into()
}

/// Metadata that cannot be read is no reason to hide a session.
pub(crate) fn decode(bytes: &[u8]) -> Metadata {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// What clients are told about a session that may not be in memory.
pub(crate) fn of(summary: &Summary) -> SessionMetadata {
    let metadata = decode(&summary.meta);
    SessionMetadata {
        session_id: summary.session.clone(),
        start_time: summary.created,
        modified_time: summary.modified,
        is_remote: false,
        summary: metadata.name.clone().or(metadata.title),
        name: metadata.name,
        context: Some(metadata.context).filter(|context| !context.cwd.is_empty()),
    }
}
