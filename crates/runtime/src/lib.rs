//! The runtime of live sessions: their actors, their work and their files.
//!
//! The runtime steps the state machine of `baton-core`, appends its events to a `baton-store`, and then executes its
//! outputs: model calls, tools, hooks, engines. It decides nothing about a session itself. It has no wire and no door: it
//! opens no socket, speaks no protocol to clients, prints nothing and does not read the environment. The program passes
//! [`Options`] and a store to [`Runtime::new`]; doors are crates that use the runtime, and it knows none of them.
//!
//! # API for doors
//!
//! * [`Runtime::new_client`] names a connection, and [`Runtime::registry`] finds, opens and creates sessions.
//! * [`session::Handle`] is one live session: `join` attaches a client with a [`session::Port`] for its events, `ask` sends
//!   a typed ask ([`baton_ask`]) and waits for its reply, `inspect` copies the state ([`baton_ask::View`]).
//! * [`Runtime::lifecycle`] notifies connections of sessions that were created, changed or deleted.
//! * [`Runtime::join`] attaches a client inside the process, for the program's own commands.
//! * [`Runtime::delete`] deletes a session and its files. `baton-history` does everything else with stored sessions.
//! * [`Runtime::stop`] stops all work and releases all sessions.
//!
//! # Parts
//!
//! * [`session`]: actors, asks, fan-out of events, the registry of live sessions.
//! * [`work`]: tasks beside an actor: prompts, model calls, tools, hooks, engine turns.
//! * [`engines`]: programs that execute turns.
//!
//! Doors name the crates below the runtime themselves: `baton-providers`, `baton-addons`, `baton-files`, `baton-history`,
//! `baton-settings`. Of `baton-handle` they get what [`session`] passes on.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod cluster;
pub(crate) mod crash;
pub(crate) mod delete;
pub mod engines;
pub mod extension_host;
mod indexing;
pub mod lifecycle;
pub(crate) mod local;
mod logins;
pub mod metrics;
pub(crate) mod options;
mod retention;
pub mod session;
pub(crate) mod web;
pub mod work;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use baton_addons::{AddonOptions, Addons, GithubServer};
use baton_agent::tools::Toolbox;
use baton_disk::beneath;
use baton_files::engine_warnings::EngineWarnings;
use baton_files::locations::Locations;
use baton_files::mirror::Mirrors;
use baton_files::preferences::Preferences;
use baton_files::server_catalogue::ServerCatalogue;
use baton_files::tool_digests::ToolDigests;
use baton_files::{SessionFiles, home};
use baton_history::owner;
use baton_process::Ledger;
use baton_protocol::{ClientId, SessionId};
use baton_providers::accounts::Accounts;
use baton_providers::{Models, ProviderCache, Secrets, ServerEndpoint};
use baton_sandbox::Place;
use baton_store::{Owner, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cluster::Cluster;
pub use self::crash::{CrashPlan, CrashPoint};
use self::extension_host::ExtensionHost;
use self::lifecycle::Lifecycle;
pub use self::local::{Join, LocalError, LocalSession, ReceivedEvent};
use self::metrics::Metrics;
pub use self::options::{CredentialState, EnvironmentFilter, Options};
use self::session::{ActorMessage, Registry};

/// Maximum number of reads of users' files that can hang at the same time, each on a thread of tokio's blocking pool.
pub const MAX_BLOCKED_READS: usize = baton_disk::blocking::SLOTS;

/// Lists the models of the default endpoint.
///
/// # Errors
/// When the endpoint cannot be reached or refuses; the message says why and what to do.
pub async fn list_models(options: &Options) -> Result<Vec<serde_json::Value>, baton_model::ModelError> {
    models(options).list().await
}

/// Returns the name of the model that sessions use if none is named: the configured one, or the first of the endpoint.
pub async fn default_model(options: &Options) -> String {
    models(options).usual().await
}

fn models(options: &Options) -> Models {
    Models::new(options.endpoint.clone(), &options.version, options.record.clone())
}

/// Checks which engine programs are installed. Returns name and state of each.
pub async fn probe_engines(options: &Options) -> Vec<(&'static str, baton_engines::Installation)> {
    engines::probe(&engines::registry(options)).await
}

/// Lists the names of all engine programs, installed or not.
#[must_use]
pub fn engine_names(options: &Options) -> Vec<&'static str> {
    engines::registry(options).all().map(|engine| engine.name()).collect()
}

/// The runtime; one per process.
pub struct Runtime {
    /// Options of the program.
    pub options: Options,
    /// Store of all sessions.
    pub store: Arc<dyn Store>,
    /// This process, as the holder of leases.
    pub owner: Owner,
    /// Live sessions.
    pub registry: Registry,
    /// Notifications about sessions.
    pub lifecycle: Lifecycle,
    /// Counters for operators.
    pub metrics: Metrics,
    /// Model endpoints.
    pub models: Models,
    pub(crate) engines: baton_engines::EngineRegistry,
    /// Files that engines act on when they are started.
    pub(crate) engine_files: Arc<[String]>,
    pub(crate) provider_cache: ProviderCache,
    pub(crate) mirrors: Mirrors,
    pub(crate) sandboxes: work::sandbox::Sandboxes,
    /// Ports on which this server listens.
    pub(crate) own_ports: Mutex<BTreeSet<u16>>,
    pub(crate) ledger: Ledger,
    /// Grants of locations and trusted folders.
    pub locations: Locations,
    /// Settings of the user.
    pub preferences: Arc<Preferences>,
    /// What the tools of MCP servers looked like when they were last called.
    pub(crate) tool_digests: ToolDigests,
    /// Warnings of engines about their configuration that were shown.
    pub(crate) engine_warnings: EngineWarnings,
    /// MCP servers, skills and plugins.
    pub addons: Arc<Addons>,
    /// Accounts that are logged in.
    pub accounts: Accounts,
    /// Secrets that are redacted from all that models see.
    pub secrets: Arc<Secrets>,
    /// Tools of the native engine.
    pub toolbox: Toolbox,
    /// All tasks of the runtime and the doors; [`Runtime::stop`] waits for them.
    pub tasks: TaskTracker,
    /// Cancelled when the runtime stops.
    pub stopping: CancellationToken,
    extension_host: OnceLock<Arc<dyn ExtensionHost>>,
    /// This server among those that share the store; none if the store does not know its servers.
    pub(crate) cluster: Option<Cluster>,
    last_client: AtomicU64,
    reaped: AtomicBool,
}

impl Runtime {
    /// Creates a runtime without live sessions. Opens nothing, so that start-up costs no I/O.
    #[must_use]
    pub fn new(mut options: Options, store: Arc<dyn Store>) -> Arc<Self> {
        // Without links, like the paths in tool requests: Baton's own files are recognised by comparing the two.
        options.home = beneath::resolve(&options.home);
        let owner = owner::this_process();
        let models = models(&options);
        let ledger = Ledger::new(&options.home, owner::instance(&owner));
        let tasks = TaskTracker::new();
        let preferences = Arc::new(Preferences::of(&options.home, &store));
        let secrets = Arc::new(Secrets::new(&options.endpoint, &options.secrets));
        let catalogue =
            ServerCatalogue::new(&options.home, options.mcp_servers.clone()).sharing(&options.home, &store);
        let addons = Addons::new(
            AddonOptions {
                home: options.home.clone(),
                cwd: options.cwd.clone(),
                environment: options.environment.clone(),
                extension_environment: options.engine_environment.clone(),
                plugin_directories: options.plugin_directories.clone(),
                keyring: options.keyring,
                github: match &options.endpoint {
                    ServerEndpoint::Copilot { url, token } => {
                        let url = format!("{}/mcp", url.trim_end_matches('/'));
                        Some(GithubServer { url, token: token.clone() })
                    }
                    _ => None,
                },
                network: models.network(),
                ledger: ledger.clone(),
                tasks: tasks.clone(),
                preferences: preferences.clone(),
                secrets: secrets.clone(),
            },
            catalogue,
        );
        Arc::new(Self {
            addons,
            models,
            engines: engines::registry(&options),
            engine_files: baton_engines::guarded_files().into_iter().map(str::to_owned).collect(),
            provider_cache: ProviderCache::default(),
            ledger,
            preferences,
            locations: Locations::of(&options.home, &store),
            tool_digests: ToolDigests::new(&options.home),
            engine_warnings: EngineWarnings::new(&options.home),
            accounts: Accounts::default(),
            secrets,
            owner,
            options,
            mirrors: Mirrors::new(store.clone()),
            sandboxes: Default::default(),
            own_ports: Mutex::default(),
            cluster: store.members().is_some().then(Cluster::default),
            store,
            registry: Registry::default(),
            lifecycle: Lifecycle::default(),
            metrics: Metrics::default(),
            toolbox: Toolbox::default(),
            tasks,
            stopping: CancellationToken::new(),
            extension_host: OnceLock::new(),
            last_client: AtomicU64::new(0),
            reaped: AtomicBool::new(false),
        })
    }

    /// Removes access of other users to session files, which an earlier version may have left open. Runs in the background.
    pub fn secure_sessions(self: &Arc<Self>) {
        let runtime = self.clone();
        self.tasks.spawn(async move { home::secure_sessions(&runtime.options.home, &*runtime.store).await });
    }

    /// Returns why this server has no sandbox; none if it has one. The first call takes some tens of milliseconds.
    pub async fn missing_sandbox(&self) -> Option<String> {
        work::sandbox::learn(self).await;
        work::sandbox::missing(self.options.sandbox_host.as_ref())
    }

    /// Returns where a program runs that a session's repository brings: in the sandbox of the session, if it has one.
    ///
    /// # Errors
    /// With the reason, when the session needs a sandbox and there is none, or is not live here.
    pub async fn place(&self, session: &SessionId) -> Result<Place, String> {
        work::sandbox::place_of(self, session).await
    }

    /// Notes an address on which a door listens: no sandboxed program reaches it, whoever allows that. A command could answer
    /// its own request there.
    pub fn note_listener(&self, address: Option<SocketAddr>) {
        if let Some(address) = address {
            self.own_ports.lock().unwrap_or_else(PoisonError::into_inner).insert(address.port());
        }
    }

    /// Passes a crash point.
    pub(crate) fn crash_point(&self, point: CrashPoint) {
        if let Some(plan) = &self.options.crash {
            plan.pass(point);
        }
    }

    /// Returns a new client id.
    pub fn new_client(&self) -> ClientId {
        ClientId(self.last_client.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Ends processes that a killed server left running. Runs in the background, once; doors call it when they open.
    pub fn reap(&self) {
        if self.reaped.swap(true, Ordering::Relaxed) {
            return;
        }
        let home = self.options.home.clone();
        self.tasks.spawn_blocking(move || {
            let reaped = baton_process::reap(&home);
            if reaped > 0 {
                tracing::info!(processes = reaped, "ended processes that a killed server had left running");
            }
        });
    }

    /// Stops the runtime: accepts no more clients, ends all work with its processes, releases all sessions. Acknowledged
    /// events are durable; pending work stays pending until a resume.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.let_go().await;
        self.tasks.close();
        self.tasks.wait().await;
        self.ledger.close();
        self.mirrors.close();
    }

    /// Stops the work of all live sessions, and releases them.
    pub async fn let_go(&self) {
        let stopped = self.registry.all().into_iter().map(|handle| async move {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            if handle.send(ActorMessage::Stop(sender)).is_ok() {
                drop(receiver.await);
            }
        });
        futures_util::future::join_all(stopped).await;
    }

    /// Returns the files of a session, which may be in a directory other than the home.
    pub fn session_files(&self, id: &SessionId, config_dir: Option<&Path>) -> SessionFiles {
        SessionFiles::of(config_dir.unwrap_or(&self.options.home), id)
    }
}
