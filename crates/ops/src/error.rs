//! Errors, with what to do about them.

use std::io;
use std::path::{Path, PathBuf};

use baton_store::StoreError;

/// Why an operation failed. Nothing was changed, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// The store could not be copied, read or checked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// The failed operation, as a verb.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file to write exists.
    #[error("{} exists; choose another name, or use --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The archive is damaged, incomplete, or not a backup of Baton.
    #[error("{} cannot be restored: {why}", path.display())]
    Archive {
        /// Path of the archive.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The home has state that a restore would replace.
    #[error("{} is not empty; use --force to replace its sessions, which are then moved aside", .0.display())]
    NotEmpty(PathBuf),
    /// A process uses the home.
    #[error("{0}; stop it first, for example with `baton stop`")]
    InUse(String),
}

impl OpsError {
    /// Creates the conversion of an error of the system.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { doing, path, error }
    }
}
