//! One server of a session: its status, its connection, its tools.
//!
//! A server is connected when it is first needed. A connection that ends is noticed and reported; the next use connects
//! again, after a pause that grows with each failure. A call that was running then has failed: nothing is called twice.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{AuthReason, Notice};
use crate::config::{Local, Reach, ServerConfig};
use crate::expand::expand;
use crate::host::HostOptions;
use crate::lock;
use crate::log::ServerLog;
use crate::outcome::CallError;
use crate::tool::RemoteTool;
use crate::wire::{Access, Call, Challenge, ConnectError, Connection, Context, Start, Target};

/// Tools of a server that are accepted.
const MOST_TOOLS: usize = 1000;
/// The longest pause before a server is connected again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a call may be silent, unless the configuration says otherwise.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Not connected yet, or connecting.
    Pending,
    /// Connected.
    Connected,
    /// It could not be connected, or its connection ended; with the reason.
    Failed(String),
    /// It requires authorization.
    NeedsAuth,
    /// The session does not use it.
    Disabled,
    /// It was stopped.
    Stopped,
    /// It is about to be configured again.
    NotConfigured,
}

impl Status {
    /// Returns the name that SDKs use.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::Failed(_) => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
            Self::NotConfigured => "not_configured",
        }
    }

    /// Returns the reason of a failure.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// A server of a session.
pub struct Server {
    name: String,
    config: Result<ServerConfig, String>,
    options: Arc<HostOptions>,
    log: ServerLog,
    access: Arc<Access>,
    status: watch::Sender<Status>,
    /// Whether the latest attempt to connect has come to an end, or waits for a person.
    settled: watch::Sender<bool>,
    tools: Mutex<Arc<Vec<Arc<RemoteTool>>>>,
    /// The tools changed since they were listed.
    stale: Arc<AtomicBool>,
    slot: AsyncMutex<Slot>,
    /// Cancels the attempt to connect.
    attempt: Mutex<CancellationToken>,
}

/// The connection of a server, if there is one.
#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
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
        status: Status,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            config,
            options,
            log: ServerLog::default(),
            access: Arc::default(),
            settled: watch::Sender::new(status != Status::Pending),
            status: watch::Sender::new(status),
            tools: Mutex::default(),
            stale: Arc::default(),
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

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> Status {
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
        if matches!(self.status(), Status::Disabled | Status::Stopped | Status::Connected) {
            return;
        }
        let server = self.clone();
        tokio::spawn(async move { server.connect().await.map(drop) });
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
    pub async fn call(self: &Arc<Self>, mut call: Call) -> Result<Value, CallError> {
        if let Some(patience) = self.config().and_then(|config| config.timeout) {
            call.patience = patience;
        }
        let cancel = call.cancel.clone();
        let connection = tokio::select! {
            connection = self.connection() => connection?,
            () = cancel.cancelled() => return Err(CallError::Cancelled),
        };
        match connection.call(call.clone()).await {
            Err(CallError::Unauthorized) => {
                let challenge = connection.take_challenge();
                let connection = tokio::select! {
                    connection = self.authorized(challenge) => connection?,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                // The server refused the request before it looked at the call, so this is the first time.
                connection.call(call).await
            }
            Err(error @ CallError::NotSent(_)) => {
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

    /// Returns the default for [`Call::patience`].
    #[must_use]
    pub fn patience() -> Duration {
        PATIENCE
    }

    /// Sends a request with plain parameters, to a connected server.
    ///
    /// # Errors
    /// When the server is not connected, or there is no result.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let connection = self.slot.lock().await.connection.clone().filter(|connection| connection.is_open());
        let connection =
            connection.ok_or_else(|| CallError::Unavailable(self.status().as_str().to_owned()))?;
        connection.send(method, params).await
    }

    /// Reads the list of tools again if the server announced a change.
    pub(crate) async fn refresh(&self) {
        if self.stale.swap(false, Ordering::Relaxed) {
            let connection = self.slot.lock().await.connection.clone();
            if let Some(connection) = connection.filter(|connection| connection.is_open())
                && let Ok(tools) = self.list_tools(&connection).await
            {
                *lock(&self.tools) = Arc::new(tools);
            }
        }
    }

    /// Ends the connection, because another server has taken its place.
    pub async fn end(&self) {
        self.stop(Status::NotConfigured).await;
    }

    /// Ends the connection, and leaves the server in `status`. The next use connects again, unless it is disabled or
    /// stopped.
    pub(crate) async fn stop(&self, status: Status) {
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
        self.set_status(Status::Pending);
    }

    fn set_status(&self, status: Status) {
        if self.status.send_replace(status.clone()) != status {
            self.options.client.notice(&self.name, Notice::Status(status));
        }
    }

    /// Returns the connection, connecting if there is none. Continues if the caller goes away.
    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, CallError> {
        let server = self.clone();
        let connecting = tokio::spawn(async move { server.connect().await });
        connecting.await.unwrap_or_else(|_| Err(CallError::Unavailable("internal error".into())))
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = slot.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let status = self.status();
        if matches!(status, Status::Disabled | Status::Stopped) {
            return Err(CallError::Unavailable(status.as_str().to_owned()));
        }
        if slot.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(CallError::Unavailable(status.error().unwrap_or("failed").to_owned()));
        }
        let attempt = CancellationToken::new();
        *lock(&self.attempt) = attempt.clone();
        self.settled.send_replace(false);
        let result = tokio::select! {
            result = self.open() => result,
            () = attempt.cancelled() => Err(None),
        };
        let result = match result {
            Ok(connection) => {
                let connection = Arc::new(connection);
                slot.connection = Some(connection.clone());
                slot.not_before = None;
                self.set_status(Status::Connected);
                self.watch(connection.clone());
                Ok(connection)
            }
            Err(status) => {
                // Without a status, somebody else has set it.
                if let Some(status) = status {
                    self.note_failure(&mut slot, &status);
                    self.set_status(status);
                }
                let status = self.status();
                Err(CallError::Unavailable(status.error().unwrap_or(status.as_str()).to_owned()))
            }
        };
        self.settled.send_replace(true);
        result
    }

    /// Opens a connection and lists its tools. Asks for a token if the server requires one.
    async fn open(self: &Arc<Self>) -> Result<Connection, Option<Status>> {
        let config = self.config.as_ref().map_err(|problem| Some(Status::Failed(problem.clone())))?;
        // Every attempt is reported, the first one too.
        self.status.send_replace(Status::Pending);
        self.options.client.notice(&self.name, Notice::Status(Status::Pending));
        let mut asked = false;
        loop {
            match Connection::open(self.target(config), self.context()).await {
                Ok(connection) => match self.list_tools(&connection).await {
                    Ok(tools) => {
                        *lock(&self.tools) = Arc::new(tools);
                        return Ok(connection);
                    }
                    Err(error) => {
                        connection.close().await;
                        return Err(Some(Status::Failed(format!("tools/list failed: {error}"))));
                    }
                },
                Err(ConnectError::Failed(problem)) => {
                    self.log.add(&problem);
                    return Err(Some(Status::Failed(problem)));
                }
                Err(ConnectError::Unauthorized(_)) if asked => return Err(Some(Status::NeedsAuth)),
                Err(ConnectError::Unauthorized(challenge)) => {
                    asked = true;
                    self.set_status(Status::NeedsAuth);
                    self.settled.send_replace(true);
                    self.set_status(Status::Pending);
                    match self.options.client.authorize(&self.name, *challenge, AuthReason::Initial).await {
                        Some(token) => self.access.set_token(token),
                        None => return Err(Some(Status::NeedsAuth)),
                    }
                }
            }
        }
    }

    /// Gets a new token during a call, and connects again with it.
    async fn authorized(
        self: &Arc<Self>,
        challenge: Option<Challenge>,
    ) -> Result<Arc<Connection>, CallError> {
        let Some(challenge) = challenge else { return Err(CallError::Unauthorized) };
        let client = &self.options.client;
        let reason = if challenge.status == 403 { AuthReason::Upscope } else { AuthReason::Refresh };
        let mut token = client.authorize(&self.name, challenge.clone(), reason).await;
        if token.is_none() && reason == AuthReason::Refresh {
            token = client.authorize(&self.name, challenge, AuthReason::Reauth).await;
        }
        let Some(token) = token else {
            self.stop(Status::NeedsAuth).await;
            return Err(CallError::Unauthorized);
        };
        self.access.set_token(token);
        client.notice(&self.name, Notice::Removed);
        self.stop(Status::NotConfigured).await;
        self.connection().await
    }

    fn note_failure(&self, slot: &mut Slot, status: &Status) {
        if matches!(status, Status::Failed(_)) {
            slot.not_before = (slot.failures > 0).then(|| {
                let pause = Duration::from_secs(1 << slot.failures.min(6).saturating_sub(1));
                Instant::now() + pause.min(LONGEST_PAUSE)
            });
            slot.failures += 1;
        }
    }

    /// Notices the end of a connection.
    fn watch(self: &Arc<Self>, connection: Arc<Connection>) {
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            let reason = connection.ended().await;
            if let Some(server) = server.upgrade() {
                let mut slot = server.slot.lock().await;
                if slot.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, &connection)) {
                    slot.connection = None;
                    *lock(&server.tools) = Arc::default();
                    server.log.add(&reason);
                    let status = Status::Failed(reason);
                    server.note_failure(&mut slot, &status);
                    server.set_status(status);
                }
            }
            connection.close().await;
        });
    }

    async fn list_tools(&self, connection: &Connection) -> Result<Vec<Arc<RemoteTool>>, CallError> {
        let entries = match connection.list("tools/list", "tools", MOST_TOOLS).await {
            Ok(entries) => entries,
            // A server without tools.
            Err(CallError::Refused { code: -32601, .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut tools: Vec<Arc<RemoteTool>> = Vec::with_capacity(entries.len());
        for entry in &entries {
            match RemoteTool::parse(entry) {
                Ok(tool) if tools.iter().any(|known| known.name == tool.name) => {
                    self.log.add(&format!("lists the tool {} twice; the first one is used", tool.name));
                }
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(problem) => self.log.add(&format!("lists a tool that cannot be offered: {problem}")),
            }
        }
        Ok(tools)
    }

    fn context(&self) -> Context {
        let stale = self.stale.clone();
        Context {
            server: self.name.clone(),
            client: self.options.client.clone(),
            log: self.log.clone(),
            tools_changed: Arc::new(move || stale.store(true, Ordering::Relaxed)),
        }
    }

    fn target(&self, config: &ServerConfig) -> Target {
        match &config.reach {
            Reach::Local(local) => Target::Program(self.program(local)),
            Reach::Remote(remote) => {
                let mut remote = remote.clone();
                for value in remote.headers.values_mut() {
                    *value = self.expand(value);
                }
                Target::Remote { remote, http: self.options.http.clone(), access: self.access.clone() }
            }
        }
    }

    fn program(&self, local: &Local) -> Start {
        let options = &self.options;
        let mut environment: Vec<(OsString, OsString)> = options.environment.clone();
        let mut set = |name: &str, value: String| {
            environment.retain(|(have, _)| have != name);
            environment.push((name.into(), value.into()));
        };
        set("COPILOT_AGENT_SESSION_ID", options.session.clone());
        for (name, value) in &local.env {
            set(name, self.expand(value));
        }
        let cwd = local.cwd.as_ref().map(|cwd| options.cwd.join(self.expand(cwd)));
        Start {
            program: self.expand(&local.command).into(),
            args: local.args.iter().map(|arg| self.expand(arg).into()).collect(),
            environment,
            cwd: cwd.unwrap_or_else(|| PathBuf::from(&options.cwd)),
            tag: format!("{}{}/", options.tag, uuid::Uuid::new_v4()),
            ledger: options.ledger.clone(),
        }
    }

    fn expand(&self, text: &str) -> String {
        expand(text, &|name| {
            let known = self.options.environment.iter().find(|(have, _)| have == name);
            known.map(|(_, value)| value.to_string_lossy().into_owned())
        })
    }
}
