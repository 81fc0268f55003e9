//! The server: live sessions, the doors to them, and what surrounds both.
//!
//! It decides nothing about what a session does next, that is `baton-core`'s, and keeps nothing itself, that is
//! `baton-store`'s. It never prints and never reads the environment: the program tells it what it needs, in
//! [`Options`], and hands it sockets.
//!
//! * `session`: actors, fan-out, the registry of live sessions.
//! * `work`: what sessions want done: prompts, model calls, tools, hooks.
//! * `rpc`: the JSON-RPC door, for the official SDKs.
//! * `wire`: bytes in and out.
//! * `models`: which model endpoint a session talks to.
//! * `engines`: other agents' programs, which sessions choose as their model.
//! * `repairs`: what opening a history passes over, in words.
//! * `mirror`: files beside the store, for tools that expect them.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod accounts;
mod checkpoints;
mod context;
mod crash;
mod disarm;
mod engines;
mod fork;
mod git;
mod github;
mod history;
pub mod home;
mod http;
mod kept;
mod ledger;
mod lifecycle;
mod local;
mod locations;
mod metadata;
mod mirror;
mod models;
mod options;
pub mod owner;
mod preferences;
mod reaper;
pub mod repairs;
mod replay;
mod rewind;
mod rpc;
mod secrets;
mod session;
pub mod transfer;
mod web;
mod wire;
mod work;
mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_agent::tools::{Toolbox, beneath};
use baton_protocol::{ClientId, SessionId};
use baton_store::{Owner, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::accounts::Accounts;
pub use self::crash::{CrashPlan, CrashPoint};
pub use self::http::{HttpDoor, HttpListener, HttpOptions, TlsError, TlsIdentity, WorkspaceOptions, openapi};
use self::kept::Keep;
use self::ledger::Ledger;
use self::lifecycle::Lifecycle;
pub use self::local::{Arrived, Joint, LocalError, LocalSession};
use self::locations::Locations;
use self::mirror::MirrorThread;
use self::models::Models;
pub use self::options::{Account, Endpoint, Options};
use self::preferences::Preferences;
pub use self::replay::serve_recording;
pub use self::rpc::RpcLimits;
use self::secrets::Secrets;
use self::session::{Mail, Registry};

/// How many reads of files of other people can hang at the same time, each on a thread of the runtime's blocking pool.
pub const HANGING_READS: usize = baton_agent::blocking::SLOTS;

/// What lists show about a session.
#[must_use]
pub fn metadata_of(summary: &baton_store::Summary) -> baton_protocol::params::SessionMetadata {
    metadata::of(summary)
}

/// The models that an endpoint offers.
///
/// # Errors
/// When it cannot be asked; the message says why and what to do.
pub async fn list_models(options: &Options) -> Result<Vec<serde_json::Value>, baton_model::ModelError> {
    Models::new(options).list().await
}

/// Which other agents' programs are there: name and state.
pub async fn probe_engines(options: &Options) -> Vec<(&'static str, baton_engines::Probe)> {
    engines::probe(&engines::registry(options)).await
}

/// The names of all programs that can work in sessions, installed or not.
#[must_use]
pub fn engine_names(options: &Options) -> Vec<&'static str> {
    engines::registry(options).all().map(|engine| engine.name()).collect()
}

/// A server: one for each process.
pub struct Server {
    pub(crate) options: Options,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) owner: Owner,
    pub(crate) registry: Registry,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) models: Models,
    pub(crate) engines: baton_engines::Registry,
    pub(crate) mirror: MirrorThread,
    pub(crate) ledger: Ledger,
    pub(crate) locations: Locations,
    pub(crate) preferences: Preferences,
    pub(crate) accounts: Accounts,
    pub(crate) secrets: Secrets,
    pub(crate) toolbox: Toolbox,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    last_client: AtomicU64,
    reaped: AtomicBool,
}

impl Server {
    /// A server with nothing in memory. Opens nothing: what the first request does not need is not touched.
    #[must_use]
    pub fn new(mut options: Options, store: Arc<dyn Store>) -> Arc<Self> {
        // Without links, because the paths that tools ask for have none: this is how Baton's own files are recognised.
        options.home = beneath::resolve(&options.home);
        let (owner, keep) = (owner::this_process(), Keep::at(&options.home));
        Arc::new(Self {
            models: Models::new(&options),
            engines: engines::registry(&options),
            ledger: Ledger::new(&options.home, owner.clone()),
            preferences: Preferences::at(keep.file("settings.json")),
            locations: Locations::at(&keep),
            accounts: Accounts::default(),
            secrets: Secrets::of(&options),
            owner,
            options,
            store,
            registry: Registry::default(),
            lifecycle: Lifecycle::default(),
            mirror: MirrorThread::default(),
            toolbox: Toolbox::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            last_client: AtomicU64::new(0),
            reaped: AtomicBool::new(false),
        })
    }

    /// Closes what is stored of sessions to other users, should an earlier version have left it open. Beside everything
    /// else: nobody should wait for it.
    pub fn secure_sessions(self: &Arc<Self>) {
        let server = self.clone();
        self.tasks.spawn(async move { home::secure_sessions(&server.options.home, &*server.store).await });
    }

    /// Passes a place at which a test may want the server to die.
    pub(crate) fn crash_point(&self, point: CrashPoint) {
        if let Some(plan) = &self.options.crash {
            plan.pass(point);
        }
    }

    /// A name for a client that has just come.
    pub(crate) fn new_client(&self) -> ClientId {
        ClientId(self.last_client.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Serves one SDK over standard input and output, until input ends.
    ///
    /// # Errors
    /// When standard input or output cannot be used.
    pub async fn serve_stdio(self: &Arc<Self>) -> std::io::Result<()> {
        self.reap();
        rpc::serve_stdio(self).await
    }

    /// Serves SDKs over TCP until the server is stopped.
    ///
    /// # Errors
    /// When the listener fails for good.
    pub async fn serve_tcp(self: &Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        self.reap();
        rpc::serve_tcp(self, listener).await
    }

    /// Ends what a killed server left behind, once, whichever door opens first. Beside everything else: nobody should wait
    /// for it.
    pub(crate) fn reap(&self) {
        if self.reaped.swap(true, Ordering::Relaxed) {
            return;
        }
        let home = self.options.home.clone();
        self.tasks.spawn_blocking(move || {
            let reaped = reaper::reap(&home);
            if reaped > 0 {
                tracing::info!(processes = reaped, "ended processes that a killed server had left behind");
            }
        });
    }

    /// Stops: takes no more clients, ends all work with all its processes, lets go of all sessions. What was
    /// acknowledged is in the store; what was pending stays pending for whoever resumes it.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.let_go().await;
        self.tasks.close();
        self.tasks.wait().await;
        self.ledger.close();
        self.mirror.close();
    }

    /// Lets go of all sessions.
    pub(crate) async fn let_go(&self) {
        let stopped = self.registry.all().into_iter().map(|handle| async move {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            if handle.send(Mail::Stop(sender)).is_ok() {
                drop(receiver.await);
            }
        });
        futures_util::future::join_all(stopped).await;
    }

    /// The directory of a session's own files.
    pub(crate) fn session_directory(&self, id: &SessionId, config_dir: Option<&Path>) -> PathBuf {
        let root = config_dir.unwrap_or(&self.options.home);
        root.join(home::SESSIONS).join(id.as_str())
    }
}
