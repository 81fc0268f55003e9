//! Previews what a rewind of files would undo.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_protocol::event::Preimage;
use serde::{Deserialize, Serialize};

use super::{FileState, Plan, Snapshots, TouchedFile, lines_between};

/// A change that restoring a file would undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Undone {
    /// The file.
    pub path: PathBuf,
    /// Kind of the change.
    pub change_type: ChangeType,
    /// Lines that the change added.
    pub lines_added: u64,
    /// Lines that the change removed.
    pub lines_removed: u64,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChangeType {
    Created,
    Deleted,
    Modified,
}

/// Lists the changes that restoring these files would undo. Reads the files.
#[must_use]
pub fn preview(snapshots: &Snapshots, touched: BTreeMap<PathBuf, TouchedFile>) -> Vec<Undone> {
    let plan = Plan::of(snapshots, touched);
    let undone = |(path, before): (&PathBuf, &Preimage)| {
        let change_type = match before {
            Preimage::Absent => ChangeType::Created,
            _ if FileState::of(path) == FileState::Absent => ChangeType::Deleted,
            _ => ChangeType::Modified,
        };
        let (lines_added, lines_removed) = lines_between(snapshots, before, path);
        Undone { path: path.clone(), change_type, lines_added, lines_removed }
    };
    plan.restore.iter().map(|(path, before)| undone((path, before))).collect()
}
