//! The protocol: a connection to one server, over any transport.
//!
//! Messages ([`message`]) are plain JSON, so that one unusual entry does not make the others unreadable. The [`peer`] finds
//! the responses to requests, the [`handler`] answers the server's own, the [`handshake`] agrees on a version. There are
//! three transports, which bound every message: [`stdio`], [`streamable`] and the older [`sse`]. Calls end by a time limit,
//! a cancel or the end of the connection ([`request`]).
//!
//! Nothing here is repeated or reconnected on its own: [`crate::server`] decides that.

mod handler;
mod handshake;
mod headers;
pub(crate) mod lines;
mod message;
mod peer;
mod remote;
mod request;
mod sse;
mod standard;
mod stdio;
mod streamable;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use baton_process::Start;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::handler::Handler;
use self::handshake::{ENDED, Lifecycle, Refusal, shake_hands};
pub(crate) use self::headers::SuppliedHeaders;
use self::peer::{Inlet, Outlet, Peer};
pub(crate) use self::remote::Authorization;
pub(crate) use self::remote::read;
pub use self::remote::{Challenge, fetch_text};
use self::stdio::Process;
#[doc(hidden)]
pub use self::stdio::read_messages;
use crate::client::McpClient;
use crate::config::{Remote, RemoteKind};
use crate::http::Http;
use crate::log::ServerLog;
use crate::tool::RemoteTool;

/// How long a connection may take to close.
const CLOSING: Duration = Duration::from_secs(3);

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
    /// The tool as it was approved, if it was: a server that lists another one by now does not get the call.
    pub approved: Option<Arc<RemoteTool>>,
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
    peer: Peer,
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
        let begin = async |outlet: Box<dyn Outlet>, inlet: Box<dyn Inlet>| {
            let peer = Peer::start(outlet, inlet, handler.clone(), &tasks);
            shake_hands(&peer, &handler, lifecycle).await.map(|()| peer)
        };
        let (begun, process, access) = match target {
            ConnectionTarget::Program(start) => {
                let (process, stdin, stdout) = Process::start(start, &log, &tasks).map_err(|error| {
                    ConnectError::Failed(format!("failed to spawn MCP server process: {error}"))
                })?;
                (begin(Box::new(stdin), Box::new(stdout)).await, Some(process), None)
            }
            ConnectionTarget::Remote { remote, http, access } => {
                let begun = match remote.kind {
                    RemoteKind::Http => {
                        let (outlet, inlet) =
                            streamable::transport(&remote, http, access.clone(), &log, &tasks);
                        begin(Box::new(outlet), Box::new(inlet)).await
                    }
                    RemoteKind::Sse => match sse::Stream::open(&remote, http, access.clone(), &log).await {
                        Ok((outlet, inlet)) => begin(Box::new(outlet), Box::new(inlet)).await,
                        Err(problem) => Err(Refusal::Failed(problem)),
                    },
                };
                (begun, None, Some(access))
            }
        };
        let challenge = access.as_ref().and_then(|access| access.take_challenge());
        let problem = match (begun, challenge) {
            (Ok(peer), _) => {
                return Ok(Self { peer, handler, process, access, closed: CancellationToken::new() });
            }
            (Err(_), Some(challenge)) => return Err(ConnectError::Unauthorized(Box::new(challenge))),
            (Err(Refusal::NoHandshake(problem)), None) => ConnectError::NoHandshake(problem),
            (Err(Refusal::NotSent(problem)), None) if process.is_none() => ConnectError::Failed(problem),
            (Err(refusal), None) => {
                // Writing fails when the program has exited.
                let problem = match refusal {
                    Refusal::Failed(problem) => problem,
                    _ => ENDED.into(),
                };
                // A program whose stdin was closed exits, too; that is not why.
                let exit = match &process {
                    Some(process) if problem == ENDED => process.exit().await,
                    _ => None,
                };
                ConnectError::Failed(match &process {
                    Some(_) => not_started(exit, &problem, &log),
                    None => problem,
                })
            }
        };
        if let Some(process) = process {
            process.end().await;
        }
        Err(problem)
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
            () = self.peer.over().cancelled() => {}
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
        !self.peer.over().is_cancelled()
            && !self.closed.is_cancelled()
            && self.process.as_ref().is_none_or(|process| !process.exited.is_cancelled())
    }

    /// Closes the connection, and ends the server's processes.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        self.peer.stop();
        let _ = timeout(CLOSING, self.peer.over().cancelled()).await;
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
