//! Serving asks of clients about a session's MCP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use baton_ask::Texts;
use baton_ask::mcp::{
    CallMcpTool, ConfiguredMcpServer, LogInAtMcpServer, McpAsk, McpConnections, McpDiagnosis, McpLogin,
    McpProblem, McpReply, McpServer, McpServers, StartMcpServer,
};
use baton_mcp::{
    AuthReason, Host, Listed, Protected, Server, ServerCall, ServerConfig, ServerStatus, ToolCallError,
    contents,
};
use baton_protocol::{Json, Timestamp};
use baton_settings::Settings;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::SessionMcp;
use super::overview::overview;

impl SessionMcp {
    /// Serves an ask. Secrets are redacted in its reply.
    ///
    /// # Errors
    /// With a message for the client.
    pub async fn serve(&self, settings: &Settings, cwd: PathBuf, ask: McpAsk) -> Result<McpReply, String> {
        let served = self.serve_plainly(settings, cwd, ask).await;
        // What servers say may contain what they were configured with.
        let secrets = &self.addons.options.secrets;
        match served {
            Ok(mut reply) => {
                reply.each_text(&mut |text| secrets.hide_in_place(text));
                Ok(reply)
            }
            Err(message) => Err(secrets.hide_in(&message)),
        }
    }

    async fn serve_plainly(
        &self,
        settings: &Settings,
        cwd: PathBuf,
        ask: McpAsk,
    ) -> Result<McpReply, String> {
        use McpReply as Reply;
        match ask {
            McpAsk::GetMcpAppContext(_) => {
                return Ok(Reply::GetMcpAppContext(Box::new(self.app_context(settings))));
            }
            McpAsk::SetMcpAppContext(ask) => {
                *self.lock_app_context() = Some(ask.context);
                return Ok(Reply::SetMcpAppContext(Box::new(())));
            }
            McpAsk::SupplyMcpTokens(ask) => {
                self.link.authorizes.store(ask.supplied, Ordering::Relaxed);
                return Ok(Reply::SupplyMcpTokens(Box::new(())));
            }
            McpAsk::SupplyMcpHeaders(_) => {
                self.link.supplies_headers.store(true, Ordering::Relaxed);
                return Ok(Reply::SupplyMcpHeaders(Box::new(())));
            }
            McpAsk::AnswerMcpServer(ask) => {
                let answer = ask.answer.parse().unwrap_or(Value::Null);
                let was_pending = self.link.answer_pending(&ask.request, answer);
                return Ok(Reply::AnswerMcpServer(Box::new(was_pending)));
            }
            McpAsk::ReleaseMcpWait(_) => return Ok(Reply::ReleaseMcpWait(Box::new(self.release_wait()))),
            _ => {}
        }
        let is_fresh = matches!(
            ask,
            McpAsk::ListMcpServers(_)
                | McpAsk::ListConfiguredMcpServers(_)
                | McpAsk::DescribeMcpServers(_)
                | McpAsk::StartMcpServers(_)
                | McpAsk::ReloadMcpServers(_)
                | McpAsk::EnableMcpServer(_)
                | McpAsk::StartMcpServer(_)
        );
        let mut host = self.host(settings, cwd.clone(), is_fresh).await;
        if host.is_none() && matches!(&ask, McpAsk::StartMcpServer(StartMcpServer { config: Some(_), .. })) {
            host = Some(self.create_host(cwd).await);
        }
        match host {
            Some(host) => self.serve_with(&host, ask).await,
            None => without_host(ask),
        }
    }

    async fn serve_with(&self, host: &Arc<Host>, ask: McpAsk) -> Result<McpReply, String> {
        use McpReply as Reply;
        Ok(match ask {
            McpAsk::ListMcpServers(_) => {
                host.start();
                host.settle().await;
                Reply::ListMcpServers(Box::new(list(&host.list())))
            }
            McpAsk::ListConfiguredMcpServers(_) => {
                Reply::ListConfiguredMcpServers(Box::new(host.list().iter().map(configured).collect()))
            }
            McpAsk::DescribeMcpServers(_) => Reply::DescribeMcpServers(Box::new(overview(host))),
            McpAsk::StartMcpServers(_) => {
                host.start();
                host.settle().await;
                Reply::StartMcpServers(Box::new(overview(host)))
            }
            McpAsk::ListMcpTools(ask) => {
                let tools = connected(host, &ask.server)?.tools();
                Reply::ListMcpTools(Box::new(
                    tools.iter().map(|tool| Value::Object(tool.raw.clone())).collect(),
                ))
            }
            McpAsk::EnableMcpServer(ask) => {
                host.enable(&ask.server).await;
                Reply::EnableMcpServer(Box::new(()))
            }
            McpAsk::DisableMcpServer(ask) => {
                host.disable(&ask.server).await;
                Reply::DisableMcpServer(Box::new(()))
            }
            McpAsk::ReloadMcpServers(_) => {
                host.reload().await;
                Reply::ReloadMcpServers(Box::new(()))
            }
            McpAsk::StopMcpServer(ask) => {
                host.stop(&ask.server).await;
                Reply::StopMcpServer(Box::new(()))
            }
            McpAsk::StartMcpServer(ask) => Reply::StartMcpServer(Box::new(start(host, &ask).await?)),
            McpAsk::IsMcpServerRunning(ask) => {
                Reply::IsMcpServerRunning(Box::new(connected(host, &ask.server).is_ok()))
            }
            McpAsk::ReadMcpLog(ask) => {
                let server = host.server(&ask.server).ok_or_else(|| not_configured(&ask.server))?;
                Reply::ReadMcpLog(Box::new(server.log().lines()))
            }
            McpAsk::SendToMcpServer(ask) => {
                let known = connected(host, &ask.server).map_err(|_| not_connected(&ask.server))?;
                let params = ask.params.parse().unwrap_or_else(|_| json!({}));
                let sent = known.request(&ask.method, params).await;
                Reply::SendToMcpServer(Box::new(sent.map_err(|error| error.to_string())?))
            }
            McpAsk::CallMcpTool(ask) => Reply::CallMcpTool(Box::new(self.call_for_app(host, &ask).await?)),
            McpAsk::DiagnoseMcpServer(ask) => {
                Reply::DiagnoseMcpServer(Box::new(diagnosis(host.server(&ask.server).as_deref())))
            }
            McpAsk::LogInAtMcpServer(ask) => Reply::LogInAtMcpServer(Box::new(self.log_in(host, ask).await?)),
            McpAsk::FinishMcpLogin(ask) => {
                protected(host, &ask.server)?;
                self.addons.logins.finish_pasted(Some(&self.id), &ask.server, &ask.pasted).await?;
                Reply::FinishMcpLogin(Box::new(self.logged_in(host, &ask.server).await?))
            }
            McpAsk::ConnectAfterMcpLogin(ask) => {
                Reply::ConnectAfterMcpLogin(Box::new(self.logged_in(host, &ask.server).await?))
            }
            McpAsk::LogOutOfMcpServer(ask) => {
                let known = host.server(&ask.server).ok_or_else(|| not_configured(&ask.server))?;
                let forgotten = self.addons.logins.forget(&protected(host, &ask.server)?).await?;
                known.log_out().await;
                Reply::LogOutOfMcpServer(Box::new(forgotten))
            }
            McpAsk::SampleForMcpServer(_)
            | McpAsk::ApproveMcpSampling(_)
            | McpAsk::GetMcpAppContext(_)
            | McpAsk::SetMcpAppContext(_)
            | McpAsk::SupplyMcpTokens(_)
            | McpAsk::SupplyMcpHeaders(_)
            | McpAsk::AnswerMcpServer(_)
            | McpAsk::ReleaseMcpWait(_) => return Err("MCP host is not needed".into()),
        })
    }

    /// Prepares a login. One that is not needed connects the server instead.
    async fn log_in(&self, host: &Host, ask: LogInAtMcpServer) -> Result<McpLogin, String> {
        let LogInAtMcpServer { server, redirect, again } = ask;
        let protected = protected(host, &server)?;
        if !again && self.addons.logins.known(&protected).await.is_some() {
            host.start_one(&server, None, false).await;
            if host.server(&server).is_some_and(|server| server.status() == ServerStatus::Connected) {
                return Ok(McpLogin::default());
            }
        }
        let challenge = self.link.challenge(&server);
        let request = self.link.request_login(&protected, AuthReason::Initial).await?;
        let link = self.addons.logins.prepare(Some(&self.id), &protected, challenge, redirect).await?;
        Ok(McpLogin {
            authorization_url: Some(link.url),
            redirect_uri: Some(link.redirect),
            request_id: Some(request.to_string()),
        })
    }

    /// Connects a server after a login, and closes the request for it. Returns the server's status.
    async fn logged_in(&self, host: &Host, server: &str) -> Result<Option<String>, String> {
        self.link.logged_in(&protected(host, server)?).await;
        if let Some(known) = host.server(server) {
            known.forget_token();
        }
        host.start_one(server, None, true).await;
        let status = host.server(server).map(|server| server.status());
        Ok(status.map(|status| status.as_str().to_owned()))
    }

    async fn call_for_app(&self, host: &Host, ask: &CallMcpTool) -> Result<Value, String> {
        let CallMcpTool { server, tool, arguments } = ask;
        let known = connected(host, server)?;
        match known.tools().iter().find(|known| known.name == *tool) {
            None => return Err(format!("MCP tool not found on {server}: {tool}")),
            Some(known) if !is_for_apps(known.raw.get("_meta")) => {
                return Err(format!("MCP tool is for the model only, and not for apps, on {server}: {tool}"));
            }
            Some(_) => {}
        }
        let begun = Instant::now();
        let call = ServerCall {
            tool: tool.clone(),
            approved: None,
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

    /// Returns the context of apps: what a client set while the session was here, or before.
    fn app_context(&self, settings: &Settings) -> Json {
        let context = self.lock_app_context();
        let context = context.as_ref().or(settings.app_context.as_ref());
        context.cloned().unwrap_or_else(Json::empty_object)
    }

    fn lock_app_context(&self) -> MutexGuard<'_, Option<Json>> {
        self.app_context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a turn that waits for servers continue. Returns whether one was still connecting.
    fn release_wait(&self) -> bool {
        let is_loading = self.current().is_some_and(|host| {
            host.has_started() && host.list().iter().any(|server| server.status == ServerStatus::Pending)
        });
        if is_loading {
            self.release.notify_waiters();
        }
        is_loading
    }
}

/// Replies for a session without any server.
fn without_host(ask: McpAsk) -> Result<McpReply, String> {
    use McpReply as Reply;
    Ok(match ask {
        McpAsk::ListMcpServers(_) => Reply::ListMcpServers(Box::new(list(&[]))),
        McpAsk::ListConfiguredMcpServers(_) => Reply::ListConfiguredMcpServers(Box::default()),
        McpAsk::DescribeMcpServers(_) => Reply::DescribeMcpServers(Box::default()),
        McpAsk::StartMcpServers(_) => Reply::StartMcpServers(Box::default()),
        McpAsk::StopMcpServer(_) => Reply::StopMcpServer(Box::new(())),
        McpAsk::IsMcpServerRunning(_) => Reply::IsMcpServerRunning(Box::new(false)),
        McpAsk::DiagnoseMcpServer(_) => Reply::DiagnoseMcpServer(Box::new(diagnosis(None))),
        McpAsk::ConnectAfterMcpLogin(_) => Reply::ConnectAfterMcpLogin(Box::new(None)),
        McpAsk::ListMcpTools(ask) => return Err(not_here(&ask.server)),
        McpAsk::EnableMcpServer(_) | McpAsk::DisableMcpServer(_) => {
            return Err("No MCP host initialized".into());
        }
        McpAsk::ReloadMcpServers(_) => return Err("MCP config reload not available".into()),
        McpAsk::StartMcpServer(ask) => return Err(nothing_to_start(&ask.server)),
        McpAsk::ReadMcpLog(ask) => return Err(not_configured(&ask.server)),
        McpAsk::SendToMcpServer(ask) => return Err(not_connected(&ask.server)),
        McpAsk::CallMcpTool(ask) => return Err(not_connected(&ask.server)),
        McpAsk::LogInAtMcpServer(_)
        | McpAsk::FinishMcpLogin(_)
        | McpAsk::LogOutOfMcpServer(_)
        | McpAsk::SampleForMcpServer(_)
        | McpAsk::ApproveMcpSampling(_)
        | McpAsk::GetMcpAppContext(_)
        | McpAsk::SetMcpAppContext(_)
        | McpAsk::SupplyMcpTokens(_)
        | McpAsk::SupplyMcpHeaders(_)
        | McpAsk::AnswerMcpServer(_)
        | McpAsk::ReleaseMcpWait(_) => return Err("MCP host is not available".into()),
    })
}

async fn start(host: &Host, ask: &StartMcpServer) -> Result<(), String> {
    let config = ask.config.as_ref().map(|config| {
        let value = config.parse().unwrap_or(Value::Null);
        ServerConfig::parse(&ask.server, &value)
    });
    let started = host.start_one(&ask.server, config, ask.restart).await;
    started.then_some(()).ok_or_else(|| nothing_to_start(&ask.server))
}

fn nothing_to_start(server: &str) -> String {
    format!("MCP server \"{server}\" has no installed config to restart")
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

fn not_connected(server: &str) -> String {
    format!("MCP server not connected: {server}")
}

fn not_here(server: &str) -> String {
    format!("MCP server \"{server}\" is not connected")
}

fn connected(host: &Host, name: &str) -> Result<Arc<Server>, String> {
    let server = host.server(name).filter(|server| server.status() == ServerStatus::Connected);
    server.ok_or_else(|| not_here(name))
}

/// Describes a server for lists.
pub(super) fn listed(server: &Listed) -> McpServer {
    McpServer {
        name: server.name.clone(),
        status: server.status.as_str().to_owned(),
        source: server.source.clone(),
        transport: server.transport.map(str::to_owned),
        error: server.status.error().map(str::to_owned),
    }
}

fn list(servers: &[Listed]) -> McpServers {
    McpServers { servers: servers.iter().map(listed).collect(), host: connections(servers) }
}

fn configured(server: &Listed) -> ConfiguredMcpServer {
    let enabled = server.status != ServerStatus::Disabled;
    ConfiguredMcpServer { name: server.name.clone(), enabled, live: listed(server) }
}

fn connections(servers: &[Listed]) -> McpConnections {
    let timestamp = Timestamp::now().as_millis();
    let names = |is: fn(&ServerStatus) -> bool| -> Vec<String> {
        servers.iter().filter(|server| is(&server.status)).map(|server| server.name.clone()).collect()
    };
    let problems = |is: fn(&ServerStatus) -> bool| -> BTreeMap<String, McpProblem> {
        let problem = |server: &Listed| {
            let message = server.status.error().map(str::to_owned);
            (server.name.clone(), McpProblem { timestamp, message })
        };
        servers.iter().filter(|server| is(&server.status)).map(problem).collect()
    };
    McpConnections {
        mcp3p_enabled: true,
        clients: names(|status| *status == ServerStatus::Connected),
        disabled_servers: names(|status| *status == ServerStatus::Disabled),
        filtered_servers: Vec::new(),
        pending_connections: names(|status| *status == ServerStatus::Pending),
        failed_servers: problems(|status| matches!(status, ServerStatus::Failed(_))),
        needs_auth_servers: problems(|status| *status == ServerStatus::NeedsAuth),
    }
}

/// Whether apps may call a tool with this metadata. Tools that do not say are for apps, too.
fn is_for_apps(meta: Option<&Value>) -> bool {
    let visibility = meta.and_then(|meta| meta.pointer("/ui/visibility")).and_then(Value::as_array);
    visibility.is_none_or(|places| places.iter().any(|place| place == "app"))
}

fn diagnosis(server: Option<&Server>) -> McpDiagnosis {
    let tools = server.map(Server::tools).unwrap_or_default();
    let with_ui: Vec<String> = tools
        .iter()
        .filter(|tool| tool.raw.get("_meta").is_some_and(|meta| meta.get("ui").is_some()))
        .map(|tool| tool.name.clone())
        .collect();
    McpDiagnosis {
        connected: server.is_some_and(|server| server.status() == ServerStatus::Connected),
        tool_count: tools.len(),
        tools_with_ui_meta: with_ui.len(),
        sample_tool_names: with_ui.into_iter().take(5).collect(),
    }
}
