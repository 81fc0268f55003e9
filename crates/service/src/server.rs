//! The server itself: models, counters, readiness, shutdown, and what doors need to run.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use baton_model::ModelError;
use baton_notify::Statistics;
use baton_protocol::tool::ToolSpec;
use baton_protocol::{ClientId, SessionId};
use baton_providers::prices::Prices;
use baton_providers::{ClientCall, ResponsePart};
use baton_runtime::CredentialState;
use baton_runtime::cluster::ClusterSnapshot;
use baton_runtime::engines::{UsableModels, all_models, usable_models};
use baton_runtime::lifecycle::{Listener, Observer};
use baton_runtime::metrics::Snapshot;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Action, ImmediateAction, Operation, Permitted, Service};

/// Lists the models that sessions can use.
#[derive(Debug, Clone, Copy)]
pub struct ListModels;

impl Action for ListModels {
    const OPERATION: Operation = Operation::ListModels;
    type Reply = UsableModels;
    type Error = ModelError;

    async fn run(self, permitted: Permitted<'_>) -> Result<UsableModels, Self::Error> {
        usable_models(permitted.service.runtime()).await
    }
}

/// Lists the models of the server's endpoint.
#[derive(Debug, Clone, Copy)]
pub struct ListEndpointModels;

impl Action for ListEndpointModels {
    const OPERATION: Operation = Operation::ListModels;
    type Reply = Vec<Value>;
    type Error = ModelError;

    async fn run(self, permitted: Permitted<'_>) -> Result<Vec<Value>, ModelError> {
        permitted.service.runtime().models.list().await
    }
}

/// Returns the name of the model that sessions use if none is named.
#[derive(Debug, Clone, Copy)]
pub struct ShowDefaultModel;

impl Action for ShowDefaultModel {
    const OPERATION: Operation = Operation::ListModels;
    type Reply = String;
    type Error = Infallible;

    async fn run(self, permitted: Permitted<'_>) -> Result<String, Infallible> {
        Ok(permitted.service.runtime().models.usual().await)
    }
}

/// Lists the models of the server's endpoint, and of all engines.
#[derive(Debug, Clone, Copy)]
pub struct ListAllModels;

impl Action for ListAllModels {
    const OPERATION: Operation = Operation::ListModels;
    type Reply = Vec<Value>;
    type Error = ModelError;

    async fn run(self, permitted: Permitted<'_>) -> Result<Vec<Value>, ModelError> {
        all_models(permitted.service.runtime()).await
    }
}

/// Lists the built-in tools.
#[derive(Debug, Clone, Copy)]
pub struct ListBuiltInTools;

impl ImmediateAction for ListBuiltInTools {
    const OPERATION: Operation = Operation::ListBuiltInTools;
    type Reply = Vec<ToolSpec>;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<Vec<ToolSpec>, Infallible> {
        Ok(permitted.service.runtime().toolbox.specs().cloned().collect())
    }
}

/// Makes a client carry the model requests of all sessions.
pub struct ServeModelRequests {
    /// The client.
    pub client: ClientId,
    /// Calls it.
    pub call: ClientCall,
}

impl ImmediateAction for ServeModelRequests {
    const OPERATION: Operation = Operation::ServeModelRequests;
    type Reply = ();
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<(), Infallible> {
        permitted.service.runtime().models.tunnel.offer(self.client, self.call);
        Ok(())
    }
}

/// Stops all work, and releases all sessions. The door stops the server when it has replied.
#[derive(Debug, Clone, Copy)]
pub struct StopServer;

impl Action for StopServer {
    const OPERATION: Operation = Operation::StopServer;
    type Reply = ();
    type Error = Infallible;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), Infallible> {
        permitted.service.runtime().let_go().await;
        Ok(())
    }
}

/// Reads the counters of the server.
#[derive(Debug, Clone, Copy)]
pub struct ReadMetrics;

/// Counters of the server.
pub struct ServerMetrics {
    /// Sessions in memory.
    pub live_sessions: usize,
    /// Clients attached to sessions.
    pub clients: usize,
    /// What sessions did.
    pub sessions: Snapshot,
    /// Committed transactions of the store, if it counts them.
    pub commits: Option<u64>,
    /// What happened between servers that share the store.
    pub cluster: Option<ClusterSnapshot>,
    /// Results of notifications, if the server sends any.
    pub notifications: Option<Statistics>,
}

impl Action for ReadMetrics {
    const OPERATION: Operation = Operation::ReadMetrics;
    type Reply = ServerMetrics;
    type Error = Infallible;

    async fn run(self, permitted: Permitted<'_>) -> Result<ServerMetrics, Self::Error> {
        let runtime = permitted.service.runtime();
        let live = runtime.registry.all();
        Ok(ServerMetrics {
            live_sessions: live.len(),
            clients: live.iter().map(|handle| handle.hub.clients()).sum(),
            sessions: runtime.metrics.snapshot(),
            commits: runtime.store.commits(),
            cluster: runtime.cluster_snapshot(),
            notifications: permitted.service.notifier().map(|notifier| notifier.statistics()),
        })
    }
}

/// What doors need to run. No client asks for it, so no role is checked.
impl Service {
    /// Returns the version of the server.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.runtime().options.version
    }

    /// Returns the directory of sessions that name none.
    #[must_use]
    pub fn default_directory(&self) -> &Path {
        &self.runtime().options.cwd
    }

    /// Returns the home of the server.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.runtime().options.home
    }

    /// Returns the state of the credentials of the server.
    #[must_use]
    pub fn account(&self) -> &CredentialState {
        &self.runtime().options.account
    }

    /// Returns a variable of the environment that commands of sessions get.
    #[must_use]
    pub fn tool_variable(&self, name: &str) -> Option<&OsStr> {
        let environment = &self.runtime().options.environment;
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// Whether the server discloses model endpoints with their credentials.
    #[must_use]
    pub fn reveals_endpoints(&self) -> bool {
        self.runtime().options.reveal_endpoint
    }

    /// Whether all sessions have plugins of this server.
    #[must_use]
    pub fn has_server_plugins(&self) -> bool {
        self.runtime().addons.has_server_plugins()
    }

    /// Returns the directory of a session's files.
    #[must_use]
    pub fn session_directory(&self, id: &SessionId, config_dir: Option<&Path>) -> PathBuf {
        self.runtime().session_files(id, config_dir).path().to_owned()
    }

    /// Delivers a part of the response to a model request that a client carries. Returns whether the request is still open.
    /// The request's id is the authority: only the client that carries it knows it.
    #[must_use]
    pub fn deliver_model_response(&self, client: ClientId, request: &str, part: ResponsePart) -> bool {
        self.runtime().models.tunnel.take(client, request, part)
    }

    /// Notifies a client of sessions that come, change and go. Its door decides whether the client may know.
    pub fn listen(&self, client: ClientId, listener: Arc<dyn Listener>) {
        self.runtime().lifecycle.listen(client, listener);
    }

    /// Forgets a client that has disconnected.
    pub fn forget(&self, client: ClientId) {
        self.runtime().lifecycle.forget(client);
        self.runtime().models.tunnel.forget(client);
    }

    /// Notes an address on which a door listens: no sandboxed program reaches it.
    pub fn note_listener(&self, address: Option<SocketAddr>) {
        self.runtime().note_listener(address);
    }

    /// Returns why this system has no sandbox; none if it has one. The first call takes some tens of milliseconds.
    pub async fn missing_sandbox(&self) -> Option<String> {
        self.runtime().missing_sandbox().await
    }

    /// Returns the prices of models.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.runtime().options.prices
    }

    /// Checks that the store can be written. Returns its error if it cannot. The store is probed at most once per second, so
    /// anybody may ask.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn check_readiness(&self) -> Result<(), String> {
        self.shared.readiness.check(&*self.runtime().store).await
    }

    /// Returns a new client id.
    #[must_use]
    pub fn new_client(&self) -> ClientId {
        self.runtime().new_client()
    }

    /// Returns the tasks of the doors; the server waits for them when it stops.
    #[must_use]
    pub fn tasks(&self) -> &TaskTracker {
        &self.runtime().tasks
    }

    /// Returns the token that is cancelled when the server stops.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.runtime().stopping
    }

    /// Ends processes that a killed server left running. Doors call it when they open.
    pub fn reap(&self) {
        self.runtime().reap();
    }

    /// Adds an observer of all sessions, for as long as it exists. Its door decides which clients see what it observes.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        self.runtime().lifecycle.add_observer(observer);
    }

    /// Names the address that browsers return to after a login at an MCP server.
    pub fn set_landing(&self, landing: String) {
        self.runtime().addons.logins.set_landing(Arc::new(move || {
            let landing = Some(landing.clone());
            Box::pin(async move { landing })
        }));
    }
}
