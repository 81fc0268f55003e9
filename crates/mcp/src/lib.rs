//! The client of Model Context Protocol (MCP) servers.
//!
//! * [`config`] and [`files`] parse declarations of servers: the SDK's form, and the files of other programs. [`merge`]
//!   chooses between declarations of the same name.
//! * [`Host`] is the set of servers of a session. It starts them when they are first needed, in parallel.
//! * [`Server`] is one of them: its status, its tools, its log, and restarts with backoff.
//! * [`proxy`] is a server of our own, which offers the tools of a session to another program.
//! * [`wire`](crate) is the protocol itself: messages, transports, the handshake and requests.
//!
//! Servers are strangers. Whatever a server does (hang, flood, lie, die) costs a call and nothing more: messages, lists,
//! texts, logs and times are bounded, and the end of a connection is an ordinary event. Nothing here decides whether a tool
//! may be called.

mod binding;
mod client;
pub mod config;
mod credentials;
mod describe;
mod expand;
pub mod files;
mod host;
mod http;
mod log;
mod names;
pub mod oauth;
mod origin;
mod outcome;
pub mod proxy;
mod server;
mod shared;
mod text;
mod tool;
mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use client::{AuthReason, HeadersReason, McpClient, Notice, Protected, ServerQuestion};
pub use config::{ConfigError, Local, Reach, Remote, RemoteKind, ServerConfig, ToolFilter};
pub use credentials::without_credentials;
pub use describe::describe;
pub use host::{Host, HostOptions, Listed, OfferedTool};
pub use http::{ByteStream, Http, HttpError, HttpRequest, HttpResponse, Method, is_web_page};
pub use log::ServerLog;
pub use names::offered_name;
pub use origin::{Chosen, Declared, Origin, merge};
pub use outcome::{Contents, ToolCallError, contents};
pub use server::{Server, ServerStatus};
pub use shared::Pool;
pub use tool::RemoteTool;
#[doc(hidden)]
pub use wire::read_messages;
pub use wire::{Challenge, Progress, ServerCall, fetch_text};

/// A boxed future.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Locks a mutex, poisoned or not: the data behind the mutexes of this crate is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
