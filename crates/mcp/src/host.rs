//! The servers of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_process::Ledger;
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use crate::binding::binding;
use crate::client::{McpClient, Notice};
use crate::config::{ConfigError, ServerConfig};
use crate::http::Http;
use crate::lock;
use crate::names::Names;
use crate::origin::{Chosen, Declared, Origin};
use crate::server::{Server, ServerStatus};
use crate::shared::Pool;
use crate::tool::RemoteTool;

/// Resources of the session and the program that servers use.
pub struct HostOptions {
    /// The session.
    pub client: Arc<dyn McpClient>,
    /// The HTTP client for remote servers.
    pub http: Arc<dyn Http>,
    /// Records the processes of servers.
    pub ledger: Ledger,
    /// All tasks of servers. They end when the host is closed.
    pub tasks: TaskTracker,
    /// Environment of local servers, also for `${NAME}` in configurations.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory of local servers.
    pub cwd: PathBuf,
    /// Id of the session.
    pub session: String,
    /// Connections that sessions share.
    pub pool: Arc<Pool>,
    /// Prefix of the tags of processes.
    pub tag: String,
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: ServerStatus,
    /// Where its configuration comes from.
    pub source: Option<String>,
    /// `stdio`, `http` or `sse`, if the configuration can be used.
    pub transport: Option<&'static str>,
    /// How many tools it has.
    pub tools: usize,
}

/// A tool that is offered to models.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    /// The name under which it is offered.
    pub name: String,
    /// The server.
    pub server: Arc<Server>,
    /// The tool.
    pub tool: Arc<RemoteTool>,
}

impl OfferedTool {
    /// Returns a digest of the server's configuration and of the tool as the server describes it. An approval of a call is
    /// for exactly these.
    #[must_use]
    pub fn binding(&self) -> Option<String> {
        Some(binding(self.server.name(), self.server.config()?, &self.tool))
    }

    /// Whether calls need no permission: the tool is said to change nothing, and the configuration trusts the server.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.tool.read_only_hint && self.server.config().is_some_and(|config| config.trusts_hints)
    }
}

/// The servers of a session.
pub struct Host {
    options: Arc<HostOptions>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
    /// Names that are disabled, also those that no server has.
    disabled: Mutex<BTreeSet<String>>,
    /// Servers that a client started with a configuration of their own.
    pinned: Mutex<BTreeSet<String>>,
    /// Names of all tools that have been offered. A name never changes its meaning: the call that was approved is the call
    /// that is made, whichever servers have come and gone since.
    names: Mutex<Names>,
    started: AtomicBool,
}

impl Host {
    /// Creates the servers. None is started.
    #[must_use]
    pub fn new(options: HostOptions, servers: BTreeMap<String, Chosen>, disabled: BTreeSet<String>) -> Self {
        let host = Self {
            options: Arc::new(options),
            servers: Mutex::default(),
            disabled: Mutex::new(disabled),
            pinned: Mutex::default(),
            names: Mutex::default(),
            started: AtomicBool::new(false),
        };
        for (name, chosen) in servers {
            host.put(name, chosen);
        }
        host
    }

    /// Replaces the declarations. A server whose configuration is the same keeps its connection; one that is not declared
    /// any more ends. Servers that a client started with a configuration stay.
    pub async fn replace(&self, servers: BTreeMap<String, Chosen>) {
        let pinned = lock(&self.pinned).clone();
        let gone: Vec<Arc<Server>> = {
            let mut all = lock(&self.servers);
            let names: Vec<String> = all
                .keys()
                .filter(|name| !servers.contains_key(*name) && !pinned.contains(*name))
                .cloned()
                .collect();
            names.iter().filter_map(|name| all.remove(name)).collect()
        };
        for server in &gone {
            self.notice(server.name(), Notice::Removed);
        }
        let replaced: Vec<Arc<Server>> = servers
            .into_iter()
            .filter(|(name, _)| !pinned.contains(name))
            .filter_map(|(name, chosen)| self.put(name, chosen))
            .collect();
        join_all(gone.iter().chain(&replaced).map(|server| server.end())).await;
    }

    /// Adds a server. Returns the one that it replaces, whose connection the caller ends.
    fn put(&self, name: String, chosen: Chosen) -> Option<Arc<Server>> {
        let config = chosen.declared.config.map_err(|error| error.problem);
        let mut all = lock(&self.servers);
        if all.get(&name).is_some_and(|server| server.is_declared_as(&config)) {
            return None;
        }
        let is_disabled = lock(&self.disabled).contains(&name);
        let status = if is_disabled { ServerStatus::Disabled } else { ServerStatus::Pending };
        let server = Server::new(name.clone(), config, self.options.clone(), status);
        self.options.client.keep_secret(server.credentials());
        for shadowed in &chosen.shadowed {
            let (origin, used) = (shadowed, &chosen.declared.origin);
            server.log().add(&format!("also declared by {origin}; the declaration of {used} is used"));
        }
        all.insert(name, server)
    }

    /// Whether there is any server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.servers).is_empty()
    }

    /// Whether servers have been started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Connects all servers that are not connected, in parallel and in the background.
    pub fn start(&self) {
        self.started.store(true, Ordering::Relaxed);
        for server in self.all() {
            server.start();
        }
    }

    /// Waits until every attempt to connect has come to an end, or waits for a person.
    pub async fn settle(&self) {
        join_all(self.all().iter().map(|server| server.settle())).await;
    }

    /// Reads the lists of tools again that have changed.
    pub async fn refresh(&self) {
        join_all(self.all().iter().map(|server| server.refresh())).await;
    }

    /// Returns the servers, sorted by name, and disabled names that no server has.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let servers = self.all();
        let mut listed: Vec<Listed> = servers
            .iter()
            .map(|server| Listed {
                name: server.name().to_owned(),
                status: server.status(),
                source: server.config().and_then(|config| config.source().map(str::to_owned)),
                transport: server.config().map(ServerConfig::transport),
                tools: server.tools().len(),
            })
            .collect();
        let unknown = lock(&self.disabled).clone();
        for name in unknown.into_iter().filter(|name| servers.iter().all(|server| server.name() != name)) {
            listed.push(Listed {
                name,
                status: ServerStatus::Disabled,
                source: None,
                transport: None,
                tools: 0,
            });
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        listed
    }

    /// Finds a server by name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Arc<Server>> {
        lock(&self.servers).get(name).cloned()
    }

    /// Returns the tools of connected servers that models may call, sorted by name.
    #[must_use]
    pub fn offered(&self) -> Vec<OfferedTool> {
        let mut offered: Vec<OfferedTool> = Vec::new();
        let mut names = lock(&self.names);
        for server in self.all() {
            let Some(config) = server.config() else { continue };
            for tool in server.tools().iter().filter(|tool| tool.for_model && config.tools.offers(&tool.name))
            {
                let Some(name) = names.of(server.name(), &tool.name) else { continue };
                offered.push(OfferedTool { name, server: server.clone(), tool: tool.clone() });
            }
        }
        offered.sort_by(|a, b| a.name.cmp(&b.name));
        offered
    }

    /// Finds an offered tool by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<OfferedTool> {
        self.offered().into_iter().find(|tool| tool.name == name)
    }

    /// Disables a server: its connection ends, and it is not connected again. Unknown names are remembered.
    pub async fn disable(&self, name: &str) {
        lock(&self.disabled).insert(name.to_owned());
        if let Some(server) = self.server(name) {
            self.notice(name, Notice::Removed);
            server.stop(ServerStatus::Disabled).await;
        }
    }

    /// Enables a server and waits until it is connected or has failed.
    pub async fn enable(&self, name: &str) {
        lock(&self.disabled).remove(name);
        if let Some(server) = self.server(name) {
            if server.status() == ServerStatus::Disabled {
                self.notice(name, Notice::Status(ServerStatus::NotConfigured));
            }
            self.restart_one(&server).await;
        }
    }

    /// Stops a server until it is started again. Unknown names are ignored.
    pub async fn stop(&self, name: &str) {
        if let Some(server) = self.server(name) {
            self.notice(name, Notice::Removed);
            server.stop(ServerStatus::Stopped).await;
        }
    }

    /// Starts a server, with a new configuration if one is given. Ends its connection first if it `restart`s. Returns
    /// whether there is such a server.
    pub async fn start_one(
        &self,
        name: &str,
        config: Option<Result<ServerConfig, ConfigError>>,
        restart: bool,
    ) -> bool {
        if let Some(config) = config {
            lock(&self.pinned).insert(name.to_owned());
            let declared = Declared { name: name.to_owned(), origin: Origin::Session, config };
            if let Some(replaced) = self.put(name.to_owned(), Chosen { declared, shadowed: Vec::new() }) {
                replaced.end().await;
            }
        }
        let Some(server) = self.server(name) else { return false };
        if restart {
            server.stop(ServerStatus::NotConfigured).await;
        }
        self.restart_one(&server).await;
        true
    }

    /// Ends all connections, and connects again.
    pub async fn reload(&self) {
        let enabled: Vec<_> =
            self.all().into_iter().filter(|server| server.status() != ServerStatus::Disabled).collect();
        join_all(enabled.iter().map(|server| async move {
            server.stop(ServerStatus::NotConfigured).await;
            server.revive().await;
        }))
        .await;
        self.start();
        self.settle().await;
    }

    /// Ends all connections and processes.
    pub async fn close(&self) {
        join_all(self.all().iter().map(|server| server.stop(ServerStatus::Stopped))).await;
    }

    async fn restart_one(&self, server: &Arc<Server>) {
        if server.status() != ServerStatus::Connected {
            server.revive().await;
            server.start();
        }
        server.settle().await;
    }

    fn notice(&self, server: &str, notice: Notice) {
        self.options.client.notice(server, notice);
    }

    fn all(&self) -> Vec<Arc<Server>> {
        lock(&self.servers).values().cloned().collect()
    }
}
