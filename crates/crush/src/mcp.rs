//! MCP servers of a workspace: their states, prompts and resources, and events about them.
//!
//! Crush's server has one set of servers for each workspace; here each session has its own. A workspace shows the servers
//! of its live sessions, and beside them those that are configured for its directory and start with the next prompt.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use baton_ask::mcp::{DescribeMcpServers, McpServerOverview, SendToMcpServer};
use baton_protocol::{Body, Json as AnyJson};
use baton_service::LiveSession;
use baton_service::mcp::ListMcpServers;
use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::{CrushError, CrushResult};
use super::extract::{JsonBody, WorkspaceScope};
use super::lock;
use super::wire::{ChangeKind, encode};
use super::workspace::Workspace;

/// How long a server may take to list its prompts or resources, before they count as none.
const LIST_LIMIT: Duration = Duration::from_secs(2);
/// The time of a server that is not connected: the zero of the client's language.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A server, with the session that uses it.
struct Known {
    server: McpServerOverview,
    /// None for a server that no live session uses.
    session: Option<LiveSession>,
}

impl Known {
    fn is_connected(&self) -> bool {
        self.server.status == "connected"
    }

    /// Sends a request to the server.
    async fn send(&self, method: &str, params: Value) -> CrushResult<Value> {
        let name = &self.server.name;
        let unavailable = || CrushError::conflict(format!("the MCP server {name:?} is not connected"));
        let session = self.session.as_ref().filter(|_| self.is_connected()).ok_or_else(unavailable)?;
        let (server, method) = (name.clone(), method.to_owned());
        Ok(session.ask(SendToMcpServer { server, method, params: AnyJson::from(params) }).await?)
    }

    /// Returns a list of the server; none if it has none, or does not answer in time.
    async fn list(&self, what: &str) -> Vec<Value> {
        if !self.is_connected() {
            return Vec::new();
        }
        let method = format!("{what}/list");
        let answer = tokio::time::timeout(LIST_LIMIT, self.send(&method, json!({}))).await;
        let Ok(Ok(mut answer)) = answer else { return Vec::new() };
        baton_json::from_value(&answer[what].take()).unwrap_or_default()
    }
}

impl Workspace {
    /// Returns the servers of live sessions and of the directory, by name. A connected one wins.
    async fn servers(&self) -> BTreeMap<String, Known> {
        let mut known = BTreeMap::new();
        let sessions: Vec<_> = lock(&self.watches).keys().cloned().collect();
        let live: Vec<LiveSession> =
            sessions.iter().filter_map(|id| self.service.live(&self.caller, id)).collect();
        let overviews = join_all(live.iter().map(|session| async move {
            (session.clone(), session.ask(DescribeMcpServers {}).await.unwrap_or_default())
        }));
        for (session, servers) in overviews.await {
            for server in servers {
                let found = Known { session: Some(session.clone()), server };
                let is_better =
                    known.get(&found.server.name).is_none_or(|other: &Known| !other.is_connected());
                if is_better {
                    known.insert(found.server.name.clone(), found);
                }
            }
        }
        let list = ListMcpServers { cwd: Some(self.settings.path.clone().into()) };
        for (name, entry) in self.service.perform(&self.caller, list).await.unwrap_or_default() {
            let declared = entry.chosen.declared;
            let status = match (entry.enabled, &declared.config) {
                (false, _) => "disabled",
                (true, Ok(_)) => "pending",
                (true, Err(_)) => "failed",
            };
            known.entry(name.clone()).or_insert_with(|| Known {
                session: None,
                server: McpServerOverview {
                    name,
                    status: status.to_owned(),
                    error: declared.config.as_ref().err().map(|error| error.problem.clone()),
                    source: declared.origin.source().map(str::to_owned),
                    transport: declared.config.as_ref().ok().map(|config| config.transport().to_owned()),
                    enabled: entry.enabled,
                    tools: Vec::new(),
                },
            });
        }
        known
    }

    /// Returns the servers for the client's configuration, which names what the client shows. Commands, variables and
    /// headers stay on the server.
    pub(super) async fn configured_servers(&self) -> Value {
        let servers = self.servers().await.into_iter().map(|(name, known)| {
            let transport = known.server.transport.unwrap_or_else(|| "stdio".to_owned());
            (name, json!({ "type": transport, "disabled": !known.server.enabled }))
        });
        Value::Object(servers.collect())
    }

    async fn server(&self, name: &str) -> CrushResult<Known> {
        let unknown = || CrushError::not_found(format!("no such MCP server: {name:?}"));
        self.servers().await.remove(name).ok_or_else(unknown)
    }
}

/// Returns the client's name of a status; none for one that passes at once.
fn state(status: &str) -> Option<&'static str> {
    match status {
        "connected" => Some("connected"),
        "pending" => Some("starting"),
        "failed" => Some("error"),
        "needs-auth" => Some("needs auth"),
        "disabled" | "stopped" => Some("disabled"),
        _ => None,
    }
}

pub(super) async fn states(scope: WorkspaceScope) -> Json<Value> {
    let servers = scope.workspace.servers().await;
    let states = join_all(servers.into_values().map(|known| async move {
        let (prompts, resources) = tokio::join!(known.list("prompts"), known.list("resources"));
        let server = known.server;
        let mut shown = json!({
            "name": server.name,
            "state": state(&server.status).unwrap_or("starting"),
            "tool_count": server.tools.iter().filter(|tool| tool.offered_as.is_some()).count(),
            "prompt_count": prompts.len(),
            "resource_count": resources.len(),
            "connected_at": NEVER,
        });
        if let Some(error) = server.error {
            shown["error"] = json!(error);
        }
        (server.name, shown)
    }));
    Json(Value::Object(states.await.into_iter().collect()))
}

pub(super) async fn prompts(scope: WorkspaceScope) -> Json<Vec<Value>> {
    let servers = scope.workspace.servers().await;
    let lists = join_all(servers.values().map(|known| async move {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let argument = |argument: &Value| {
            json!({
                "id": argument["name"],
                "title": argument["title"].as_str().unwrap_or_else(|| argument["name"].as_str().unwrap_or_default()),
                "description": text(argument, "description"),
                "required": argument["required"].as_bool().unwrap_or(false),
            })
        };
        let prompt = |prompt: &Value| {
            let (server, name) = (&known.server.name, text(prompt, "name"));
            let arguments = prompt["arguments"].as_array().map(Vec::as_slice).unwrap_or_default();
            json!({
                "id": format!("{server}:{name}"),
                "title": text(prompt, "title"),
                "description": text(prompt, "description"),
                "prompt_id": name,
                "client_id": server,
                "arguments": arguments.iter().map(argument).collect::<Vec<_>>(),
            })
        };
        known.list("prompts").await.iter().map(prompt).collect::<Vec<_>>()
    }));
    Json(lists.await.concat())
}

#[derive(Deserialize)]
pub(super) struct PromptChoice {
    client_id: String,
    prompt_id: String,
    #[serde(default)]
    args: Option<BTreeMap<String, String>>,
}

/// Fills in a prompt, and returns its text.
pub(super) async fn get_prompt(
    scope: WorkspaceScope,
    JsonBody(choice): JsonBody<PromptChoice>,
) -> CrushResult<Json<Value>> {
    let known = scope.workspace.server(&choice.client_id).await?;
    let params = json!({ "name": choice.prompt_id, "arguments": choice.args.unwrap_or_default() });
    let answer = known.send("prompts/get", params).await?;
    let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = messages.iter().filter_map(|message| message["content"]["text"].as_str());
    Ok(Json(json!({ "prompt": texts.collect::<Vec<_>>().join("\n\n") })))
}

#[derive(Deserialize)]
pub(super) struct ResourceChoice {
    name: String,
    uri: String,
}

/// Reads a resource.
pub(super) async fn read_resource(
    scope: WorkspaceScope,
    JsonBody(choice): JsonBody<ResourceChoice>,
) -> CrushResult<Json<Vec<Value>>> {
    let known = scope.workspace.server(&choice.name).await?;
    let answer = known.send("resources/read", json!({ "uri": choice.uri })).await?;
    let contents = answer["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let content = |content: &Value| {
        let fields = [("uri", "uri"), ("mimeType", "mime_type"), ("text", "text"), ("blob", "blob")];
        let known =
            fields.iter().filter_map(|(from, to)| Some(((*to).to_owned(), content.get(*from)?.clone())));
        Value::Object(known.collect::<Map<_, _>>())
    };
    Ok(Json(contents.iter().map(content).collect()))
}

#[derive(Deserialize)]
pub(super) struct Named {
    name: String,
}

/// Accepts that a client wants to know a list again. Lists are read whenever they are shown, and tools with the next turn.
pub(super) async fn refresh(
    scope: WorkspaceScope,
    JsonBody(Named { name }): JsonBody<Named>,
) -> CrushResult<StatusCode> {
    scope.workspace.server(&name).await.map(|_| StatusCode::OK)
}

/// Translates an event about a server; none for other events. The client then reads the states again.
pub(super) fn event(body: &Body) -> Option<Bytes> {
    let Body::Unknown { kind, data } = body else { return None };
    let data: Value = data.parse().ok()?;
    let kind = match kind.as_ref() {
        "session.mcp_server_status_changed" => "state_changed",
        "mcp.tools.list_changed" => "tools_list_changed",
        "mcp.prompts.list_changed" => "prompts_list_changed",
        "mcp.resources.list_changed" => "resources_list_changed",
        _ => return None,
    };
    let state = match data["status"].as_str() {
        Some(status) => state(status)?,
        None => "connected",
    };
    let mut event = json!({ "type": kind, "name": data["serverName"], "state": state });
    if let Some(error) = data["error"].as_str() {
        event["error"] = json!(error);
    }
    Some(encode("mcp_event", ChangeKind::Updated, &event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(kind: &str, data: Value) -> Option<Value> {
        let body = Body::Unknown { kind: kind.into(), data: AnyJson::from(data) };
        let bytes = event(&body)?;
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let event: Value = baton_json::from_str(text.trim().trim_start_matches("data:")).unwrap();
        assert_eq!(event["type"], "mcp_event");
        Some(event["payload"]["payload"].clone())
    }

    #[test]
    fn status_changes_are_translated() {
        let change = |status: &str| {
            published("session.mcp_server_status_changed", json!({ "serverName": "s", "status": status }))
        };
        let expected = json!({ "type": "state_changed", "name": "s", "state": "needs auth" });
        assert_eq!(change("needs-auth"), Some(expected));
        assert_eq!(change("pending").unwrap()["state"], "starting");
        assert_eq!(change("not_configured"), None);
        let failed = json!({ "serverName": "s", "status": "failed", "error": "why" });
        assert_eq!(published("session.mcp_server_status_changed", failed).unwrap()["error"], "why");
    }

    #[test]
    fn changed_lists_are_translated_and_other_events_are_not() {
        let changed = published("mcp.tools.list_changed", json!({ "serverName": "s" })).unwrap();
        assert_eq!(changed, json!({ "type": "tools_list_changed", "name": "s", "state": "connected" }));
        assert_eq!(published("session.mcp_servers_loaded", json!({ "servers": [] })), None);
    }
}
