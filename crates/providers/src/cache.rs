//! Keeps the providers of sessions whose clients do not stay. Such a session is unloaded when it is idle, and its
//! credentials are never stored, so they are kept in memory until the server stops.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use baton_protocol::SessionId;
use baton_protocol::provider::ProviderConfig;

/// Providers by session, in memory only.
#[derive(Default)]
pub struct ProviderCache {
    providers: Mutex<HashMap<SessionId, ProviderConfig>>,
}

impl ProviderCache {
    /// Sets the provider of a session.
    pub fn set(&self, session: &SessionId, provider: &ProviderConfig) {
        self.providers().insert(session.clone(), provider.clone());
    }

    /// Returns the provider of a session.
    pub fn get(&self, session: &SessionId) -> Option<ProviderConfig> {
        self.providers().get(session).cloned()
    }

    /// Removes the provider of a deleted session.
    pub fn remove(&self, session: &SessionId) {
        self.providers().remove(session);
    }

    fn providers(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, ProviderConfig>> {
        self.providers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
