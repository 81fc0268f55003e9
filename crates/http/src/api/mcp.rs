//! MCP servers: those of a session, and those of the user.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use baton_ask::mcp::{DescribeMcpServers, StartMcpServers};
use baton_service::Caller;
use baton_service::mcp::{
    AddMcpServer, DisableMcpServers, EnableMcpServers, ListMcpServers, RemoveMcpServer, SessionMcpServer,
};
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::{By, JsonBody, PathParams, QueryParams, session_id};
use super::types::{
    McpCatalogue, McpCatalogueQuery, McpEntryView, McpListQuery, McpLog, McpPageQuery, McpPromptArguments,
    McpResourceQuery, McpServerList, McpServerView, NewMcpServer,
};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// Finds a server of a session.
async fn find(door: &Shared, caller: &Caller, id: &str, server: &str) -> Result<SessionMcpServer, ApiError> {
    Ok(door.service.mcp_server(caller, &session_id(id)?, server).await?)
}

/// List the MCP servers of a session, with their status and tools.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp", operation_id = "listSessionMcpServers", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), McpListQuery),
    responses((status = 200, description = "Servers", body = McpServerList),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<McpListQuery>,
) -> Result<Json<McpServerList>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    let servers = match query.start {
        true => session.ask(StartMcpServers {}).await?,
        false => session.ask(DescribeMcpServers {}).await?,
    };
    Ok(Json(McpServerList { servers: servers.into_iter().map(McpServerView::from).collect() }))
}

/// Show an MCP server of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp/{server}", operation_id = "showSessionMcpServer", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "The server", body = McpServerView),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<Json<McpServerView>, ApiError> {
    Ok(Json(find(&door, &caller, &id, &server).await?.show().await?.into()))
}

/// Use an MCP server in a session again, and connect to it.
#[utoipa::path(post, path = "/api/sessions/{id}/mcp/{server}/enable", operation_id = "enableSessionMcpServer", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Connected, or failed with a reason", body = McpServerView),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn enable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<Json<McpServerView>, ApiError> {
    Ok(Json(find(&door, &caller, &id, &server).await?.enable().await?.into()))
}

/// Stop using an MCP server in a session.
#[utoipa::path(post, path = "/api/sessions/{id}/mcp/{server}/disable", operation_id = "disableSessionMcpServer", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Disabled", body = McpServerView),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn disable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<Json<McpServerView>, ApiError> {
    Ok(Json(find(&door, &caller, &id, &server).await?.disable().await?.into()))
}

/// End the connection to an MCP server of a session, and connect again.
#[utoipa::path(post, path = "/api/sessions/{id}/mcp/{server}/restart", operation_id = "restartSessionMcpServer", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Connected, or failed with a reason", body = McpServerView),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session, or the server is disabled", body = ErrorBody)))]
pub(super) async fn restart(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<Json<McpServerView>, ApiError> {
    Ok(Json(find(&door, &caller, &id, &server).await?.restart().await?.into()))
}

/// Read the log of an MCP server of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp/{server}/log", operation_id = "readSessionMcpLog", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Newest lines, oldest first", body = McpLog),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn log(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<Json<McpLog>, ApiError> {
    Ok(Json(McpLog { lines: find(&door, &caller, &id, &server).await?.log().await? }))
}

/// List the resources of an MCP server of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp/{server}/resources", operation_id = "listSessionMcpResources", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server"), McpPageQuery),
    responses((status = 200, description = "`resources`, and `nextCursor` if there are more", body = Object),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 502, description = "The server is not connected, or answered with an error", body = ErrorBody)))]
pub(super) async fn resources(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
    QueryParams(page): QueryParams<McpPageQuery>,
) -> Result<Json<Value>, ApiError> {
    let server = find(&door, &caller, &id, &server).await?;
    Ok(Json(server.send("resources/list", cursor(page)).await?))
}

/// Read a resource of an MCP server of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp/{server}/resource", operation_id = "readSessionMcpResource", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server"), McpResourceQuery),
    responses((status = 200, description = "`contents`", body = Object),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 502, description = "The server is not connected, or answered with an error", body = ErrorBody)))]
pub(super) async fn resource(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
    QueryParams(query): QueryParams<McpResourceQuery>,
) -> Result<Json<Value>, ApiError> {
    let server = find(&door, &caller, &id, &server).await?;
    Ok(Json(server.send("resources/read", json!({ "uri": query.uri })).await?))
}

/// List the prompts of an MCP server of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/mcp/{server}/prompts", operation_id = "listSessionMcpPrompts", tag = "mcp",
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server"), McpPageQuery),
    responses((status = 200, description = "`prompts`, and `nextCursor` if there are more", body = Object),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 502, description = "The server is not connected, or answered with an error", body = ErrorBody)))]
pub(super) async fn prompts(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server)): PathParams<(String, String)>,
    QueryParams(page): QueryParams<McpPageQuery>,
) -> Result<Json<Value>, ApiError> {
    let server = find(&door, &caller, &id, &server).await?;
    Ok(Json(server.send("prompts/list", cursor(page)).await?))
}

/// Fill in a prompt of an MCP server of a session.
#[utoipa::path(post, path = "/api/sessions/{id}/mcp/{server}/prompts/{prompt}", operation_id = "getSessionMcpPrompt", tag = "mcp",
    request_body = McpPromptArguments,
    params(("id" = String, Path, description = "Session id"), ("server" = String, Path, description = "Name of the server"),
        ("prompt" = String, Path, description = "Name of the prompt")),
    responses((status = 200, description = "`messages`", body = Object),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session or server", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody),
        (status = 502, description = "The server is not connected, or answered with an error", body = ErrorBody)))]
pub(super) async fn prompt(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, server, prompt)): PathParams<(String, String, String)>,
    JsonBody(body): JsonBody<McpPromptArguments>,
) -> Result<Json<Value>, ApiError> {
    let server = find(&door, &caller, &id, &server).await?;
    Ok(Json(server.send("prompts/get", json!({ "name": prompt, "arguments": body.arguments })).await?))
}

fn cursor(page: McpPageQuery) -> Value {
    page.cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }))
}

/// List the MCP servers outside of sessions: those of the user, the configuration file and a directory.
#[utoipa::path(get, path = "/api/mcp/servers", operation_id = "listMcpServers", tag = "mcp", params(McpCatalogueQuery),
    responses((status = 200, description = "Servers", body = McpCatalogue),
        (status = 400, description = "Malformed query", body = ErrorBody)))]
pub(super) async fn catalogue(
    State(door): State<Shared>,
    By(caller): By,
    QueryParams(query): QueryParams<McpCatalogueQuery>,
) -> Result<Json<McpCatalogue>, ApiError> {
    let cwd = query.cwd.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(ApiError::bad_request("cwd must be an absolute path"));
    }
    let entries = door.service.perform(&caller, ListMcpServers { cwd }).await?;
    let servers = entries.into_iter().map(|(name, entry)| McpEntryView::new(name, &entry)).collect();
    Ok(Json(McpCatalogue { servers }))
}

/// Add an MCP server for all sessions of the user.
#[utoipa::path(post, path = "/api/mcp/servers", operation_id = "addMcpServer", tag = "mcp", request_body = NewMcpServer,
    responses((status = 201, description = "Added", body = McpEntryView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 409, description = "There is a server of that name", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "The configuration cannot be used; the message names the field", body = ErrorBody)))]
pub(super) async fn add(
    State(door): State<Shared>,
    By(caller): By,
    JsonBody(new): JsonBody<NewMcpServer>,
) -> Result<(StatusCode, Json<McpEntryView>), ApiError> {
    let NewMcpServer { name, config } = new;
    let add = AddMcpServer { name: name.clone(), config: Value::Object(config) };
    door.service.perform(&caller, add).await?;
    entry(&door, &caller, name).await.map(|view| (StatusCode::CREATED, Json(view)))
}

/// Remove an MCP server of the user.
#[utoipa::path(delete, path = "/api/mcp/servers/{server}", operation_id = "removeMcpServer", tag = "mcp",
    params(("server" = String, Path, description = "Name of the server")),
    responses((status = 204, description = "Removed; sessions that use it keep it until their next prompt"),
        (status = 404, description = "The user has no such server", body = ErrorBody)))]
pub(super) async fn remove(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(server): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, RemoveMcpServer { name: server }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Use an MCP server in new sessions again.
#[utoipa::path(post, path = "/api/mcp/servers/{server}/enable", operation_id = "enableMcpServer", tag = "mcp",
    params(("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Enabled", body = McpEntryView),
        (status = 404, description = "No such server", body = ErrorBody)))]
pub(super) async fn enable_for_all(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(server): PathParams<String>,
) -> Result<Json<McpEntryView>, ApiError> {
    entry(&door, &caller, server.clone()).await?;
    door.service.perform(&caller, EnableMcpServers { names: vec![server.clone()] }).await?;
    entry(&door, &caller, server).await.map(Json)
}

/// Stop using an MCP server in new sessions.
#[utoipa::path(post, path = "/api/mcp/servers/{server}/disable", operation_id = "disableMcpServer", tag = "mcp",
    params(("server" = String, Path, description = "Name of the server")),
    responses((status = 200, description = "Disabled", body = McpEntryView),
        (status = 404, description = "No such server", body = ErrorBody)))]
pub(super) async fn disable_for_all(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(server): PathParams<String>,
) -> Result<Json<McpEntryView>, ApiError> {
    entry(&door, &caller, server.clone()).await?;
    door.service.perform(&caller, DisableMcpServers { names: vec![server.clone()] }).await?;
    entry(&door, &caller, server).await.map(Json)
}

async fn entry(door: &Shared, caller: &Caller, name: String) -> Result<McpEntryView, ApiError> {
    let entries = door.service.perform(caller, ListMcpServers::default()).await?;
    let unknown = || ApiError::not_found(format!("no such MCP server: {name}"));
    let entry = entries.get(&name).ok_or_else(unknown)?;
    Ok(McpEntryView::new(name, entry))
}
