//! Sends changed files of a session to the store, if servers share it, so that every server can fetch them.

use std::sync::Arc;

use baton_files::SessionFiles;
use baton_files::shared::SharedDirectory;
use baton_store::{Lease, Store, StoreError};
use tokio::sync::Mutex;

use baton_addons::workflows::ShareFiles;

/// The shared files of a session that is held here.
pub(crate) struct FileShare {
    store: Arc<dyn Store>,
    lease: Lease,
    directory: Mutex<SharedDirectory>,
}

impl FileShare {
    /// Starts with the files of a session that was just created.
    pub(crate) fn new(store: &Arc<dyn Store>, lease: &Lease, files: &SessionFiles) -> Self {
        Self::with(store, lease, SharedDirectory::new(files.path()))
    }

    /// Fetches the files of a session that was just acquired.
    pub(crate) async fn fetch(
        store: &Arc<dyn Store>,
        lease: &Lease,
        files: &SessionFiles,
    ) -> Result<Self, StoreError> {
        let directory = match store.shared_files() {
            Some(shared) => SharedDirectory::fetch(files.path(), shared, &lease.session).await?,
            None => SharedDirectory::new(files.path()),
        };
        Ok(Self::with(store, lease, directory))
    }

    fn with(store: &Arc<dyn Store>, lease: &Lease, directory: SharedDirectory) -> Self {
        Self { store: store.clone(), lease: lease.clone(), directory: Mutex::new(directory) }
    }

    /// Shares what has changed since. Does nothing where servers do not share files.
    pub(crate) async fn push(&self) -> Result<(), StoreError> {
        match self.store.shared_files() {
            Some(shared) => self.directory.lock().await.push(shared, &self.lease).await,
            None => Ok(()),
        }
    }

    /// Returns a function that shares what has changed.
    pub(crate) fn sharing(self: Arc<Self>) -> ShareFiles {
        Arc::new(move || {
            let share = self.clone();
            Box::pin(async move { share.push().await.map_err(|error| error.to_string()) })
        })
    }

    /// Shares what has changed, and only logs a failure: the next attempt repeats it.
    pub(crate) async fn try_push(&self) {
        match self.push().await {
            // The next append says so.
            Ok(()) | Err(StoreError::Fenced(_)) => {}
            Err(error) => tracing::warn!(%error, "cannot share files of the session yet"),
        }
    }
}
