//! Tools of a session's MCP servers, for the engine that works on its turns.
//!
//! An engine starts `baton mcp proxy` as an MCP server of its own. That program joins its standard streams to a socket
//! file, and here is the other end: it lists the tools that the session's own model would be offered from MCP servers, and
//! each call becomes a call of the running turn. The core executes it as one of its own ([`baton_core::EngineReport`]), so
//! the policy, hooks, status, logs and cancel are the same. Nothing is called between turns.
//!
//! The socket file is in a directory that only the user can open, under a name that nobody can guess. A process of the same
//! user that finds it can ask for a call, and the policy decides about that like about any other.

use std::collections::HashMap;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::EngineReport;
use baton_engines::ToolServer;
use baton_mcp::Working;
use baton_mcp::proxy::{Toolset, serve};
use baton_protocol::event::ToolRequest;
use baton_protocol::tool::{ResultType, ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use serde_json::{Map, Value, json};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use super::{WorkScope, mcp_calls};
use crate::Runtime;

/// Programs that may be connected at the same time. An engine needs one, and another one while it restarts it.
const MAX_PROGRAMS: usize = 4;

/// A request of the engine.
pub(super) enum Request {
    /// Calls a tool.
    Call { id: ToolCallId, tool: String, arguments: Json, result: oneshot::Sender<ToolResult> },
    /// Does not wait for a call any more.
    Abandon { id: ToolCallId },
}

/// The tools of a session, offered to the program of an engine while it is open.
pub(super) struct EngineTools {
    server: ToolServer,
    offer: Arc<Offer>,
    _accepts: DropGuard,
}

/// What is offered: the tools of the last turn, and the turn that calls belong to.
#[derive(Default)]
struct Offer(Mutex<Offered>);

#[derive(Default)]
struct Offered {
    tools: Vec<Value>,
    turn: Option<mpsc::UnboundedSender<Request>>,
}

impl EngineTools {
    /// Opens the socket file.
    ///
    /// # Errors
    /// With a message for the user, when there can be none.
    pub(super) async fn open(runtime: &Arc<Runtime>, program: &Path) -> Result<Self, String> {
        let directory = runtime.options.home.join("proxy");
        let socket = directory.join(format!("{}.sock", random_name()));
        let path = socket.clone();
        let bind = move || {
            baton_disk::private::create_dir_all(&directory)?;
            // A server that was killed leaves its socket files behind.
            let _ = baton_disk::private::remove_dead_sockets(&directory, Duration::from_secs(60));
            let listener = baton_disk::private::with_socket_path(&path, |path| StdUnixListener::bind(path))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = tokio::task::spawn_blocking(bind).await.map_err(std::io::Error::other).flatten();
        let listener = listener.and_then(UnixListener::from_std);
        let listener = listener.map_err(|error| {
            format!("the tools of MCP servers are missing: cannot open {}: {error}", socket.display())
        })?;
        let (offer, ended) = (Arc::<Offer>::default(), CancellationToken::new());
        let accepts = accept(listener, socket.clone(), offer.clone(), ended.clone());
        runtime.tasks.spawn(accepts.in_current_span());
        let server = ToolServer {
            // Shorter still: some models accept names of 64 characters only, with the name of the tool.
            name: format!("baton_{}", &random_name()[..8]),
            program: program.to_owned(),
            args: vec!["mcp".into(), "proxy".into(), socket.display().to_string()],
        };
        Ok(Self { server, offer, _accepts: ended.drop_guard() })
    }

    /// Returns how the program reaches the tools.
    pub(super) fn server(&self) -> &ToolServer {
        &self.server
    }

    /// Offers the tools of a turn, and sends its calls to `turn`, until another turn begins or the receiver is dropped.
    pub(super) fn begin(&self, tools: Vec<Value>, turn: mpsc::UnboundedSender<Request>) {
        *self.offer.lock() = Offered { tools, turn: Some(turn) };
    }

    /// Ends a turn: calls fail until the next one begins.
    pub(super) fn end(&self) {
        self.offer.lock().turn = None;
    }
}

/// Returns 64 bits as text, of which all but the version are random.
fn random_name() -> String {
    format!("{:016x}", uuid::Uuid::new_v4().as_u64_pair().0)
}

/// Serves programs until the tools are dropped, then removes the file.
async fn accept(listener: UnixListener, socket: PathBuf, offer: Arc<Offer>, ended: CancellationToken) {
    let mut programs = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = ended.cancelled() => break,
            Some(_) = programs.join_next() => {}
            accepted = listener.accept(), if programs.len() < MAX_PROGRAMS => {
                let Ok((stream, _)) = accepted else { break };
                let is_own = stream.peer_cred().is_ok_and(|peer| {
                    peer.uid() == rustix::process::geteuid().as_raw()
                });
                if is_own {
                    let (read, write) = stream.into_split();
                    programs.spawn(serve(read, write, offer.clone()));
                }
            }
        }
    }
    programs.shutdown().await;
    // A file that stays leads nowhere.
    drop(tokio::fs::remove_file(socket).await);
}

impl Offer {
    fn lock(&self) -> std::sync::MutexGuard<'_, Offered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Toolset for Offer {
    fn list(&self) -> Vec<Value> {
        self.lock().tools.clone()
    }

    fn call(&self, name: String, arguments: Map<String, Value>) -> Working<'_, Value> {
        let turn = self.lock().turn.clone();
        Box::pin(async move {
            let gone = || failed("no prompt is running, so nothing can be called");
            let Some(turn) = turn else { return gone() };
            let (id, (result, returned)) = (ToolCallId(uuid::Uuid::new_v4().to_string()), oneshot::channel());
            let arguments = Json::from(Value::Object(arguments));
            let call = Request::Call { id: id.clone(), tool: name, arguments, result };
            if turn.send(call).is_err() {
                return gone();
            }
            let mut waiting = Waiting { id: Some(id), turn };
            let result = returned.await;
            waiting.id = None;
            result.map_or_else(|_| gone(), |result| encoded(&result))
        })
    }
}

/// A call that the engine waits for. Dropped with an id, it is abandoned.
struct Waiting {
    id: Option<ToolCallId>,
    turn: mpsc::UnboundedSender<Request>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // Without a turn, the call has ended.
            drop(self.turn.send(Request::Abandon { id }));
        }
    }
}

fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

/// Encodes a result as that of `tools/call`.
fn encoded(result: &ToolResult) -> Value {
    let mut content = vec![json!({ "type": "text", "text": result.text_result_for_llm })];
    content.extend(
        result
            .binary_results_for_llm
            .iter()
            .map(|image| json!({ "type": "image", "data": image.data, "mimeType": image.mime_type })),
    );
    let is_error = result.result_type != ResultType::Success;
    json!({ "content": content, "isError": is_error })
}

/// Starts the session's servers, and returns the tools that an engine may be offered.
pub(super) async fn ready(scope: &WorkScope) -> Vec<Value> {
    let mcp = scope.tools.mcp();
    let turn = scope.session.durable.turn.as_ref();
    let begins = turn.is_some_and(|turn| mcp.begins(&turn.interaction));
    if mcp.ready(&scope.settings, super::prompt::cwd(scope), begins).await && begins {
        mcp.show_loaded(scope.session.durable.facts.model.as_deref());
    }
    scope.tools_for_model().iter().filter(|tool| is_of_server(scope, &tool.name)).map(entry).collect()
}

/// Whether a name is that of a tool of an MCP server, and of no other tool.
fn is_of_server(scope: &WorkScope, name: &str) -> bool {
    scope.tools.toolbox().get(name).is_none()
        && scope.session.live.owner_of(name).is_none()
        && scope.tools.mcp().find(name).is_some()
}

/// Describes a tool as an entry of `tools/list`.
fn entry(tool: &ToolSpec) -> Value {
    let schema = tool.parameters.as_ref().and_then(|schema| schema.parse::<Value>().ok());
    let mut schema = schema.filter(Value::is_object).unwrap_or_else(|| json!({}));
    schema["type"] = json!("object");
    json!({ "name": tool.name, "description": tool.description, "inputSchema": schema })
}

/// Calls of the engine in a turn, which wait for their results.
#[derive(Default)]
pub(super) struct EngineCalls(HashMap<ToolCallId, oneshot::Sender<ToolResult>>);

impl EngineCalls {
    /// Handles a request of the engine. Returns what to report to the core.
    pub(super) fn requested(&mut self, scope: &WorkScope, request: Request) -> Option<EngineReport> {
        match request {
            Request::Call { tool, result, .. } if !is_of_server(scope, &tool) => {
                // The engine has gone away.
                drop(result.send(ToolResult::failure(format!("there is no tool {tool:?}"))));
                None
            }
            Request::Call { id, tool, arguments, result } => {
                self.0.insert(id.clone(), result);
                let mut request = ToolRequest {
                    tool_call_id: id,
                    name: tool,
                    arguments: Some(arguments),
                    kind: None,
                    mcp_server_name: None,
                    mcp_tool_name: None,
                    tool_title: None,
                };
                mcp_calls::named(scope, &mut request);
                Some(EngineReport::Calls { request: Box::new(request) })
            }
            Request::Abandon { id } => self.0.remove(&id).map(|_| EngineReport::Abandons { call: id }),
        }
    }

    /// Passes a result to the engine.
    pub(super) fn returned(&mut self, call: &ToolCallId, result: ToolResult) {
        if let Some(waiting) = self.0.remove(call) {
            // An engine that has gone away needs no result.
            drop(waiting.send(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_the_protocol() {
        let denied = ToolResult { result_type: ResultType::Denied, ..ToolResult::failure("no") };
        let encoded = encoded(&denied);
        assert_eq!((&encoded["isError"], &encoded["content"][0]["text"]), (&json!(true), &json!("no")));
    }

    #[tokio::test]
    async fn calls_between_turns_fail_and_dropped_calls_are_abandoned() {
        let offer = Offer::default();
        let refused = offer.call("x".into(), Map::new()).await;
        assert_eq!(refused["isError"], true);
        let (sender, mut requests) = mpsc::unbounded_channel();
        offer.lock().turn = Some(sender);
        let call = tokio::time::timeout(std::time::Duration::ZERO, offer.call("x".into(), Map::new()));
        assert!(call.await.is_err());
        let Some(Request::Call { id, tool, .. }) = requests.recv().await else { panic!("no call") };
        assert_eq!(tool, "x");
        assert!(matches!(requests.recv().await, Some(Request::Abandon { id: abandoned }) if abandoned == id));
    }
}
