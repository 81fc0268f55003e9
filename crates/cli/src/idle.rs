//! Ends a server that nobody uses: `baton serve --exit-when-idle`, for servers that a command has started by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_history::metadata;
use baton_http::HttpDoor;
use baton_rpc::RpcDoor;
use baton_runtime::Runtime;

/// What counts as use of a server.
pub(crate) struct Usage {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) http: HttpDoor,
    pub(crate) rpc: RpcDoor,
}

impl Usage {
    /// Waits until nobody has used the server for this long, and no request waits for a person.
    pub(crate) async fn ended_for(self, limit: Duration) {
        let pause = (limit / 20).clamp(Duration::from_millis(50), Duration::from_secs(60));
        let (mut since, mut answered) = (Instant::now(), self.http.responses());
        loop {
            tokio::time::sleep(pause).await;
            let responses = self.http.responses();
            if responses != answered || self.has_clients() {
                (since, answered) = (Instant::now(), responses);
            } else if since.elapsed() >= limit && !self.has_work().await {
                return;
            }
        }
    }

    /// Whether a client is connected.
    fn has_clients(&self) -> bool {
        let live = self.runtime.registry.all();
        self.http.connections() > 0
            || self.rpc.connections() > 0
            || live.iter().any(|session| session.hub.clients() > 0)
    }

    /// Whether a session works, or has requests for people. If that is not known, it counts as if.
    async fn has_work(&self) -> bool {
        for session in self.runtime.registry.all() {
            if session.inspect().await.is_ok_and(|view| view.session.is_in_use()) {
                return true;
            }
        }
        let Ok(all) = self.runtime.store.list().await else { return true };
        all.iter()
            .map(|summary| metadata::decode(&summary.meta))
            .any(|stored| stored.waiting || stored.logins)
    }
}
