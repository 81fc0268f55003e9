//! Asks about the extensions of a session. The server that holds the session serves them. All can be repeated.

use std::path::PathBuf;

use baton_protocol::ClientId;
use serde::{Deserialize, Serialize};

use crate::family::family;

family! {
    /// Asks about extensions.
    ExtensionsAsk, ExtensionsReply in Extensions;

    /// Starts the extensions for a client, unless they are started. Replies when they have joined, have failed, or wait for a
    /// user.
    StartExtensions {
        /// The client. They belong to it until it leaves.
        client: ClientId,
        /// Directory of the SDK that they import.
        sdk: Option<PathBuf>,
    } -> ();

    /// Lists the extensions.
    ListExtensions {} -> Vec<ExtensionEntry>;

    /// Ends the extensions and starts them again.
    ReloadExtensions {} -> ();

    /// Switches an extension on or off, for all sessions of the server that holds this one.
    EnableExtension {
        /// Its id.
        id: String,
        /// Whether it is on.
        enabled: bool,
    } -> ();
}

/// An extension of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionEntry {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it comes from: `project`, `user` or `plugin`.
    pub source: String,
    /// Its status.
    pub status: ExtensionStatus,
    /// Id of its process, while it runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<i32>,
}

/// Status of an extension, as SDKs know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExtensionStatus {
    /// Its process has started, and has not joined yet.
    Starting,
    /// It has joined the session.
    Running,
    /// The user has switched it off, or has not approved it.
    Disabled,
    /// It could not be started, or has ended.
    Failed,
}
