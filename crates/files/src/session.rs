//! The files of one session.

use std::path::{Path, PathBuf};

use baton_protocol::SessionId;
use baton_store::{Seq, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::checkpoints::Checkpoints;
use crate::held::HeldFiles;
use crate::rewind::Snapshots;
use crate::workspace::Workspace;
use crate::{home, mirror};

/// Files of one session, in a directory of its own. A value like a path: creating one touches no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionFiles {
    directory: PathBuf,
}

impl SessionFiles {
    /// Returns the files of a session below a home.
    #[must_use]
    pub fn of(home: &Path, session: &SessionId) -> Self {
        Self { directory: home.join(home::SESSIONS).join(session.as_str()) }
    }

    /// Returns the path of the directory, which clients and the model are shown.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the copy of the session's public events.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.directory.join("events.jsonl")
    }

    /// Returns the path of the database of the session's tools.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.directory.join("session.db")
    }

    /// Returns the workspace of the session.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        Workspace::at(self.directory.clone())
    }

    /// Returns the checkpoints of the session.
    #[must_use]
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::of(&self.directory)
    }

    /// Returns the files that a command in the sandbox created, and that wait for a person's decision.
    #[must_use]
    pub fn held(&self) -> HeldFiles {
        HeldFiles::of(&self.directory)
    }

    /// Returns the snapshots of files that the session changed.
    #[must_use]
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::of(&self.directory)
    }

    /// Detects events that the store has lost: `events.jsonl` is written after the store, so if it ends with an event that
    /// the store does not have, a power failure or a truncated log took the last writes. Renames the file to save it, and
    /// returns a description for users.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn lost_events(
        &self,
        store: &dyn Store,
        session: &SessionId,
        head: Seq,
    ) -> Result<Option<String>, StoreError> {
        mirror::lost_events(store, session, head, self.events()).await
    }

    /// Deletes all files of the session. Its history is in the store, so a failure leaves nothing but unused files.
    pub async fn delete(self) {
        #[expect(clippy::disallowed_methods, reason = "runs on a blocking thread")]
        let deleted = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(self.directory)).await;
        drop(deleted);
    }
}
