//! Built-in tools.
//!
//! A tool says what it is ([`Tool::spec`]), what it would do with given arguments, so that somebody can be asked
//! ([`Tool::prepare`]), and does it ([`Tool::run`]). Whether it may is decided elsewhere.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use tokio_util::sync::CancellationToken;

/// What a tool may use of the session it works for.
#[derive(Clone)]
pub struct ToolContext {
    /// The directory the session works in; relative paths are relative to it.
    pub cwd: PathBuf,
    /// The session's own directory for files that outlive a call.
    pub session_dir: PathBuf,
    /// Shells of this session, its database, its HTTP client.
    pub services: Arc<Services>,
    /// The call being made.
    pub call: ToolCallId,
    /// Ends the call: the tool stops what it does, with all its processes, and returns.
    pub cancel: CancellationToken,
    /// Receives new output while the tool runs, for people who watch.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What a tool would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// Nothing that anybody needs to be asked about.
    Harmless,
    /// This, if allowed.
    Needs(PermissionRequest),
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

    /// Does it.
    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult>;
}
