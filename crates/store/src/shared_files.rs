//! Files of sessions that all servers of a store share.
//!
//! A session works in a directory of the server that holds it. Where servers share sessions, that directory is a copy of the
//! files in the store, and the next server that acquires the session fetches them. Without shared files, the directory is
//! the truth.

use baton_protocol::SessionId;
use bytes::Bytes;

use crate::{Lease, StoreFuture};

/// A shared file, without its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedFile {
    /// Path below the directory of the session, with `/` between its parts.
    pub path: String,
    /// Digest of the content, as the writer computed it.
    pub digest: String,
}

/// A change of a shared file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// Creates or replaces a file.
    Put {
        /// The file.
        file: SharedFile,
        /// Its content.
        body: Bytes,
    },
    /// Deletes a file. Does nothing if there is none.
    Delete {
        /// Its path.
        path: String,
    },
}

/// Files of sessions. They are deleted with their session.
pub trait SharedFiles: Send + Sync {
    /// Lists the files of a session, by path.
    fn list_files(&self, session: &SessionId) -> StoreFuture<'_, Vec<SharedFile>>;

    /// Reads a file; none if there is none.
    fn read_file(&self, session: &SessionId, path: &str) -> StoreFuture<'_, Option<Bytes>>;

    /// Changes files, all or none. Fails with [`StoreError::Fenced`](crate::StoreError::Fenced) if another server has
    /// acquired the session since: a server that was paused must not replace the files of the one that continued.
    fn change_files(&self, lease: &Lease, changes: Vec<FileChange>) -> StoreFuture<'_, ()>;
}
