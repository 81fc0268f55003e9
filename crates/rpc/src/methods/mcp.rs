//! MCP servers: those of a session, and those of the user.

use std::path::PathBuf;

use baton_addons::mcp::CatalogueEntry;
use baton_ask::mcp::{
    AnswerMcpServer, DisableMcpServer, EnableMcpServer, IsMcpServerRunning, ListConfiguredMcpServers,
    ListMcpServers, ListMcpTools, LogInAtMcpServer, ReadMcpLog, ReleaseMcpWait, ReloadMcpServers,
    SampleForMcpServer, SendToMcpServer, StartMcpServer, StopMcpServer,
};
use baton_core::RequestAnswer;
use baton_protocol::{Json, RequestId};
use baton_service::ClientAsk;
use baton_service::mcp::{
    AddMcpServer, DisableMcpServers, EnableMcpServers, ListMcpServers as CatalogueOfServers,
    ListUserMcpServers, RemoveMcpServer, UpdateMcpServer,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::perform;
use super::{Call, Handled, answers, mcp_apps, void};
use crate::errors::CallError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    server_name: String,
}

/// Asks the session, and encodes its reply.
fn ask<A: ClientAsk>(call: &Call<'_>, ask: A, encode: fn(A::Reply) -> Value) -> Handled {
    call.ask_later(&call.session()?, ask, encode)
}

/// Asks about the server that the parameters name.
fn ask_about<A: ClientAsk>(
    call: &Call<'_>,
    about: impl FnOnce(String) -> A,
    encode: fn(A::Reply) -> Value,
) -> Handled {
    let Named { server_name } = call.parse()?;
    ask(call, about(server_name), encode)
}

/// Encodes a reply that has the form of the result.
fn plain<T: Serialize>(reply: T) -> Value {
    json!(reply)
}

fn nothing((): ()) -> Value {
    void()
}

/// Calls the handler of a method about a session's servers.
pub(super) fn session(call: &Call<'_>) -> Handled {
    match call.method {
        "session.mcp.list" => ask(call, ListMcpServers {}, plain),
        "session.mcp.listConfigured" => {
            ask(call, ListConfiguredMcpServers {}, |servers| json!({ "servers": servers }))
        }
        "session.mcp.listTools" => {
            ask_about(call, |server| ListMcpTools { server }, |tools| json!({ "tools": tools }))
        }
        "session.mcp.enable" => ask_about(call, |server| EnableMcpServer { server }, nothing),
        "session.mcp.disable" => ask_about(call, |server| DisableMcpServer { server }, nothing),
        "session.mcp.reload" => ask(call, ReloadMcpServers {}, nothing),
        "session.mcp.stopServer" => ask_about(call, |server| StopMcpServer { server }, nothing),
        "session.mcp.startServer" => start(call, false),
        "session.mcp.restartServer" => start(call, true),
        "session.mcp.isServerRunning" => {
            ask_about(call, |server| IsMcpServerRunning { server }, |running| json!({ "running": running }))
        }
        "session.mcp.moveLoadingToBackground" => {
            ask(call, ReleaseMcpWait {}, |moved| json!({ "movedToBackground": moved }))
        }
        "session.mcp.getLog" => {
            ask_about(call, |server| ReadMcpLog { server }, |lines| json!({ "lines": lines }))
        }
        "session.mcp.setEnvValueMode" => env_value_mode(call),
        "session.mcp.removeGitHub" => {
            call.session()?;
            call.now(json!({ "removed": false }))
        }
        "session.mcp.resources.list" => send(call, "resources/list"),
        "session.mcp.resources.listTemplates" => send(call, "resources/templates/list"),
        "session.mcp.resources.read" => send(call, "resources/read"),
        "session.mcp.resources.subscribe" => send(call, "resources/subscribe"),
        "session.mcp.resources.unsubscribe" => send(call, "resources/unsubscribe"),
        "session.mcp.prompts.list" => send(call, "prompts/list"),
        "session.mcp.prompts.get" => send(call, "prompts/get"),
        "session.mcp.executeSampling" => execute_sampling(call),
        "session.mcp.cancelSamplingExecution" => {
            call.session()?;
            call.now(json!({ "cancelled": false }))
        }
        "session.mcp.oauth.login" => login(call),
        "session.mcp.oauth.handlePendingRequest" => answer_authorization(call),
        "session.mcp.oauth.respond" => answer_authorization(call),
        "session.mcp.headers.handlePendingHeadersRefreshRequest" => answer_authorization(call),
        unknown => match mcp_apps::route(call) {
            Some(handled) => handled,
            None => Err(baton_protocol::rpc::RpcError::unknown_method(unknown).into()),
        },
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    server_name: String,
    config: Option<Json>,
}

fn start(call: &Call<'_>, restart: bool) -> Handled {
    let Start { server_name: server, config } = call.parse()?;
    ask(call, StartMcpServer { server, config, restart }, nothing)
}

#[derive(Deserialize)]
struct EnvValueMode {
    mode: String,
}

/// Replies with the mode, which changes nothing: values are literal in both, apart from `${NAME}`.
fn env_value_mode(call: &Call<'_>) -> Handled {
    call.session()?;
    match call.parse::<EnvValueMode>()?.mode.as_str() {
        mode @ ("direct" | "indirect") => call.now(json!({ "mode": mode })),
        other => Err(CallError::invalid(format!("`mode` must be direct or indirect, not {other}"))),
    }
}

/// Passes a request on to a server, with all its parameters except those of ours.
fn send(call: &Call<'_>, method: &str) -> Handled {
    let mut params: Map<String, Value> = call.parse()?;
    params.remove("sessionId");
    let Some(Value::String(server)) = params.remove("serverName") else {
        return Err(CallError::invalid("missing field `serverName`"));
    };
    let params = Json::from(Value::Object(params));
    ask(call, SendToMcpServer { server, method: method.into(), params }, plain)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sampling {
    request: Json,
}

/// Runs the model for a server's request. Errors are part of the result.
fn execute_sampling(call: &Call<'_>) -> Handled {
    let Sampling { request } = call.parse()?;
    ask(call, SampleForMcpServer { request }, plain)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingAnswer {
    request_id: String,
    response: Option<Json>,
}

/// Answers a server's request for a model's answer; no response declines it.
pub(super) fn answer_sampling(call: &Call<'_>) -> Handled {
    let SamplingAnswer { request_id, response } = call.parse()?;
    let answer = RequestAnswer::Sampling(response.filter(|response| *response != Json::null()));
    answers::answer(call, &call.session()?, RequestId(request_id), answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationAnswer {
    request_id: String,
    result: Option<Json>,
}

/// Answers a server's request for a token or headers.
fn answer_authorization(call: &Call<'_>) -> Handled {
    let AuthorizationAnswer { request_id, result } = call.parse()?;
    let answer = result.unwrap_or_else(Json::null);
    ask(call, AnswerMcpServer { request: request_id, answer }, |success| json!({ "success": success }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Login {
    server_name: String,
    force_reauth: Option<bool>,
    redirect_uri: Option<String>,
}

/// Prepares a login at a server, and replies with its link.
fn login(call: &Call<'_>) -> Handled {
    let Login { server_name: server, force_reauth, redirect_uri: redirect } = call.parse()?;
    ask(call, LogInAtMcpServer { server, redirect, again: force_reauth.unwrap_or(false) }, plain)
}

#[derive(Deserialize)]
struct Config {
    name: String,
    config: Json,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Names {
    names: Vec<String>,
}

/// Lists the user's servers, as they are written.
pub(super) fn list_configured(call: &Call<'_>) -> Handled {
    perform(call, ListUserMcpServers, |servers| json!({ "servers": servers }))
}

pub(super) fn add_configured(call: &Call<'_>) -> Handled {
    let (name, config) = configured(call)?;
    perform(call, AddMcpServer { name, config }, nothing)
}

pub(super) fn update_configured(call: &Call<'_>) -> Handled {
    let (name, config) = configured(call)?;
    perform(call, UpdateMcpServer { name, config }, nothing)
}

fn configured(call: &Call<'_>) -> Result<(String, Value), CallError> {
    let Config { name, config } = call.parse()?;
    Ok((name, config.parse().unwrap_or(Value::Null)))
}

pub(super) fn remove_configured(call: &Call<'_>) -> Handled {
    let Name { name } = call.parse()?;
    perform(call, RemoveMcpServer { name }, nothing)
}

pub(super) fn enable_configured(call: &Call<'_>) -> Handled {
    let Names { names } = call.parse()?;
    perform(call, EnableMcpServers { names }, nothing)
}

pub(super) fn disable_configured(call: &Call<'_>) -> Handled {
    let Names { names } = call.parse()?;
    perform(call, DisableMcpServers { names }, nothing)
}

/// Does nothing: the file is read whenever it is needed.
pub(super) fn reload_configured(call: &Call<'_>) -> Handled {
    call.now(void())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discover {
    working_directory: Option<PathBuf>,
}

/// Lists the servers outside of sessions. Files of a workspace that the user has not approved are not listed.
pub(super) fn discover(call: &Call<'_>) -> Handled {
    let Discover { working_directory } = call.parse()?;
    perform(call, CatalogueOfServers { cwd: working_directory }, |entries| {
        let shown = |(name, entry): (&String, &CatalogueEntry)| {
            let declared = &entry.chosen.declared;
            let mut shown =
                json!({ "name": name, "source": declared.origin.source(), "enabled": entry.enabled });
            match &declared.config {
                Ok(config) => shown["type"] = json!(config.transport()),
                Err(error) => shown["configWarnings"] = json!([error.problem]),
            }
            if let Some(file) = declared.origin.file() {
                shown["sourcePath"] = json!(file);
            }
            shown
        };
        let usable = entries.iter().filter(|(_, entry)| !entry.is_pending());
        json!({ "servers": usable.map(shown).collect::<Vec<_>>() })
    })
}
