//! Requests of clients about the extensions of a session. The server that holds the session serves them.

use std::path::PathBuf;

use baton_protocol::ClientId;
use serde::{Deserialize, Serialize};

/// A request about the extensions of a session. All can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtensionRequest {
    /// Starts them for a client, unless they are started. Replies when they have joined, have failed, or wait for a user.
    Start {
        /// The client. They belong to it until it leaves.
        client: ClientId,
        /// Directory of the SDK that they import.
        sdk: Option<PathBuf>,
    },
    /// Lists them.
    List {},
    /// Ends and starts them again.
    Reload {},
    /// Switches one on or off, for all sessions of the server that holds this one.
    Enable {
        /// Its id.
        id: String,
        /// Whether it is on.
        enabled: bool,
    },
}
