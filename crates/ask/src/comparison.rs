//! Files that a session changed, compared with their snapshots.

use std::path::{Path, PathBuf};

use baton_files::rewind::{FileState, Snapshots, text_now, text_of};
use baton_markup::diff::unified as unified_diff;
use baton_protocol::event::Preimage;
use serde::{Deserialize, Serialize};

/// A file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedFile {
    /// Its path, relative to the working directory if it is below.
    pub path: PathBuf,
    /// What happened to it.
    pub change: FileChangeKind,
    /// The difference; none if the file is not text, too large, or has no snapshot.
    pub diff: Option<String>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content is another.
    Modified,
}

impl ComparedFile {
    /// Compares a file with its snapshot. Returns nothing if they are the same. Blocks.
    #[must_use]
    pub fn compare(snapshots: &Snapshots, cwd: &str, path: &Path, before: &Preimage) -> Option<Self> {
        let now = FileState::of(path);
        if now.is(before) {
            return None;
        }
        let change = match (before, now) {
            (Preimage::Absent, _) => FileChangeKind::Added,
            (_, FileState::Absent) => FileChangeKind::Deleted,
            _ => FileChangeKind::Modified,
        };
        let shown = path.strip_prefix(cwd).unwrap_or(path);
        let old = text_of(snapshots, before).filter(|_| *before != Preimage::Absent);
        let diff = match (before, old, text_now(path)) {
            (Preimage::Absent, _, Some(new)) => Some(unified_diff(shown, None, &new)),
            (_, Some(old), Some(new)) => Some(unified_diff(shown, Some(&old), &new)),
            _ => None,
        };
        Some(Self { path: shown.to_owned(), change, diff })
    }
}
