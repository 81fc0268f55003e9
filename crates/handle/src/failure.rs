//! Failures of asks.

use baton_core::Refusal;
use baton_protocol::SessionId;
use baton_store::StoreError;
use serde::{Deserialize, Serialize};

/// Why a session did not serve an ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The session does not exist, or has been unloaded.
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    /// The store failed, or another server holds the session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session refused the ask; the reason is written for people.
    #[error("{0}")]
    Refused(String),
    /// The server has a bug: the actor or its work panicked. The log has the details.
    #[error("internal error in session {0}; see the server log")]
    Internal(SessionId),
}

impl From<Refusal> for Failure {
    fn from(Refusal(why): Refusal) -> Self {
        Self::Refused(why)
    }
}
