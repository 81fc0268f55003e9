//! Results of a rewind.

use std::path::PathBuf;

use baton_core::RewindObstacle;
use baton_files::rewind::Skip;
use serde::{Deserialize, Serialize};

/// Result of a rewind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// Whether it succeeded, and if not, how far it got.
    pub outcome: RewindOutcome,
    /// Number of public events that were removed, if any were.
    pub removed: Option<u64>,
    /// Files that were restored.
    pub restored: Vec<PathBuf>,
    /// Files that were left as they are, and why.
    pub skipped: Vec<(PathBuf, Skip)>,
    /// Error text, if it failed.
    pub error: Option<String>,
}

/// Outcome of a rewind, under the names of the SDK protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewindOutcome {
    /// The conversation was rewound, and the files if that was wanted.
    #[default]
    Success,
    /// Refused: the session is busy.
    SessionBusy,
    /// Refused: the session takes no snapshots of files.
    FileChangeTrackingDisabled,
    /// A file could not be restored; the others are as they were before the rewind.
    FilesRolledBack,
    /// A file could not be restored, and some files could not be put back to their state before the rewind.
    RollbackIncomplete,
    /// The conversation could not be rewound. Files that were restored stay restored.
    TruncationFailed,
    /// Everything was rewound, but obsolete snapshots of files could not be deleted.
    SnapshotPruneFailed,
}

impl From<RewindObstacle> for RewindOutcome {
    fn from(obstacle: RewindObstacle) -> Self {
        match obstacle {
            RewindObstacle::Busy => Self::SessionBusy,
            RewindObstacle::FilesNotTracked => Self::FileChangeTrackingDisabled,
        }
    }
}
