//! Built-in tools.
//!
//! A tool says what it is ([`Tool::spec`]), what it would do with given arguments, so that somebody can be
//! asked ([`Tool::prepare`]), and does it ([`Tool::run`]). Whether it may is decided elsewhere.
//!
//! Arguments come from a model and may be any JSON. What is wrong with them is told to the model in a result;
//! nothing here fails in any other way, and nothing panics.

pub mod agents;
mod arguments;
pub mod ask_user;
pub mod beneath;
mod diff;
pub mod exit_plan_mode;
mod files;
pub mod paths;
mod refusal;
mod schema;
mod search;
pub mod shell;
pub mod spill;
pub mod sql;
mod text;
mod toolbox;
pub mod web;

#[cfg(test)]
mod testing;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use tokio_util::sync::CancellationToken;

pub use diff::{line_counts, unified as unified_diff};
pub use paths::NamedPaths;
use refusal::Refusal;
pub use toolbox::Toolbox;

/// What a tool may use of the session it works for.
#[derive(Clone)]
pub struct ToolContext {
    /// The directory the session works in; relative paths are relative to it.
    pub cwd: PathBuf,
    /// The session's own directory for files that outlive a call.
    pub session_dir: PathBuf,
    /// Baton's home, without links: searches pass it by, unless it is what they were asked for.
    pub home: Option<PathBuf>,
    /// Whether rules of the session are about paths of web pages, so that a redirect to another path is another request.
    pub exact_pages: bool,
    /// Shells of this session, its database, its HTTP client.
    pub services: Arc<Services>,
    /// The call being made.
    pub call: ToolCallId,
    /// Ends the call: the tool stops what it does, with all its processes, and returns. A command that has
    /// gone to the background listens to the token of the call that started it for as long as it runs.
    pub cancel: CancellationToken,
    /// Receives new output while the tool runs, for people who watch.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What the tools of one session share.
pub struct Services {
    /// The commands that the session has started.
    pub shells: shell::Shells,
    /// The session's own database.
    pub database: sql::Database,
    /// The way to the network.
    pub web: Arc<dyn web::Fetch>,
    /// Where the paths lead that calls have asked for.
    pub paths: NamedPaths,
    /// Names that were found to lead into the private network.
    pub private_hosts: web::PrivateHosts,
}

/// What a tool would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// Nothing that anybody needs to be asked about.
    Harmless,
    /// This, if allowed.
    Needs(PermissionRequest),
    /// This, if somebody allows this very request: no grant covers it.
    NeedsEachTime(PermissionRequest),
    /// Nothing: the arguments are no good, and the model is told so.
    Refused(ToolResult),
}

/// A result, to be awaited.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// Its name, description and JSON Schema, as the model is told.
    fn spec(&self) -> ToolSpec;

    /// Says what it would do with these arguments.
    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared>;

    /// The files that it may change, as far as its arguments tell; so that somebody can keep what they were.
    fn touches(&self, _context: &ToolContext, _arguments: &Json) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Does it.
    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult>;
}

/// What the model is told of a call that was cancelled while it ran.
pub const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// The result of a call that was cancelled while it ran.
#[must_use]
pub fn interrupted() -> ToolResult {
    Refusal::interrupted().into()
}

impl From<Result<PermissionRequest, Refusal>> for Prepared {
    fn from(wanted: Result<PermissionRequest, Refusal>) -> Self {
        wanted.map_or_else(Self::from, Self::Needs)
    }
}

impl From<Refusal> for Prepared {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

/// A specification of a built-in tool.
fn spec(name: &str, description: &str, parameters: serde_json::Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        parameters: Some(parameters.into()),
        overrides_built_in_tool: false,
        skip_permission: false,
        is_terminal: false,
    }
}

/// A result that may be a refusal, whichever it is.
fn either(result: Result<ToolResult, Refusal>) -> ToolResult {
    result.unwrap_or_else(Into::into)
}

/// Runs `work` where it may block, but waits for it only until the call is cancelled: reading may hang in the
/// kernel, where nothing can be done about it but to leave.
async fn reading<T: Send + 'static>(
    context: &ToolContext,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::select! {
        done = blocking(work) => done,
        () = context.cancel.cancelled() => Err(Refusal::interrupted()),
    }
}

/// Runs `work` where it may block. Work that panics is reported, not passed on: one call must not end the
/// session.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Refusal::new("The tool failed from within. This is a bug of the server.")))
}

/// Locks, whatever happened to whoever held the lock before: what these locks guard is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
