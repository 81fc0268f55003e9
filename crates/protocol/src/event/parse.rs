//! Parsing of stored events. Lenient by design: a history always opens (P7).

use serde::{Deserialize, Deserializer};

use super::{Body, Event};
use crate::ids::{AgentId, EventId};
use crate::json::Json;
use crate::time::Timestamp;

/// Error for a text that is not an event.
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
    /// Parses an event. Data that does not match its type yields an event of unknown type instead of an
    /// error: a history written by another version or another program must still open.
    ///
    /// # Errors
    /// When the envelope itself (type, id, time) cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, InvalidEvent> {
        let envelope: Envelope = serde_json::from_str(text)?;
        let body = Body::read(envelope.kind, envelope.data);
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

impl Body {
    fn read(kind: String, data: Option<Json>) -> Self {
        let data = data.unwrap_or_else(Json::empty_object);
        match Self::parse_known(&kind, &data) {
            Some(Ok(body)) => body,
            Some(Err(_)) | None => Self::Unknown { kind, data },
        }
    }
}

/// Tolerant as [`Event::parse`] is: data that does not fit its type makes the body an unknown one.
impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            #[serde(rename = "type")]
            kind: String,
            data: Option<Json>,
        }
        let Parts { kind, data } = Parts::deserialize(deserializer)?;
        Ok(Self::read(kind, data))
    }
}
