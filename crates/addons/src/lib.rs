//! Add-ons of sessions: MCP servers, skills, plugins, extensions and workflows.
//!
//! A session gets tools of MCP servers, texts of skills, and the parts of plugins from authors that nobody vouches for. This
//! crate finds them, starts them with the session that uses them, and serves requests of clients about them. It has no actor
//! and writes no history: a session is a [`SessionPort`], and [`Addons`] has what the sessions of a process share. The
//! session's policy decides whether a tool may be called; the calls themselves are work of the runtime.
//!
//! * [`mcp`]: MCP servers of a session, logins at them, and tests of one.
//! * [`skills`]: skills of a session; skills and agents without one.
//! * [`plugins`]: plugins of the user, and marketplaces.
//! * [`extensions`]: programs that join a session as clients.
//! * [`workflows`]: runs of code that clients declare.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod extensions;
pub mod mcp;
pub mod plugins;
mod port;
mod server_plugins;
mod session_plugins;
mod session_trust;
pub mod skills;
pub mod workflows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use baton_files::preferences::Preferences;
use baton_files::server_catalogue::ServerCatalogue;
use baton_files::user_servers::UserServers;
use baton_model::http::HttpClient;
use baton_process::Ledger;
use baton_providers::Secrets;
use tokio_util::task::TaskTracker;

use self::extensions::Extensions;
use self::mcp::logins::Logins;
use self::plugins::Plugins;
pub use self::port::{Awaited, SessionPort};
pub use self::server_plugins::ServerPlugins;
pub use self::session_plugins::{PluginHook, UsedPlugin};
pub use self::session_trust::SessionTrust;

/// GitHub's MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubServer {
    /// Its address.
    pub url: String,
    /// Token for sessions that have none of their own.
    pub token: Option<String>,
}

/// Options of the add-ons of a process.
pub struct AddonOptions {
    /// Baton's home.
    pub home: PathBuf,
    /// Default working directory of sessions.
    pub cwd: PathBuf,
    /// Environment of the programs that are started. Must not contain secrets of the server.
    pub environment: Vec<(OsString, OsString)>,
    /// Environment that extensions are started from. Must not contain tokens that only the server reads.
    pub extension_environment: Vec<(OsString, OsString)>,
    /// Directories of plugins that all sessions use.
    pub plugin_directories: Vec<PathBuf>,
    /// GitHub's MCP server, if the server calls GitHub.
    pub github: Option<GithubServer>,
    /// Whether the key of stored logins is in the user's keyring.
    pub keyring: bool,
    /// The server's HTTP client.
    pub network: Arc<HttpClient>,
    /// Ledger of processes.
    pub ledger: Ledger,
    /// Tasks that the process waits for when it stops.
    pub tasks: TaskTracker,
    /// Settings of the user.
    pub preferences: Arc<Preferences>,
    /// Secrets that are redacted from all that models and clients see.
    pub secrets: Arc<Secrets>,
}

/// State that the add-ons of all sessions share; one per process.
pub struct Addons {
    /// MCP servers of the user.
    pub user_servers: UserServers,
    /// MCP servers outside of sessions.
    pub catalogue: ServerCatalogue,
    /// Logins and tokens of MCP servers.
    pub logins: Logins,
    /// Plugins of the user.
    pub plugins: Plugins,
    /// Plugins that clients name for all sessions.
    pub server_plugins: ServerPlugins,
    /// Extensions of the user and of workspaces.
    pub extensions: Extensions,
    /// MCP servers that sessions share.
    shared_servers: Arc<baton_mcp::Pool>,
    options: AddonOptions,
}

impl Addons {
    /// Creates them. Opens nothing, so that start-up costs no I/O.
    #[must_use]
    pub fn new(options: AddonOptions, catalogue: ServerCatalogue) -> Arc<Self> {
        let home = &options.home;
        Arc::new(Self {
            user_servers: UserServers::new(home),
            catalogue,
            logins: Logins::new(home, options.network.clone(), options.keyring),
            plugins: Plugins::new(home),
            server_plugins: ServerPlugins::default(),
            extensions: Extensions::new(&options),
            shared_servers: Arc::default(),
            options,
        })
    }

    /// Whether there are plugins that all sessions use.
    #[must_use]
    pub fn has_server_plugins(&self) -> bool {
        !self.options.plugin_directories.is_empty() || !self.server_plugins.directories().is_empty()
    }
}
