//! Frames: a length, and as many bytes of JSON.
//!
//! JSON, because every message is a value that the runtime can serialise, and because servers of two neighbouring versions
//! work together: unknown fields are ignored, and a field that is missing has its default.

use std::io;

use baton_protocol::{ClientId, SessionId};
use baton_runtime::session::remote::{Detail, FromOwner, SessionBrief, SessionNews, ToOwner};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Largest frame: a message of a client with its attachments, and its envelope.
pub(crate) const MAX_FRAME: usize = 300 << 20;

/// A frame of an established connection. Channels are numbered by the end that opens them; that end is the edge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// Opens a channel to a session.
    Open {
        /// Number of the channel.
        channel: u64,
        /// The session.
        session: SessionId,
        /// An id that precedes those of all clients of the edge.
        tap: ClientId,
    },
    /// A message of an edge.
    Up {
        /// Number of the channel.
        channel: u64,
        /// The message.
        message: ToOwner,
    },
    /// A message of an owner.
    Down {
        /// Number of the channel.
        channel: u64,
        /// The message.
        message: FromOwner,
    },
    /// Opens a channel for the states of all sessions that the other end holds.
    Watch {
        /// Number of the channel.
        channel: u64,
        /// How much is sent.
        #[serde(default)]
        detail: Detail,
    },
    /// Sessions that have changed.
    News {
        /// Number of the channel.
        channel: u64,
        /// Their states.
        sessions: Vec<SessionNews>,
        /// What changed, in short.
        #[serde(default)]
        briefs: Vec<SessionBrief>,
    },
    /// The edge closes a channel.
    CloseUp {
        /// Number of the channel.
        channel: u64,
    },
    /// The owner closes a channel.
    CloseDown {
        /// Number of the channel.
        channel: u64,
    },
    /// Heartbeat.
    Ping {},
}

/// Encodes a frame. Returns none for a value that cannot be, or that is too large.
pub(crate) fn encode(frame: &impl Serialize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame).ok()?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME {
        return None;
    }
    let header = u32::try_from(length).ok()?.to_be_bytes();
    bytes[..4].copy_from_slice(&header);
    Some(bytes)
}

/// Reads a frame of up to `limit` bytes.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<T> {
    let length = stream.read_u32().await? as usize;
    if length > limit {
        let why = format!("a frame of {length} bytes, where {limit} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut bytes = Vec::new();
    // Memory grows with what arrives, not with what was announced.
    let read = stream.take(length as u64).read_to_end(&mut bytes).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
