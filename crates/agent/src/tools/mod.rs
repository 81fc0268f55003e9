//! Built-in tools.
//!
//! A tool describes itself ([`Tool::spec`]), describes the effect of a call for a permission request
//! ([`Tool::prepare`]), and executes the call ([`Tool::run`]). The policy decides whether it may.
//!
//! Arguments come from a model and may be any JSON. Errors are results for the model; nothing here fails in any other way,
//! and nothing panics.

pub mod agents;
mod arguments;
pub mod ask_user;
pub mod exit_plan_mode;
mod files;
pub mod paths;
mod refusal;
pub mod report_intent;
mod schema;
mod search;
pub mod shell;
pub mod skill;
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
use baton_protocol::sandbox::{Placed, SandboxChoice};
use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use baton_sandbox::Enclosure;
use tokio_util::sync::CancellationToken;

pub use paths::NamedPaths;
use refusal::ToolRefusal;
pub use search::{CompletedPath, Completions, complete};
pub use toolbox::Toolbox;

/// The session that a call belongs to, as far as tools need it.
#[derive(Clone)]
pub struct ToolContext {
    /// Working directory of the session; relative paths start here.
    pub cwd: PathBuf,
    /// The session's directory for files that outlive a call.
    pub session_dir: PathBuf,
    /// Real path of Baton's home: searches skip it, unless it was requested.
    pub home: Option<PathBuf>,
    /// Whether rules of the session name paths of web pages, so that a redirect to another path needs a new request.
    pub exact_pages: bool,
    /// Resources that the calls of the session share.
    pub services: Arc<Services>,
    /// The sandbox of the session's programs.
    pub sandbox: SandboxChoice,
    /// Where the call's command runs, as it was decided; none before the decision, and for a command that nobody could put into
    /// a sandbox.
    pub placed: Option<Placed>,
    /// Id of the call.
    pub call: ToolCallId,
    /// Cancels the call: the tool ends its processes and returns. A background command obeys the token of the call that
    /// started it as long as it runs.
    pub cancel: CancellationToken,
    /// Receives new output while the tool runs.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Resources that the tools of one session share.
pub struct Services {
    /// Commands that the session started.
    pub shells: shell::Shells,
    /// The session's database.
    pub database: sql::SessionDatabase,
    /// Access to the network.
    pub web: Arc<dyn web::Fetch>,
    /// Real paths that the requests of calls named.
    pub paths: NamedPaths,
    /// Host names that resolve to private addresses.
    pub private_hosts: web::PrivateHosts,
    /// The walls around the session's programs; none if the server builds none.
    pub enclosure: Option<Arc<Enclosure>>,
}

/// The effect of a call, before it is executed.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// The call needs no permission.
    Harmless,
    /// The call needs this permission.
    Needs(PermissionRequest),
    /// The call needs this permission each time: no grant covers it.
    NeedsEachTime(PermissionRequest),
    /// The arguments are invalid; the result explains why.
    Refused(ToolResult),
}

/// A boxed future.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// Returns name, description and JSON Schema for the model.
    fn spec(&self) -> ToolSpec;

    /// Describes the effect of a call with these arguments.
    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared>;

    /// Returns the files that a call may change, as far as its arguments show, so that snapshots can be taken.
    fn touches(&self, _context: &ToolContext, _arguments: &Json) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Executes a call.
    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult>;
}

/// Text for the model about a call that was cancelled while it ran.
pub const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// Returns the result of a call that was cancelled while it ran.
#[must_use]
pub fn interrupted() -> ToolResult {
    ToolRefusal::interrupted().into()
}

impl From<Result<PermissionRequest, ToolRefusal>> for Prepared {
    fn from(request: Result<PermissionRequest, ToolRefusal>) -> Self {
        request.map_or_else(Self::from, Self::Needs)
    }
}

impl From<ToolRefusal> for Prepared {
    fn from(refusal: ToolRefusal) -> Self {
        Self::Refused(refusal.into())
    }
}

/// Creates the specification of a built-in tool.
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

/// Converts an error into a result for the model.
fn either(result: Result<ToolResult, ToolRefusal>) -> ToolResult {
    result.unwrap_or_else(Into::into)
}

/// Runs `work` on a blocking thread, but waits for it only until the call is cancelled: a read that hangs in the kernel
/// cannot be ended.
async fn reading<T: Send + 'static>(
    context: &ToolContext,
    work: impl FnOnce() -> Result<T, ToolRefusal> + Send + 'static,
) -> Result<T, ToolRefusal> {
    tokio::select! {
        done = blocking(work) => done,
        () = context.cancel.cancelled() => Err(ToolRefusal::interrupted()),
    }
}

/// Runs `work` on a blocking thread. A panic becomes an error: one call must not end the session.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolRefusal> + Send + 'static,
) -> Result<T, ToolRefusal> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ToolRefusal::new("Internal error in the tool; see the server log.")))
}

/// Locks a mutex, poisoned or not: the data behind the mutexes of this crate is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
