//! Baton's own events about files: snapshots before tools change them, and the changes.
//!
//! Like all `baton.` events they are part of the session's sequence and are not sent to SDK clients.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The session takes snapshots of files before its tools change them. Recorded before the first turn, or
/// never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileTrackingBegun {}

/// The state of a file before it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Preimage {
    /// The file did not exist.
    Absent,
    /// A snapshot is stored under the SHA-256 of its content.
    Kept { digest: String, size: u64, mode: u32 },
    /// No snapshot could be taken.
    NotKept { why: String },
}

/// The snapshot of one file that a tool may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Absolute, with links resolved.
    pub path: String,
    pub before: Preimage,
}

/// A tool is about to run that may change these files. Omits files that are unchanged since a tool of this
/// turn last wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesKept {
    pub files: Vec<KeptFile>,
}

/// One file that a tool changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    pub path: String,
    /// SHA-256 of the new content; `None` if the file is gone.
    pub after: Option<String>,
    /// The difference to the last snapshot.
    pub lines_added: u64,
    pub lines_removed: u64,
}

/// The changes of a tool to the files of the preceding snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesChanged {
    pub files: Vec<ChangedFile>,
    /// Files that it left unchanged; their snapshots are not needed for this call. A file that is named
    /// neither here nor above belongs to an interrupted call: its state is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
}
