//! Directories of sandboxes, in Baton's home: what programs inside write that is neither the work nor the session's.
//!
//! Temporary files of a session are there until it is deleted, and caches of a working directory until somebody deletes
//! them. Neither is part of a backup, and servers do not share them.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::path::{Path, PathBuf};

use baton_protocol::SessionId;

/// Directory, in the home, of all that sandboxes write.
const SANDBOXES: &str = "sandbox";

/// Returns the private directory of a session's sandbox.
#[must_use]
pub fn private(home: &Path, session: &SessionId) -> PathBuf {
    home.join(SANDBOXES).join("sessions").join(session.as_str())
}

/// Returns the directory of the caches of all working directories.
#[must_use]
pub fn caches(home: &Path) -> PathBuf {
    home.join(SANDBOXES).join("caches")
}

/// Deletes the private directory of a session's sandbox. What cannot be deleted is only unused.
pub async fn delete(home: &Path, session: &SessionId) {
    let directory = private(home, session);
    drop(tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await);
}
