//! One server of a session: its status, its connection, its tools.
//!
//! A server is connected when it is first needed. A connection that ends is noticed and reported; the next use connects
//! again, after a pause that grows with each failure. A call that was running when the connection ended has
//! failed, and is not repeated.

mod connect;
mod status;

use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_sandbox::Place;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::status::ServerStatus;
use crate::client::{Notice, Protected};
use crate::config::{Local, Reach, Remote, ServerConfig};
use crate::expand::Variables;
use crate::host::HostOptions;
use crate::log::ServerLog;
use crate::origin::Origin;
use crate::outcome::ToolCallError;
use crate::shared::{SessionConnection, SharedConnection};
use crate::tool::RemoteTool;
use crate::wire::{Authorization, ConnectionTarget, Context, ServerCall, Start, SuppliedHeaders};
use crate::{credentials, lock};

/// How long a call may be silent, unless the configuration says otherwise.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Variable with the id of the session.
const SESSION_VARIABLE: &str = "COPILOT_AGENT_SESSION_ID";

/// A server of a session.
pub struct Server {
    name: String,
    config: Result<ServerConfig, String>,
    options: Arc<HostOptions>,
    log: ServerLog,
    /// The connection that it shares with other sessions, if it does.
    shared: Option<Arc<SharedConnection>>,
    access: Arc<Authorization>,
    status: watch::Sender<ServerStatus>,
    /// Whether the latest attempt to connect has come to an end, or waits for a person.
    settled: watch::Sender<bool>,
    tools: Mutex<Arc<Vec<Arc<RemoteTool>>>>,
    /// The tools changed since they were listed.
    stale: Arc<AtomicBool>,
    /// Held while changed tools are listed.
    refreshing: AsyncMutex<()>,
    slot: AsyncMutex<Slot>,
    /// Cancels the attempt to connect.
    attempt: Mutex<CancellationToken>,
}

/// The connection of a server, if there is one.
#[derive(Default)]
struct Slot {
    connection: Option<SessionConnection>,
    failures: u32,
    not_before: Option<Instant>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(
        name: String,
        config: Result<ServerConfig, String>,
        options: Arc<HostOptions>,
        status: ServerStatus,
    ) -> Arc<Self> {
        let shared = config.as_ref().ok().and_then(|config| shared_connection(config, &options));
        let access = config
            .as_ref()
            .map_or_else(|_| Authorization::default(), |config| access(&name, config, &options));
        Arc::new(Self {
            name,
            config,
            options,
            log: shared.as_ref().map_or_else(ServerLog::default, |shared| shared.log.clone()),
            shared,
            access: Arc::new(access),
            settled: watch::Sender::new(status != ServerStatus::Pending),
            status: watch::Sender::new(status),
            tools: Mutex::default(),
            stale: Arc::default(),
            refreshing: AsyncMutex::default(),
            slot: AsyncMutex::default(),
            attempt: Mutex::default(),
        })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its configuration, if it can be used.
    #[must_use]
    pub fn config(&self) -> Option<&ServerConfig> {
        self.config.as_ref().ok()
    }

    /// Whether its declaration is this one.
    pub(crate) fn is_declared_as(&self, config: &Result<ServerConfig, String>) -> bool {
        self.config == *config
    }

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        self.status.borrow().clone()
    }

    /// Returns its log.
    #[must_use]
    pub fn log(&self) -> &ServerLog {
        &self.log
    }

    /// Returns the tools of the connected server; none if it is not connected.
    #[must_use]
    pub fn tools(&self) -> Arc<Vec<Arc<RemoteTool>>> {
        lock(&self.tools).clone()
    }

    /// Connects the server in the background, unless it is connected, disabled or stopped.
    pub(crate) fn start(self: &Arc<Self>) {
        if matches!(self.status(), ServerStatus::Disabled | ServerStatus::Stopped | ServerStatus::Connected) {
            return;
        }
        let server = self.clone();
        self.options.tasks.spawn(async move { server.connect().await.map(drop) });
    }

    /// Waits until the attempt to connect has come to an end, or waits for a person.
    pub(crate) async fn settle(&self) {
        let mut settled = self.settled.subscribe();
        // The sender lives as long as the server does.
        let _ = settled.wait_for(|settled| *settled).await;
    }

    /// Calls a tool and returns its `CallToolResult`.
    ///
    /// # Errors
    /// When there is no result.
    pub async fn call(self: &Arc<Self>, mut call: ServerCall) -> Result<Value, ToolCallError> {
        if let Some(patience) = self.config().and_then(|config| config.timeout) {
            call.patience = patience;
        }
        let cancel = call.cancel.clone();
        let connection = tokio::select! {
            connection = self.connection() => connection?,
            () = cancel.cancelled() => return Err(ToolCallError::Cancelled),
        };
        self.check_unchanged(&call)?;
        match connection.call(call.clone()).await {
            Err(ToolCallError::Unauthorized) => {
                let challenge = connection.take_challenge();
                let connection = tokio::select! {
                    connection = self.authorized(challenge) => connection?,
                    () = cancel.cancelled() => return Err(ToolCallError::Cancelled),
                };
                self.check_unchanged(&call)?;
                // The server refused the request before it looked at the call, so this is the first time.
                connection.call(call).await
            }
            Err(error @ ToolCallError::NotSent(_)) => {
                // An expired session, a server that is gone: the next use connects again.
                connection.close().await;
                Err(error)
            }
            Ok(result) => {
                self.slot.lock().await.failures = 0;
                Ok(result)
            }
            other => other,
        }
    }

    /// Checks that the tool is the one that was approved. Every connection lists the tools anew.
    fn check_unchanged(&self, call: &ServerCall) -> Result<(), ToolCallError> {
        let Some(approved) = &call.approved else { return Ok(()) };
        match self.tools().iter().any(|tool| tool == approved) {
            true => Ok(()),
            false => Err(ToolCallError::Changed),
        }
    }

    /// Returns the default for [`ServerCall::patience`].
    #[must_use]
    pub fn patience() -> Duration {
        PATIENCE
    }

    /// Sends a request with plain parameters, to a connected server.
    ///
    /// # Errors
    /// When the server is not connected, or there is no result.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, ToolCallError> {
        let connection = self.slot.lock().await.connection.clone().filter(|connection| connection.is_open());
        let connection =
            connection.ok_or_else(|| ToolCallError::Unavailable(self.status().as_str().to_owned()))?;
        connection.send(method, params).await
    }

    /// Reads the list of tools again if the server announced a change. Without a new list there are no tools, until one can
    /// be read: the old ones are not what the server has now.
    pub async fn refresh(&self) {
        // A second caller must not go on with the old list.
        let _alone = self.refreshing.lock().await;
        if !self.stale.swap(false, Ordering::Relaxed) {
            return;
        }
        let connection = self.slot.lock().await.connection.clone();
        let Some(connection) = connection.filter(|connection| connection.is_open()) else { return };
        let listed = self.list_tools(&connection).await;
        if let Err(error) = &listed {
            self.stale.store(true, Ordering::Relaxed);
            self.log.add(&format!("announced that its tools changed, and tools/list failed: {error}"));
        }
        *lock(&self.tools) = Arc::new(listed.unwrap_or_default());
    }

    /// Ends the connection, because another server has taken its place.
    pub async fn end(&self) {
        self.stop(ServerStatus::NotConfigured).await;
    }

    /// Ends the connection, and leaves the server in `status`. The next use connects again, unless it is disabled or
    /// stopped.
    pub(crate) async fn stop(&self, status: ServerStatus) {
        self.set_status(status);
        lock(&self.attempt).cancel();
        let connection = self.slot.lock().await.connection.take();
        *lock(&self.tools) = Arc::default();
        if let Some(connection) = connection {
            connection.close().await;
        }
        self.settled.send_replace(true);
    }

    /// Makes a disabled, stopped or failed server ready for its next use, without a pause.
    pub(crate) async fn revive(&self) {
        *self.slot.lock().await = Slot::default();
        self.settled.send_replace(false);
        self.set_status(ServerStatus::Pending);
    }

    fn set_status(&self, status: ServerStatus) {
        if self.status.send_replace(status.clone()) != status {
            self.options.client.notice(&self.name, Notice::Status(status));
        }
    }

    fn context(&self) -> Context {
        let stale = self.stale.clone();
        Context {
            server: self.name.clone(),
            client: self.options.client.clone(),
            log: self.log.clone(),
            tasks: self.options.tasks.clone(),
            root: self.options.cwd.clone(),
            tools_changed: Arc::new(move || stale.store(true, Ordering::Relaxed)),
        }
    }

    /// Returns the variables that a declaration may use.
    fn variables<'a>(&'a self, config: &'a ServerConfig) -> Variables<'a> {
        let options = &self.options;
        Variables { environment: &options.environment, origin: &config.origin, cwd: &options.cwd }
    }

    /// Returns what to connect to, with variables replaced. The program of a repository is placed in the session's sandbox.
    async fn placed_target(&self, config: &ServerConfig) -> Result<ConnectionTarget, String> {
        match self.target(config)? {
            ConnectionTarget::Program(start) if self.is_of_repository(config) => {
                let sandbox = match self.options.client.place().await? {
                    Place::Inside(ready) => Some(ready),
                    Place::Outside => None,
                };
                Ok(ConnectionTarget::Program(Start { sandbox, ..start }))
            }
            target => Ok(target),
        }
    }

    /// Whether the directory in which the session works has brought the server.
    fn is_of_repository(&self, config: &ServerConfig) -> bool {
        match &config.origin {
            Origin::Workspace { .. } | Origin::Distrusted { .. } => true,
            // Installed by the user, unless the repository contains it.
            Origin::Plugin { root, .. } => root.starts_with(&self.options.cwd),
            Origin::Agent { .. } | Origin::Session | Origin::User | Origin::Settings | Origin::BuiltIn => {
                false
            }
        }
    }

    /// Returns what to connect to, with variables replaced.
    fn target(&self, config: &ServerConfig) -> Result<ConnectionTarget, String> {
        let (options, variables) = (&self.options, self.variables(config));
        match &config.reach {
            Reach::Local(local) => Ok(ConnectionTarget::Program(self.program(local, &variables)?)),
            Reach::Remote(remote) => {
                let mut remote = remote.clone();
                for value in remote.headers.values_mut() {
                    *value = variables.expand(value)?;
                }
                Ok(ConnectionTarget::Remote {
                    remote,
                    http: options.http.clone(),
                    access: self.access.clone(),
                })
            }
        }
    }

    /// Returns what the authorization of a remote server needs.
    #[must_use]
    pub fn protected(&self) -> Option<Protected> {
        let config = self.config()?;
        Protected::of(&self.name, config, &self.variables(config))
    }

    /// Forgets the token: the next connection asks for one.
    pub fn forget_token(&self) {
        self.access.forget_token();
    }

    /// Ends the connection, and forgets the token.
    pub async fn log_out(&self) {
        self.forget_token();
        self.stop(ServerStatus::NeedsAuth).await;
    }

    /// Returns the program of a shared server, which belongs to no session.
    fn shared_target(&self, config: &ServerConfig, tag: &str) -> Result<ConnectionTarget, String> {
        Ok(match self.target(config)? {
            ConnectionTarget::Program(mut start) => {
                start.environment.retain(|(name, _)| name != SESSION_VARIABLE);
                start.tag = format!("{tag}{}/", uuid::Uuid::new_v4());
                ConnectionTarget::Program(start)
            }
            remote => remote,
        })
    }

    fn program(&self, local: &Local, variables: &Variables<'_>) -> Result<Start, String> {
        let options = &self.options;
        let mut environment: Vec<(OsString, OsString)> = options.environment.clone();
        let mut set = |name: &str, value: String| {
            environment.retain(|(have, _)| have != name);
            environment.push((name.into(), value.into()));
        };
        set(SESSION_VARIABLE, options.session.clone());
        if let Origin::Plugin { root, .. } = variables.origin {
            for name in ["COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"] {
                set(name, root.to_string_lossy().into_owned());
            }
        }
        for (name, value) in &local.env {
            set(name, variables.expand(value)?);
        }
        // Programs of a workspace and of a plugin start where they are declared, wherever the session works.
        let directory = variables.origin.root().unwrap_or(&options.cwd);
        let cwd = match &local.cwd {
            Some(cwd) => directory.join(variables.expand(cwd)?),
            None => directory.to_owned(),
        };
        let args = local.args.iter().map(|arg| Ok(variables.expand(arg)?.into()));
        Ok(Start {
            program: variables.expand(&local.command)?.into(),
            args: args.collect::<Result<_, String>>()?,
            environment,
            cwd,
            tag: format!("{}{}/", options.tag, uuid::Uuid::new_v4()),
            ledger: options.ledger.clone(),
            sandbox: None,
        })
    }

    /// Returns the credentials in the server's configuration, which must not appear in results, logs and events.
    pub(crate) fn credentials(&self) -> Vec<String> {
        let Ok(config) = &self.config else { return Vec::new() };
        let variables = self.variables(config);
        let expanded = |(name, value): (&String, &String)| {
            (name.clone(), variables.expand(value).unwrap_or_else(|_| value.clone()))
        };
        match &config.reach {
            Reach::Local(local) => credentials::named(local.env.iter().map(expanded)),
            Reach::Remote(remote) => {
                let mut found = credentials::in_headers(remote.headers.iter().map(expanded));
                found.extend(credentials::in_url(&remote.url));
                found
            }
        }
    }
}

/// Creates the authorization of a server.
fn access(name: &str, config: &ServerConfig, options: &HostOptions) -> Authorization {
    match &config.reach {
        Reach::Remote(Remote { url, supplied_headers: Some(ttl), .. }) => {
            let client = options.client.clone();
            Authorization::with_headers(SuppliedHeaders::new(client, name.to_owned(), url, *ttl))
        }
        _ => Authorization::default(),
    }
}

/// Returns the connection of a shared server. Two sessions share it if they would start the same program in the same directory.
fn shared_connection(config: &ServerConfig, options: &HostOptions) -> Option<Arc<SharedConnection>> {
    let Reach::Local(local) = &config.reach else { return None };
    let key = format!("{local:?} {:?} {:?}", options.cwd, options.environment);
    config.is_shared().then(|| options.pool.connection(key))
}
