//! Declarations that a session trusts while it is open, because its permission mode or a client that approves everything
//! allowed them. Nobody was shown them, so no file remembers them: the next session asks again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files and plugins that one open session trusts, each with the digest of its content.
#[derive(Default)]
pub struct SessionTrust(Mutex<BTreeSet<(PathBuf, String)>>);

impl SessionTrust {
    /// Trusts a file or the directory of a plugin, with exactly this content.
    pub(crate) fn add(&self, path: PathBuf, digest: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((path, digest));
    }

    /// Returns the contents of all trusted paths.
    pub(crate) fn all(&self) -> BTreeSet<(PathBuf, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the digests that are trusted for a path.
    pub(crate) fn of(&self, path: &Path) -> Vec<String> {
        self.all().into_iter().filter(|(known, _)| known == path).map(|(_, digest)| digest).collect()
    }
}
