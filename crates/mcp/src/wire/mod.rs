//! The protocol: a connection to one server, over any transport. Only this module knows `rmcp`.
//!
//! `rmcp` negotiates, correlates and serialises. What it leaves open is decided here: transports that bound every message,
//! calls that end by a time limit, a cancel or the end of the connection, and results that are read as plain JSON, so that
//! one unusual entry does not make the others unreadable.

mod handler;
mod headers;
pub(crate) mod lines;
mod remote;
mod request;
mod sse;
mod stdio;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use baton_process::Start;
use baton_tasks::TaskTracker;
use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RunningService, RunningServiceCancellationToken,
    serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::handler::Handler;
pub(crate) use self::headers::SuppliedHeaders;
pub(crate) use self::remote::Authorization;
pub(crate) use self::remote::read;
pub use self::remote::{Challenge, fetch_text};
use self::stdio::Process;
use crate::client::McpClient;
use crate::config::{Remote, RemoteKind};
use crate::http::Http;
use crate::lock;
use crate::log::ServerLog;
use crate::text::clean;

/// How long a server may take from its start to the end of the handshake. `npx` downloads the server first.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long a connection may take to close.
const CLOSING: Duration = Duration::from_secs(3);

/// Problem of a handshake whose connection ended.
const ENDED: &str = "the connection ended during the handshake";

/// Progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// The value when it is done, if the server knows it.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: Option<String>,
}

/// A call of a tool.
#[derive(Clone)]
pub struct ServerCall {
    /// Name of the tool on the server.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Additional `_meta` of the request.
    pub meta: Option<Map<String, Value>>,
    /// How long the server may be silent.
    pub patience: Duration,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Receives progress.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// Why a connection could not be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    NoHandshake(String),
    #[error("authorization required")]
    Unauthorized(Box<Challenge>),
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    /// With `initialize`, which all servers know that speak a version before 2026-07-28.
    Handshake,
    /// With `server/discover`: every request says what it needs.
    Stateless,
}

impl Lifecycle {
    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Handshake => ClientLifecycleMode::Initialize,
            Self::Stateless => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
            }
        }
    }
}

/// Why a connection did not begin.
enum Refusal {
    /// The server does not know `initialize`, or no version with it.
    NoHandshake(String),
    Failed(String),
}

fn has_no_handshake(error: &ClientInitializeError) -> bool {
    let codes = [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION];
    matches!(error, ClientInitializeError::JsonRpcError(error) if codes.contains(&error.code))
}

/// Where a connection goes.
#[derive(Clone)]
pub(crate) enum ConnectionTarget {
    Program(Start),
    Remote { remote: Remote, http: Arc<dyn Http>, access: Arc<Authorization> },
}

/// Context of a connection: its server, and resources for it.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) server: String,
    pub(crate) client: Arc<dyn McpClient>,
    pub(crate) log: ServerLog,
    pub(crate) tasks: TaskTracker,
    pub(crate) root: PathBuf,
    pub(crate) tools_changed: Arc<dyn Fn() + Send + Sync>,
}

/// A connection to a server.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// Ends the library's task.
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    /// Cancelled when the library's task has ended.
    over: CancellationToken,
    handler: Arc<Handler>,
    process: Option<Process>,
    access: Option<Arc<Authorization>>,
    /// Cancelled when the connection has ended.
    closed: CancellationToken,
}

impl Connection {
    /// Connects to a server and completes the handshake. A server that has none is connected once more, without.
    pub(crate) async fn open(target: ConnectionTarget, context: Context) -> Result<Self, ConnectError> {
        match Self::open_with(target.clone(), context.clone(), Lifecycle::Handshake).await {
            Err(ConnectError::NoHandshake(_)) => Self::open_with(target, context, Lifecycle::Stateless).await,
            opened => opened,
        }
    }

    async fn open_with(
        target: ConnectionTarget,
        context: Context,
        lifecycle: Lifecycle,
    ) -> Result<Self, ConnectError> {
        let Context { server, client, log, tasks, root, tools_changed } = context;
        let handler = Arc::new(Handler::new(server, client, log.clone(), root, tools_changed));
        match target {
            ConnectionTarget::Program(start) => {
                let (process, pipes) = Process::start(start, &log, &tasks).map_err(|error| {
                    ConnectError::Failed(format!("failed to spawn MCP server process: {error}"))
                })?;
                match Self::shake_hands(pipes, &handler, lifecycle).await {
                    Ok(running) => Ok(Self::new(running, &tasks, handler, Some(process), None)),
                    Err(Refusal::NoHandshake(problem)) => {
                        process.end().await;
                        Err(ConnectError::NoHandshake(problem))
                    }
                    Err(Refusal::Failed(problem)) => {
                        // A program whose stdin was closed exits, too; that is not why.
                        let exit = if problem == ENDED { process.exit().await } else { None };
                        process.end().await;
                        Err(ConnectError::Failed(not_started(exit, &problem, &log)))
                    }
                }
            }
            ConnectionTarget::Remote { remote, http, access } => {
                let running = match remote.kind {
                    RemoteKind::Http => {
                        let transport = remote::transport(&remote, http, access.clone());
                        Self::shake_hands(transport, &handler, lifecycle).await
                    }
                    RemoteKind::Sse => match sse::Stream::open(&remote, http, access.clone(), &log).await {
                        Ok(stream) => Self::shake_hands(stream, &handler, lifecycle).await,
                        Err(problem) => Err(Refusal::Failed(problem)),
                    },
                };
                match (running, access.take_challenge()) {
                    (Ok(running), _) => Ok(Self::new(running, &tasks, handler, None, Some(access))),
                    (Err(_), Some(challenge)) => Err(ConnectError::Unauthorized(Box::new(challenge))),
                    (Err(Refusal::NoHandshake(problem)), None) => Err(ConnectError::NoHandshake(problem)),
                    (Err(Refusal::Failed(problem)), None) => Err(ConnectError::Failed(problem)),
                }
            }
        }
    }

    async fn shake_hands<T, E, A>(
        transport: T,
        handler: &Arc<Handler>,
        lifecycle: Lifecycle,
    ) -> Result<RunningService<RoleClient, Arc<Handler>>, Refusal>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let serving = serve_client_with_lifecycle(handler.clone(), transport, lifecycle.mode());
        let running = match timeout(HANDSHAKE, serving).await {
            Ok(Ok(running)) => running,
            Ok(Err(error)) if lifecycle == Lifecycle::Handshake && has_no_handshake(&error) => {
                return Err(Refusal::NoHandshake(handshake_problem(&error)));
            }
            Ok(Err(error)) => return Err(Refusal::Failed(handshake_problem(&error))),
            Err(_) => {
                let problem = format!("no response to initialize within {} s", HANDSHAKE.as_secs());
                return Err(Refusal::Failed(problem));
            }
        };
        let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
        match version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
            None => Ok(running),
            Some(version) => {
                let version = clean(version.as_str(), 40);
                let problem = format!("the server speaks an unknown version of the protocol: {version}");
                Err(Refusal::Failed(problem))
            }
        }
    }

    fn new(
        running: RunningService<RoleClient, Arc<Handler>>,
        tasks: &TaskTracker,
        handler: Arc<Handler>,
        process: Option<Process>,
        access: Option<Arc<Authorization>>,
    ) -> Self {
        let (peer, over) = (running.peer().clone(), CancellationToken::new());
        let stop = Mutex::new(Some(running.cancellation_token()));
        let ended = over.clone();
        tasks.spawn(async move {
            let _ = running.waiting().await;
            ended.cancel();
        });
        Self { peer, stop, over, handler, process, access, closed: CancellationToken::new() }
    }

    /// Waits until the connection ends by itself. Returns why.
    pub(crate) async fn ended(&self) -> String {
        let exited = async {
            match &self.process {
                Some(process) => process.exited.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.over.cancelled() => {}
            () = exited => {}
            () = self.closed.cancelled() => return "closed".into(),
        }
        match &self.process {
            Some(process) => match process.exit().await {
                Some(status) => format!("MCP server process exited ({})", described(status)),
                None => "MCP server process closed its output".into(),
            },
            None => "the connection to the MCP server ended".into(),
        }
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.over.is_cancelled()
            && !self.closed.is_cancelled()
            && self.process.as_ref().is_none_or(|process| !process.exited.is_cancelled())
    }

    /// Closes the connection, and ends the server's processes.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        if let Some(stop) = lock(&self.stop).take() {
            stop.cancel();
        }
        let _ = timeout(CLOSING, self.over.cancelled()).await;
        if let Some(process) = &self.process {
            process.end().await;
        }
    }

    /// Takes the challenge that made the last request fail.
    pub(crate) fn take_challenge(&self) -> Option<Challenge> {
        self.access.as_ref()?.take_challenge()
    }
}

fn not_started(exit: Option<ExitStatus>, problem: &str, log: &ServerLog) -> String {
    let mut text = match exit {
        Some(status) => format!(
            "MCP server process exited before completing the MCP initialize handshake ({})",
            described(status)
        ),
        None => problem.to_owned(),
    };
    if let Some(tail) = log.tail() {
        text.push_str("; last stderr: ");
        text.push_str(&tail);
    }
    text
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "unknown exit code".into(),
    }
}

fn handshake_problem(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => ENDED.into(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("the server refused to initialize: {}", clean(&error.message, 1000))
        }
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            "the response to initialize cannot be used".into()
        }
        ClientInitializeError::TransportError { error, .. } if error.error.is::<std::io::Error>() => {
            ENDED.into()
        }
        ClientInitializeError::TransportError { error, .. } => clean(&error.error.to_string(), 1000),
        other => clean(&other.to_string(), 1000),
    }
}
