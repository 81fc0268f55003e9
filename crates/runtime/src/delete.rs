//! Deletion of a session, with its files.

use baton_history::owner;
use baton_protocol::SessionId;
use baton_store::StoreError;

use crate::Runtime;
use crate::crash::CrashPoint;
use crate::lifecycle::LifecycleChange;

impl Runtime {
    /// Deletes a session; attached clients lose it. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// When another server holds it and is busy ([`StoreError::Held`] names that process), or the store fails.
    pub async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        let live = self.registry.get(id);
        if let Some(handle) = &live {
            baton_handle::vanish(handle).await;
        }
        self.crash_point(CrashPoint::BeforeDelete);
        let existed = owner::delete_session(&*self.store, id, Some(&self.owner)).await?;
        self.crash_point(CrashPoint::AfterDelete);
        self.session_files(id, None).delete().await;
        baton_files::sandboxes::delete(&self.options.home, id).await;
        self.provider_cache.remove(id);
        if existed {
            self.lifecycle.announce(LifecycleChange::Deleted, id, None);
        }
        Ok(existed)
    }
}
