//! Watching sessions: a reader of events stays through reloads of a session and its moves between servers.

use baton_protocol::SessionId;
use baton_runtime::cluster::ListReader;
use baton_wire::EventSource;
use tokio::sync::watch;

use crate::{Caller, Denied, LiveSession, Operation, Service};

/// A session that a reader watches.
pub struct WatchedSession {
    service: Service,
    caller: Caller,
    id: SessionId,
    arrivals: watch::Receiver<()>,
}

impl Service {
    /// Watches a session.
    ///
    /// # Errors
    /// When the caller may not.
    pub fn watch(&self, caller: &Caller, id: &SessionId) -> Result<WatchedSession, Denied> {
        caller.permit(Operation::ReadEvents)?;
        let arrivals = self.runtime().registry.arrivals();
        Ok(WatchedSession { service: self.clone(), caller: caller.clone(), id: id.clone(), arrivals })
    }

    /// Makes other servers send the changes of their sessions, until the reader is dropped.
    ///
    /// # Errors
    /// When the caller may not.
    pub async fn watch_all(&self, caller: &Caller) -> Result<ListReader, Denied> {
        caller.permit(Operation::WatchSessions)?;
        Ok(self.runtime().add_list_reader().await)
    }

    /// Returns where subscribers read the events that they have missed. It is for clients that may read the session.
    #[must_use]
    pub fn events(&self) -> EventSource {
        EventSource::of(self.runtime())
    }
}

impl WatchedSession {
    /// Returns the live instance, here or at another server; `None` if nobody has loaded the session.
    pub async fn live(&mut self) -> Option<LiveSession> {
        // Before the lookup: a session that is loaded after it counts as an arrival.
        self.arrivals.mark_unchanged();
        self.service.live_anywhere(&self.caller, &self.id).await
    }

    /// Waits until a session is loaded.
    pub async fn arrival(&mut self) {
        // Fails when the server stops: the reader's connection ends then, too.
        let _ = self.arrivals.changed().await;
    }

    /// Whether this is still the live instance. One whose actor died publishes nothing more, and a newer instance may have
    /// replaced it.
    #[must_use]
    pub fn is_current(&self, session: &LiveSession) -> bool {
        self.service.live(&self.caller, &self.id).is_some_and(|live| live.is_same(session))
    }
}
