//! Reading events back. Tolerant by promise: a history always opens (P7).

use serde::Deserialize;

use super::{Body, Event};
use crate::ids::{AgentId, EventId};
use crate::json::Json;
use crate::time::Timestamp;

/// Why a text is not an event.
#[derive(Debug, thiserror::Error)]
#[error("not an event: {0}")]
pub struct InvalidEvent(#[from] serde_json::Error);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    data: Option<Json>,
    id: EventId,
    timestamp: Timestamp,
    parent_id: Option<EventId>,
    agent_id: Option<AgentId>,
    #[serde(default)]
    ephemeral: bool,
}

impl Event {
    /// Reads an event. Data that does not fit its type makes the event an unknown one, not an error: a history
    /// written by another version, or by another program, must still open.
    ///
    /// # Errors
    /// When the envelope itself (type, id, time) cannot be read.
    pub fn parse(text: &str) -> Result<Self, InvalidEvent> {
        let envelope: Envelope = serde_json::from_str(text)?;
        let data = envelope.data.unwrap_or_else(Json::empty_object);
        let body = match Body::parse_known(&envelope.kind, &data) {
            Some(Ok(body)) => body,
            Some(Err(_)) | None => Body::Unknown { kind: envelope.kind, data },
        };
        Ok(Self {
            id: envelope.id,
            timestamp: envelope.timestamp,
            parent_id: envelope.parent_id,
            agent_id: envelope.agent_id,
            ephemeral: envelope.ephemeral,
            body,
        })
    }
}
