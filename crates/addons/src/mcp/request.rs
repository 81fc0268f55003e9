//! Requests of clients about a session's MCP servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use baton_mcp::{
    AuthReason, Host, Listed, Protected, Server, ServerCall, ServerConfig, ServerStatus, ToolCallError,
    contents,
};
use baton_protocol::{Json, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::SessionMcp;
use super::overview::overview;
use baton_settings::{McpSwitch, Settings, SettingsEdit};

/// A request about the MCP servers of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are those of the wire; the variants are documented")]
pub enum McpRequest {
    /// Lists the servers with their status. Starts them, and waits until they have settled.
    List,
    /// Lists the servers without starting any.
    ListConfigured,
    /// Describes the servers with their tools, as [`ServerOverview`](super::ServerOverview)s. Starts them and waits for them if asked to.
    Overview { start: bool },
    /// Lists the tools of a connected server, as it describes them.
    ListTools { server: String },
    /// Uses a server again.
    Enable { server: String },
    /// Stops using a server.
    Disable { server: String },
    /// Ends all connections and connects again.
    Reload,
    /// Stops a server until it is started again.
    Stop { server: String },
    /// Starts a server, or ends its connection first.
    Start { server: String, config: Option<Json>, restart: bool },
    /// Replies whether a server is connected.
    IsRunning { server: String },
    /// Lets a turn that waits for servers continue.
    MoveLoadingToBackground,
    /// Returns the newest lines of a server's log.
    Log { server: String },
    /// Sends a request to a connected server: resources, prompts.
    Send { server: String, method: String, params: Json },
    /// Calls a tool for an app that a client shows. Deny rules were checked by the caller.
    CallTool { server: String, tool: String, arguments: Json },
    /// Diagnoses a server for apps: its connection, and its tools with a user interface.
    Diagnose { server: String },
    /// Returns the context of apps, after setting it if one is given.
    AppContext { set: Option<Json> },
    /// Registers whether clients supply tokens for servers.
    Authorizes { enabled: bool },
    /// Registers that clients supply headers for servers.
    SuppliesHeaders,
    /// Answers a pending request of a server: a token, headers, a model's answer.
    Answer { request: String, answer: Json },
    /// Has the session's model answer a server's request, which a client approves by this. Served by the work of the
    /// session.
    Sample { request: Json },
    /// Has the session's model answer a pending request of a server. Served by the work of the session.
    ApproveSampling { request: String },
    /// Prepares a login at a server and returns its link; without one if a token works. The browser returns to `redirect`.
    Login { server: String, redirect: Option<String>, again: bool },
    /// Finishes a login with what a person pasted.
    FinishLogin { server: String, pasted: String },
    /// A login at a server has ended with a token.
    LoggedIn { server: String },
    /// Forgets the token of a server.
    Logout { server: String },
}

impl McpRequest {
    /// Returns the change of settings that a request makes which was served: with it, the next server of the session uses
    /// the same MCP servers.
    #[must_use]
    pub fn settings_edit(&self) -> Option<SettingsEdit> {
        let switched = |server: &String, switch| SettingsEdit::McpServer { name: server.clone(), switch };
        match self {
            Self::Enable { server } => Some(switched(server, McpSwitch::Enabled)),
            Self::Disable { server } => Some(switched(server, McpSwitch::Disabled)),
            Self::Stop { server } => Some(switched(server, McpSwitch::Stopped)),
            Self::Start { server, config, .. } => Some(switched(server, McpSwitch::Started(config.clone()))),
            Self::AppContext { set } => set.clone().map(SettingsEdit::AppContext),
            Self::Authorizes { enabled } => Some(SettingsEdit::SuppliesTokens(*enabled)),
            Self::SuppliesHeaders => Some(SettingsEdit::SuppliesHeaders),
            _ => None,
        }
    }
}

impl SessionMcp {
    /// Serves a request.
    ///
    /// # Errors
    /// With a message for the client.
    pub async fn serve(
        &self,
        settings: &Settings,
        cwd: PathBuf,
        request: McpRequest,
    ) -> Result<Value, String> {
        match request {
            McpRequest::AppContext { set } => return Ok(self.app_context(settings, set)),
            McpRequest::Authorizes { enabled } => {
                self.link.authorizes.store(enabled, Ordering::Relaxed);
                return Ok(Value::Null);
            }
            McpRequest::SuppliesHeaders => {
                self.link.supplies_headers.store(true, Ordering::Relaxed);
                return Ok(Value::Null);
            }
            McpRequest::Answer { request, answer } => {
                let answer = answer.parse().unwrap_or(Value::Null);
                return Ok(json!({ "success": self.link.answer_pending(&request, answer) }));
            }
            McpRequest::MoveLoadingToBackground => return Ok(self.move_to_background()),
            _ => {}
        }
        let is_fresh = matches!(
            request,
            McpRequest::List
                | McpRequest::ListConfigured
                | McpRequest::Overview { .. }
                | McpRequest::Reload
                | McpRequest::Enable { .. }
                | McpRequest::Start { .. }
        );
        let mut host = self.host(settings, cwd.clone(), is_fresh).await;
        if host.is_none() && matches!(request, McpRequest::Start { config: Some(_), .. }) {
            host = Some(self.create_host(cwd).await);
        }
        let served = match (request, host) {
            (McpRequest::Start { server, config, restart }, host) => {
                start(host.as_deref(), &server, config.as_ref(), restart).await
            }
            (request, Some(host)) => self.serve_with(&host, request).await,
            (request, None) => without_host(&request),
        };
        // What servers say may contain what they were configured with.
        let secrets = &self.addons.options.secrets;
        match served {
            Ok(mut reply) => {
                secrets.hide_in_value(&mut reply);
                Ok(reply)
            }
            Err(message) => Err(secrets.hide_in(&message)),
        }
    }

    async fn serve_with(&self, host: &Arc<Host>, request: McpRequest) -> Result<Value, String> {
        match request {
            McpRequest::List => {
                host.start();
                host.settle().await;
                Ok(list(host))
            }
            McpRequest::ListConfigured => Ok(configured(host)),
            McpRequest::Overview { start } => {
                if start {
                    host.start();
                    host.settle().await;
                }
                Ok(json!(overview(host)))
            }
            McpRequest::ListTools { server } => {
                let tools = connected(host, &server)?.tools();
                Ok(json!({ "tools": tools.iter().map(|tool| &tool.raw).collect::<Vec<_>>() }))
            }
            McpRequest::Enable { server } => {
                host.enable(&server).await;
                Ok(Value::Null)
            }
            McpRequest::Disable { server } => {
                host.disable(&server).await;
                Ok(Value::Null)
            }
            McpRequest::Reload => {
                host.reload().await;
                Ok(Value::Null)
            }
            McpRequest::Stop { server } => {
                host.stop(&server).await;
                Ok(Value::Null)
            }
            McpRequest::IsRunning { server } => Ok(json!({ "running": connected(host, &server).is_ok() })),
            McpRequest::Log { server } => {
                let server = host.server(&server).ok_or_else(|| not_configured(&server))?;
                Ok(json!({ "lines": server.log().lines() }))
            }
            McpRequest::Send { server, method, params } => {
                let known =
                    connected(host, &server).map_err(|_| format!("MCP server not connected: {server}"))?;
                let params = params.parse().unwrap_or_else(|_| json!({}));
                known.request(&method, params).await.map_err(|error| error.to_string())
            }
            McpRequest::CallTool { server, tool, arguments } => {
                self.call_for_app(host, &server, &tool, &arguments).await
            }
            McpRequest::Diagnose { server } => Ok(diagnosis(host.server(&server).as_deref())),
            McpRequest::Login { server, redirect, again } => self.login(host, &server, redirect, again).await,
            McpRequest::FinishLogin { server, pasted } => {
                protected(host, &server)?;
                self.addons.logins.finish_pasted(Some(&self.id), &server, &pasted).await?;
                self.logged_in(host, &server).await
            }
            McpRequest::LoggedIn { server } => self.logged_in(host, &server).await,
            McpRequest::Logout { server } => {
                let known = host.server(&server).ok_or_else(|| not_configured(&server))?;
                let forgotten = self.addons.logins.forget(&protected(host, &server)?).await?;
                known.log_out().await;
                Ok(json!({ "loggedOut": forgotten }))
            }
            // Served without a host.
            McpRequest::Start { .. }
            | McpRequest::MoveLoadingToBackground
            | McpRequest::AppContext { .. }
            | McpRequest::Authorizes { .. }
            | McpRequest::SuppliesHeaders
            | McpRequest::Sample { .. }
            | McpRequest::ApproveSampling { .. }
            | McpRequest::Answer { .. } => Ok(Value::Null),
        }
    }

    /// Prepares a login. One that is not needed connects the server instead.
    async fn login(
        &self,
        host: &Host,
        server: &str,
        redirect: Option<String>,
        again: bool,
    ) -> Result<Value, String> {
        let protected = protected(host, server)?;
        if !again && self.addons.logins.known(&protected).await.is_some() {
            host.start_one(server, None, false).await;
            if host.server(server).is_some_and(|server| server.status() == ServerStatus::Connected) {
                return Ok(json!({}));
            }
        }
        let challenge = self.link.challenge(server);
        let request = self.link.request_login(&protected, AuthReason::Initial).await?;
        let link = self.addons.logins.prepare(Some(&self.id), &protected, challenge, redirect).await?;
        Ok(json!({ "authorizationUrl": link.url, "redirectUri": link.redirect, "requestId": request }))
    }

    /// Connects a server after a login, and closes the request for it.
    async fn logged_in(&self, host: &Host, server: &str) -> Result<Value, String> {
        self.link.logged_in(&protected(host, server)?).await;
        if let Some(known) = host.server(server) {
            known.forget_token();
        }
        host.start_one(server, None, true).await;
        let status = host.server(server).map(|server| server.status());
        Ok(json!({ "status": status.as_ref().map(ServerStatus::as_str) }))
    }

    async fn call_for_app(
        &self,
        host: &Host,
        server: &str,
        tool: &str,
        arguments: &Json,
    ) -> Result<Value, String> {
        let known = connected(host, server)?;
        match known.tools().iter().find(|known| known.name == tool) {
            None => return Err(format!("MCP tool not found on {server}: {tool}")),
            Some(known) if !is_for_apps(known.raw.get("_meta")) => {
                return Err(format!("MCP tool is for the model only, and not for apps, on {server}: {tool}"));
            }
            Some(_) => {}
        }
        let begun = Instant::now();
        let call = ServerCall {
            tool: tool.to_owned(),
            arguments: arguments.parse::<Map<String, Value>>().unwrap_or_default(),
            meta: None,
            patience: Server::patience(),
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
        };
        let result = known.call(call).await;
        let mut data = json!({
            "serverName": server,
            "toolName": tool,
            "arguments": arguments,
            "success": result.as_ref().is_ok_and(|result| !contents(result).is_error),
            "durationMs": u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        match &result {
            Ok(result) => data["result"] = result.clone(),
            Err(error) => data["error"] = json!(error.to_string()),
        }
        self.link.show("mcp_app.tool_call_complete", data);
        result.map_err(|error: ToolCallError| format!("MCP server '{server}': {error}"))
    }

    fn app_context(&self, settings: &Settings, set: Option<Json>) -> Value {
        let mut context = self.app_context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if set.is_some() {
            *context = set;
        }
        let context = context.as_ref().or(settings.app_context.as_ref());
        let context: Option<Value> = context.and_then(|context| context.parse().ok());
        json!({ "context": context.unwrap_or_else(|| json!({})) })
    }

    fn move_to_background(&self) -> Value {
        let is_loading = self.current().is_some_and(|host| {
            host.has_started() && host.list().iter().any(|server| server.status == ServerStatus::Pending)
        });
        if is_loading {
            self.release.notify_waiters();
        }
        json!({ "movedToBackground": is_loading })
    }
}

/// Replies for a session without any server.
fn without_host(request: &McpRequest) -> Result<Value, String> {
    match request {
        McpRequest::List => Ok(json!({ "servers": [], "host": host_view(&[]) })),
        McpRequest::ListConfigured => Ok(json!({ "servers": [] })),
        McpRequest::Overview { .. } => Ok(json!([])),
        McpRequest::ListTools { server } => Err(format!("MCP server \"{server}\" is not connected")),
        McpRequest::Enable { .. } | McpRequest::Disable { .. } => Err("No MCP host initialized".into()),
        McpRequest::Reload => Err("MCP config reload not available".into()),
        McpRequest::IsRunning { .. } => Ok(json!({ "running": false })),
        McpRequest::Log { server } => Err(not_configured(server)),
        McpRequest::Send { server, .. } | McpRequest::CallTool { server, .. } => {
            Err(format!("MCP server not connected: {server}"))
        }
        McpRequest::Diagnose { .. } => Ok(diagnosis(None)),
        McpRequest::Login { .. } | McpRequest::FinishLogin { .. } | McpRequest::Logout { .. } => {
            Err("MCP host is not available".into())
        }
        _ => Ok(Value::Null),
    }
}

async fn start(
    host: Option<&Host>,
    server: &str,
    config: Option<&Json>,
    restart: bool,
) -> Result<Value, String> {
    let missing = || format!("MCP server \"{server}\" has no installed config to restart");
    let host = host.ok_or_else(missing)?;
    let config = config.map(|config| {
        let value = config.parse().unwrap_or(Value::Null);
        ServerConfig::parse(server, &value)
    });
    match host.start_one(server, config, restart).await {
        true => Ok(Value::Null),
        false => Err(missing()),
    }
}

/// Returns a remote server, as far as its authorization is concerned.
fn protected(host: &Host, server: &str) -> Result<Protected, String> {
    let known = host.server(server).ok_or_else(|| not_configured(server))?;
    known.protected().ok_or_else(|| {
        format!(
            "MCP server '{server}' is not a remote server — OAuth login is only supported for HTTP/SSE transports"
        )
    })
}

fn not_configured(server: &str) -> String {
    format!("MCP server '{server}' is not configured")
}

fn connected(host: &Host, name: &str) -> Result<Arc<Server>, String> {
    let server = host.server(name).filter(|server| server.status() == ServerStatus::Connected);
    server.ok_or_else(|| format!("MCP server \"{name}\" is not connected"))
}

/// Returns a server as lists show it.
pub(super) fn listed(server: &Listed) -> Value {
    let mut shown = json!({ "name": server.name, "status": server.status.as_str() });
    if let Some(source) = &server.source {
        shown["source"] = json!(source);
    }
    if let Some(transport) = server.transport {
        shown["transport"] = json!(transport);
    }
    if let Some(error) = server.status.error() {
        shown["error"] = json!(error);
    }
    shown
}

fn list(host: &Host) -> Value {
    let servers = host.list();
    json!({ "servers": servers.iter().map(listed).collect::<Vec<_>>(), "host": host_view(&servers) })
}

fn configured(host: &Host) -> Value {
    let shown = |server: &Listed| json!({ "name": server.name, "enabled": server.status != ServerStatus::Disabled, "live": listed(server) });
    json!({ "servers": host.list().iter().map(shown).collect::<Vec<_>>() })
}

fn host_view(servers: &[Listed]) -> Value {
    let now = Timestamp::now();
    let names = |is: fn(&ServerStatus) -> bool| -> Vec<&str> {
        servers.iter().filter(|server| is(&server.status)).map(|server| server.name.as_str()).collect()
    };
    let map = |is: fn(&ServerStatus) -> bool| -> Map<String, Value> {
        let entry = |server: &Listed| {
            let mut entry = json!({ "timestamp": now.as_millis() });
            if let Some(error) = server.status.error() {
                entry["message"] = json!(error);
            }
            (server.name.clone(), entry)
        };
        servers.iter().filter(|server| is(&server.status)).map(entry).collect()
    };
    json!({
        "mcp3pEnabled": true,
        "clients": names(|status| *status == ServerStatus::Connected),
        "disabledServers": names(|status| *status == ServerStatus::Disabled),
        "filteredServers": [],
        "pendingConnections": names(|status| *status == ServerStatus::Pending),
        "failedServers": map(|status| matches!(status, ServerStatus::Failed(_))),
        "needsAuthServers": map(|status| *status == ServerStatus::NeedsAuth),
    })
}

/// Whether apps may call a tool with this metadata. Tools that do not say are for apps, too.
fn is_for_apps(meta: Option<&Value>) -> bool {
    let visibility = meta.and_then(|meta| meta.pointer("/ui/visibility")).and_then(Value::as_array);
    visibility.is_none_or(|places| places.iter().any(|place| place == "app"))
}

fn diagnosis(server: Option<&Server>) -> Value {
    let tools = server.map(Server::tools).unwrap_or_default();
    let with_ui: Vec<&str> = tools
        .iter()
        .filter(|tool| tool.raw.get("_meta").is_some_and(|meta| meta.get("ui").is_some()))
        .map(|tool| tool.name.as_str())
        .collect();
    json!({
        "capability": { "sessionHasMcpApps": false, "featureFlagEnabled": false, "advertised": false },
        "server": {
            "connected": server.is_some_and(|server| server.status() == ServerStatus::Connected),
            "toolCount": tools.len(),
            "toolsWithUiMeta": with_ui.len(),
            "sampleToolNames": with_ui.iter().take(5).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_switch_servers_change_settings() {
        let server = || "s".to_owned();
        let config = Json::from(json!({ "command": "x" }));
        let requests = [
            McpRequest::Start { server: server(), config: Some(config), restart: false },
            McpRequest::Stop { server: server() },
            McpRequest::Disable { server: server() },
            McpRequest::AppContext { set: Some(Json::from(json!({ "theme": "dark" }))) },
            McpRequest::Authorizes { enabled: true },
            McpRequest::SuppliesHeaders,
        ];
        let mut settings = Settings::default();
        requests.iter().filter_map(McpRequest::settings_edit).for_each(|edit| settings.apply(edit));
        assert!(settings.mcp_servers.contains_key("s"));
        assert_eq!(settings.stopped_mcp_servers, ["s"]);
        assert_eq!(settings.disabled_mcp_servers, ["s"]);
        assert!(settings.app_context.is_some() && settings.supplies_tokens && settings.supplies_headers);
        let enabled = McpRequest::Enable { server: server() }.settings_edit();
        settings.apply(enabled.unwrap());
        assert!(settings.disabled_mcp_servers.is_empty() && settings.stopped_mcp_servers.is_empty());
        let reads = [McpRequest::List, McpRequest::Reload, McpRequest::AppContext { set: None }];
        assert!(reads.iter().all(|request| request.settings_edit().is_none()));
    }
}
