//! MCP servers of a session.
//!
//! Servers come from the session's clients, from the selected agent, and from the user's file ([`UserServers`]). They are
//! started with the first turn or the first request about them, never when the session is created, and end with the
//! session. Their tools go through the same permission policy as all others.

mod authorization;
mod link;
pub mod logins;
mod network;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_mcp::{ConfigError, Host, HostOptions, OfferedTool, ServerConfig};
use baton_protocol::{Body, Json, SessionId};
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::link::Link;
use self::network::Network;
pub use self::request::McpRequest;
use crate::Runtime;
use crate::session::{Hub, Mail, Settings};
pub use baton_files::user_servers::UserServers;

type Servers = BTreeMap<String, Result<ServerConfig, ConfigError>>;

/// MCP servers of a session.
pub(crate) struct SessionMcp {
    runtime: Arc<Runtime>,
    id: SessionId,
    link: Arc<Link>,
    /// Created with the first use, if there is any server.
    host: AsyncMutex<Option<Arc<Host>>>,
    /// The host, for those who cannot wait.
    current: Mutex<Option<Arc<Host>>>,
    /// Releases a turn that waits for servers.
    release: Notify,
    /// Context of MCP apps, as a client set it.
    app_context: Mutex<Value>,
    /// Tags of the processes of the session's servers begin with this.
    tag: String,
}

impl SessionMcp {
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        hub: &Arc<Hub>,
        mailbox: mpsc::UnboundedSender<Mail>,
        id: SessionId,
    ) -> Self {
        let network = Network(runtime.models.network());
        Self {
            link: Arc::new(Link::new(id.clone(), hub.clone(), mailbox, network, runtime.logins.clone())),
            runtime: runtime.clone(),
            id,
            host: AsyncMutex::default(),
            current: Mutex::default(),
            release: Notify::new(),
            app_context: Mutex::new(json!({})),
            tag: format!("{}/", uuid::Uuid::new_v4()),
        }
    }

    /// Returns the tools of connected servers that models may call.
    pub(crate) fn offered(&self) -> Vec<OfferedTool> {
        self.current().map(|host| host.offered()).unwrap_or_default()
    }

    /// Finds an offered tool by its name.
    pub(crate) fn find(&self, name: &str) -> Option<OfferedTool> {
        self.current()?.find(name)
    }

    /// Starts servers that are not connected, and waits for them. Reads lists of tools again that have changed. Returns
    /// whether there is any server.
    ///
    /// The user's file is read in the first round of a turn only: sessions without servers must not pay for it in all others.
    pub(crate) async fn ready(&self, settings: &Settings, cwd: PathBuf, is_first_round: bool) -> bool {
        if !is_first_round && self.current().is_none() {
            return false;
        }
        let Some(host) = self.host(settings, cwd).await else { return false };
        host.start();
        tokio::select! {
            () = host.settle() => {}
            () = self.release.notified() => {}
        }
        host.refresh().await;
        true
    }

    /// Shows clients the state of all servers, at the start of a turn.
    pub(crate) fn show_loaded(&self, model: Option<&str>) {
        let Some(host) = self.current() else { return };
        let servers: Vec<Value> = host.list().iter().map(request::listed).collect();
        self.link.show("session.mcp_servers_loaded", json!({ "servers": servers }));
        self.link.show("session.tools_updated", json!({ "model": model.unwrap_or_default() }));
    }

    /// Ends all servers.
    pub(crate) async fn close(&self) {
        self.link.close();
        if let Some(host) = self.current() {
            host.close().await;
            let (ledger, tag) = (self.runtime.ledger.clone(), self.tag.clone());
            drop(tokio::task::spawn_blocking(move || ledger.forget(&tag)).await);
        }
    }

    /// Returns the servers that the session uses now, with those of its settings. None if there are none.
    async fn host(&self, settings: &Settings, cwd: PathBuf) -> Option<Arc<Host>> {
        let mut slot = self.host.lock().await;
        // A client of any door may answer a form, where questions may wait.
        self.link.elicits.store(settings.elicitation || settings.questions, Ordering::Relaxed);
        let mut wanted = wanted(settings);
        match &*slot {
            Some(host) => {
                let replaced = host.add(wanted);
                futures_util::future::join_all(replaced.iter().map(|server| server.end())).await;
            }
            None => {
                let user = &self.runtime.user_servers;
                for (name, server) in user.for_sessions().await {
                    wanted.entry(name).or_insert(server);
                }
                if wanted.is_empty() && settings.disabled_mcp_servers.is_empty() {
                    return None;
                }
                let mut disabled: BTreeSet<String> =
                    user.disabled(&self.runtime.preferences).await.unwrap_or_default();
                disabled.retain(|name| wanted.contains_key(name));
                disabled.extend(settings.disabled_mcp_servers.iter().cloned());
                // Before a process carries the tag: a killed server's successor ends what it finds there.
                let (ledger, tag) = (self.runtime.ledger.clone(), self.tag.clone());
                drop(tokio::task::spawn_blocking(move || ledger.note(&tag)).await);
                let host = Arc::new(Host::new(self.options(cwd), wanted, disabled));
                *self.lock() = Some(host.clone());
                *slot = Some(host);
            }
        }
        slot.clone()
    }

    fn options(&self, cwd: PathBuf) -> HostOptions {
        HostOptions {
            client: self.link.clone(),
            http: Arc::new(Network(self.runtime.models.network())),
            ledger: self.runtime.ledger.clone(),
            environment: self.runtime.options.environment.clone(),
            cwd,
            session: self.id.to_string(),
            pool: self.runtime.shared_servers.clone(),
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

/// Returns the servers of the session's clients, and of the agent that was selected.
fn wanted(settings: &Settings) -> Servers {
    let mut wanted = parsed(&settings.mcp_servers);
    let agent = settings.agent_in_charge().and_then(|agent| agent.mcp_servers.as_ref());
    if let Some(servers) = agent.and_then(|servers| servers.parse::<BTreeMap<String, Json>>().ok()) {
        wanted.extend(parsed(&servers));
    }
    wanted
}

fn parsed(servers: &BTreeMap<String, Json>) -> Servers {
    let parse = |(name, config): (&String, &Json)| {
        let value = config.parse().unwrap_or(Value::Null);
        (name.clone(), ServerConfig::parse(name, &value))
    };
    servers.iter().map(parse).collect()
}

/// Shows an ephemeral event whose type has no struct of its own.
fn show(hub: &Hub, kind: &str, data: Value) {
    hub.show(Body::Unknown { kind: kind.into(), data: Json::from(data) }, &CancellationToken::new());
}
