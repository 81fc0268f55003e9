//! MCP servers of a session.
//!
//! Where servers come from is in [`sources`]. They are started with the first turn or the first request about them, never
//! when the session is created, and end with the session. Their tools go through the same permission policy as all others.

mod authorization;
mod github;
mod link;
mod login_links;
pub mod logins;
mod network;
mod overview;
mod private;
mod probe;
mod serve;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_ask::mcp::McpServer;
use baton_mcp::{Chosen, Host, HostOptions, OfferedTool};
use baton_protocol::{Json, SessionId};
use baton_settings::Settings;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use self::link::SessionLink;
use self::network::Network;
pub use self::probe::{Probe, ProbedTool, probe, protected};
use self::sources::Sources;
use crate::session_plugins;
use crate::{Addons, SessionPort, SessionTrust};
pub use baton_files::server_catalogue::{CatalogueEntry, ServerCatalogue};
pub use baton_files::user_servers::{UserServerError, UserServers};
pub use baton_mcp::oauth::parse_returned;
pub use baton_mcp::{Declared, Origin, Protected, Reach, ServerConfig, describe};

/// MCP servers of a session.
pub struct SessionMcp {
    addons: Arc<Addons>,
    id: SessionId,
    link: Arc<SessionLink>,
    sources: Sources,
    /// What the session trusts while it is open.
    trust: Arc<SessionTrust>,
    /// The turn that servers were last made ready for.
    turn: Mutex<String>,
    /// Created with the first use, if there is any server.
    host: AsyncMutex<Option<Arc<Host>>>,
    /// The host, for callers that cannot wait for the lock.
    current: Mutex<Option<Arc<Host>>>,
    /// Servers of sub-agents, by the name of their agent.
    private: AsyncMutex<BTreeMap<String, Arc<Host>>>,
    /// The same, for those who cannot wait.
    known_private: Mutex<BTreeMap<String, Arc<Host>>>,
    /// Releases a turn that waits for servers.
    release: Notify,
    /// Context of MCP apps, as a client set it while the session was here.
    app_context: Mutex<Option<Json>>,
    /// Tags of the processes of the session's servers begin with this.
    tag: String,
}

impl SessionMcp {
    /// Creates them; none is started.
    #[must_use]
    pub fn new(
        addons: &Arc<Addons>,
        session: Arc<dyn SessionPort>,
        id: SessionId,
        trust: Arc<SessionTrust>,
    ) -> Self {
        Self {
            trust,
            link: Arc::new(SessionLink::new(session, addons.clone())),
            addons: addons.clone(),
            id,
            sources: Sources::default(),
            turn: Mutex::default(),
            host: AsyncMutex::default(),
            current: Mutex::default(),
            private: AsyncMutex::default(),
            known_private: Mutex::default(),
            release: Notify::new(),
            app_context: Mutex::default(),
            tag: format!("{}/", uuid::Uuid::new_v4()),
        }
    }

    /// Returns the tools of connected servers that models may call.
    pub fn offered(&self) -> Vec<OfferedTool> {
        self.current().map(|host| host.offered()).unwrap_or_default()
    }

    /// Finds an offered tool by its name.
    pub fn find(&self, name: &str) -> Option<OfferedTool> {
        self.current()?.find(name)
    }

    /// Starts servers that are not connected, and waits for them. Reads lists of tools again that have changed. Returns
    /// whether there is any server.
    ///
    /// Declarations are read when a turn begins: what the user adds in the meantime is used by the next prompt, and
    /// sessions without servers do not pay for it in every round.
    pub async fn ready(&self, settings: &Settings, cwd: PathBuf, begins_turn: bool) -> bool {
        if !begins_turn && self.current().is_none() {
            return false;
        }
        let Some(host) = self.host(settings, cwd, begins_turn).await else { return false };
        host.start();
        tokio::select! {
            () = host.settle() => {}
            () = self.release.notified() => {}
        }
        host.refresh().await;
        true
    }

    /// Whether a turn has just begun, as far as servers know. Later calls for the same turn return false.
    pub fn begins(&self, turn: &str) -> bool {
        let mut last = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = *last != turn;
        turn.clone_into(&mut last);
        begins
    }

    /// Shows clients the state of all servers, at the start of a turn.
    pub fn show_loaded(&self, model: Option<&str>) {
        let Some(host) = self.current() else { return };
        let servers: Vec<McpServer> = host.list().iter().map(serve::listed).collect();
        self.link.show("session.mcp_servers_loaded", json!({ "servers": servers }));
        self.link.show("session.tools_updated", json!({ "model": model.unwrap_or_default() }));
    }

    /// Ends all servers.
    pub async fn close(&self) {
        self.link.close();
        let had_private = self.close_private().await;
        let host = self.current();
        if let Some(host) = &host {
            host.close().await;
        }
        if had_private || host.is_some() {
            let (ledger, tag) = (self.addons.options.ledger.clone(), self.tag.clone());
            drop(tokio::task::spawn_blocking(move || ledger.forget(&tag)).await);
        }
    }

    /// Returns the servers that the session uses now; none if there are none. Declarations of the user and of the
    /// workspace are read again if they have to be `fresh`, or have not been read yet.
    async fn host(&self, settings: &Settings, cwd: PathBuf, fresh: bool) -> Option<Arc<Host>> {
        let mut slot = self.host.lock().await;
        // A client of any door may answer a form, where questions may wait.
        self.link.elicits.store(settings.elicitation || settings.questions, Ordering::Relaxed);
        self.link.expect_of_clients(settings);
        let mut disabled = BTreeSet::new();
        if fresh || slot.is_none() {
            let workspace = settings.discovers().then_some(cwd.as_path());
            self.sources.set_ambient(self.addons.catalogue.declared(workspace, &self.trust.all()).await);
            let plugins = session_plugins::servers(&self.addons, settings, &cwd, &self.trust).await;
            self.sources.set_plugins(plugins);
            let list = self.addons.user_servers.disabled(&self.addons.options.preferences).await;
            if let Err(error) = &list {
                tracing::warn!(session = %self.id, %error, "MCP servers are not started");
            }
            disabled = self.sources.set_disabled(list);
        }
        let wanted = self.sources.merged(&self.addons, settings);
        if let Some(host) = &*slot {
            host.replace(wanted).await;
            return Some(host.clone());
        }
        if wanted.is_empty() && settings.disabled_mcp_servers.is_empty() {
            return None;
        }
        disabled.retain(|name| wanted.contains_key(name));
        disabled.retain(|name| !settings.enabled_mcp_servers.contains(name));
        disabled.extend(settings.disabled_mcp_servers.iter().cloned());
        let host = self.new_host(cwd, wanted, disabled).await;
        for name in &settings.stopped_mcp_servers {
            host.stop(name).await;
        }
        *slot = Some(host.clone());
        Some(host)
    }

    /// Creates the host of a session without declarations.
    async fn create_host(&self, cwd: PathBuf) -> Arc<Host> {
        let mut slot = self.host.lock().await;
        if let Some(host) = &*slot {
            return host.clone();
        }
        let host = self.new_host(cwd, BTreeMap::new(), BTreeSet::new()).await;
        *slot = Some(host.clone());
        host
    }

    async fn new_host(
        &self,
        cwd: PathBuf,
        wanted: BTreeMap<String, Chosen>,
        disabled: BTreeSet<String>,
    ) -> Arc<Host> {
        self.note_tag().await;
        let host = Arc::new(Host::new(self.options(cwd), wanted, disabled));
        *self.lock() = Some(host.clone());
        host
    }

    /// Records the tag before a process carries it: a killed server's successor ends what it finds there.
    async fn note_tag(&self) {
        let (ledger, tag) = (self.addons.options.ledger.clone(), self.tag.clone());
        drop(tokio::task::spawn_blocking(move || ledger.note(&tag)).await);
    }

    fn known_private(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Host>>> {
        self.known_private.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self, cwd: PathBuf) -> HostOptions {
        HostOptions {
            client: self.link.clone(),
            http: Arc::new(Network(self.addons.options.network.clone())),
            ledger: self.addons.options.ledger.clone(),
            tasks: self.addons.options.tasks.clone(),
            environment: self.addons.options.environment.clone(),
            cwd,
            session: self.id.to_string(),
            pool: self.addons.shared_servers.clone(),
            tag: self.tag.clone(),
        }
    }

    fn current(&self) -> Option<Arc<Host>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Host>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
