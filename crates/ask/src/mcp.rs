//! Asks about the MCP servers of a session.
//!
//! What a server says itself (its tools, its answers to requests that are passed on) stays JSON all the way to the client.

use std::collections::BTreeMap;

use baton_protocol::Json;
use baton_settings::{McpSwitch, SettingsEdit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Texts;
use crate::family::family;
use crate::texts::texts;

family! {
    /// Asks about MCP servers.
    McpAsk, McpReply in Mcp;

    /// Lists the servers with their status. Starts them, and waits until they have settled.
    ListMcpServers {} -> McpServers;

    /// Lists the servers without starting any.
    ListConfiguredMcpServers {} -> Vec<ConfiguredMcpServer>;

    /// Describes the servers with their tools, without starting any.
    DescribeMcpServers {} -> Vec<McpServerOverview>;

    /// Starts the servers, waits until they have settled, and describes them.
    StartMcpServers {} -> Vec<McpServerOverview>;

    /// Lists the tools of a connected server, as it describes them.
    ListMcpTools {
        /// The server.
        server: String,
    } -> Vec<Value>;

    /// Uses a server again.
    EnableMcpServer {
        /// The server.
        server: String,
    } -> ();

    /// Stops using a server.
    DisableMcpServer {
        /// The server.
        server: String,
    } -> ();

    /// Ends all connections and connects again.
    ReloadMcpServers {} -> ();

    /// Stops a server until it is started again.
    StopMcpServer {
        /// The server.
        server: String,
    } -> ();

    /// Starts a server.
    StartMcpServer {
        /// The server.
        server: String,
        /// Its configuration, in place of the one that the session knows.
        config: Option<Json>,
        /// Whether to end its connection first.
        restart: bool,
    } -> ();

    /// Replies whether a server is connected.
    IsMcpServerRunning {
        /// The server.
        server: String,
    } -> bool;

    /// Lets a turn that waits for servers continue. Replies whether one was still connecting.
    ReleaseMcpWait {} -> bool;

    /// Returns the newest lines of a server's log, oldest first.
    ReadMcpLog {
        /// The server.
        server: String,
    } -> Vec<String>;

    /// Sends a request to a connected server, such as one about resources or prompts. Replies its result.
    SendToMcpServer {
        /// The server.
        server: String,
        /// The method.
        method: String,
        /// Its parameters.
        params: Json,
    } -> Value;

    /// Calls a tool for an app that a client shows. Only deny rules apply, because its user caused the call.
    CallMcpTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Json,
    } -> Value;

    /// Diagnoses a server for apps: its connection, and its tools with a user interface.
    DiagnoseMcpServer {
        /// The server.
        server: String,
    } -> McpDiagnosis;

    /// Returns the context of apps.
    GetMcpAppContext {} -> Json;

    /// Sets the context of apps.
    SetMcpAppContext {
        /// The context.
        context: Json,
    } -> ();

    /// Notes whether clients supply tokens for servers.
    SupplyMcpTokens {
        /// Whether they do.
        supplied: bool,
    } -> ();

    /// Notes that clients supply headers for servers.
    SupplyMcpHeaders {} -> ();

    /// Answers a request of a server for a token or headers. Replies whether it was pending.
    AnswerMcpServer {
        /// The request.
        request: String,
        /// The answer.
        answer: Json,
    } -> bool;

    /// Has the session's model answer a server's request, which a client approves by this.
    SampleForMcpServer {
        /// The request's parameters.
        request: Json,
    } -> McpSampled;

    /// Has the session's model answer a pending request of a server. The answer counts if nobody was faster.
    ApproveMcpSampling {
        /// The request.
        request: String,
    } -> ();

    /// Prepares a login at a server, and returns its link; without one if a token works.
    LogInAtMcpServer {
        /// The server.
        server: String,
        /// Where the browser returns to.
        redirect: Option<String>,
        /// Whether to log in although there is a token.
        again: bool,
    } -> McpLogin;

    /// Finishes a login with what a person pasted, and connects the server. Replies its status.
    FinishMcpLogin {
        /// The server.
        server: String,
        /// What was pasted.
        pasted: String,
    } -> Option<String>;

    /// Connects a server after a login at it. Replies its status.
    ConnectAfterMcpLogin {
        /// The server.
        server: String,
    } -> Option<String>;

    /// Forgets the token of a server. Replies whether there was one.
    LogOutOfMcpServer {
        /// The server.
        server: String,
    } -> bool;
}

/// The servers of a session, with the state of their connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServers {
    /// The servers.
    pub servers: Vec<McpServer>,
    /// The same, by the state of the connections.
    pub host: McpConnections,
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// Its status, by the name that SDKs use.
    pub status: String,
    /// Who declared it: `user`, `workspace` or `plugin`; none for the session itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// `stdio`, `http` or `sse`, if the configuration can be used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transport: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Names of servers by the state of their connections, as SDKs read them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpConnections {
    /// Whether servers of others can be used.
    pub mcp3p_enabled: bool,
    /// Connected servers.
    pub clients: Vec<String>,
    /// Servers that the session does not use.
    pub disabled_servers: Vec<String>,
    /// Servers that a policy forbids; there is none.
    pub filtered_servers: Vec<String>,
    /// Servers that are connecting.
    pub pending_connections: Vec<String>,
    /// Servers that failed.
    pub failed_servers: BTreeMap<String, McpProblem>,
    /// Servers that require authorization.
    pub needs_auth_servers: BTreeMap<String, McpProblem>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpProblem {
    /// Time of the reply, in milliseconds.
    pub timestamp: i64,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// A server and whether the session uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredMcpServer {
    /// Its name.
    pub name: String,
    /// Whether the session uses it.
    pub enabled: bool,
    /// Its state.
    pub live: McpServer,
}

/// A server with its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServerOverview {
    /// Its name.
    pub name: String,
    /// Its status, by the name that SDKs use.
    pub status: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Who declared it: `user`, `workspace` or `plugin`; none for the session itself.
    pub source: Option<String>,
    /// `stdio`, `http` or `sse`, if the configuration can be used.
    pub transport: Option<String>,
    /// Whether the session uses it.
    pub enabled: bool,
    /// Its tools, if it is connected.
    pub tools: Vec<McpToolOverview>,
}

/// A tool of a server. Everything in it is the server's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpToolOverview {
    /// Its name on the server.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// Whether the server says that it changes nothing.
    pub read_only_hint: bool,
    /// The name under which models are offered it; none if they are not.
    pub offered_as: Option<String>,
}

/// Diagnosis of a server for apps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpDiagnosis {
    /// Whether it is connected.
    pub connected: bool,
    /// Number of its tools.
    pub tool_count: usize,
    /// Number of its tools with a user interface.
    pub tools_with_ui_meta: usize,
    /// Names of some of these.
    pub sample_tool_names: Vec<String>,
}

/// Result of a server's request for an answer of the model. Failures are results, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum McpSampled {
    /// The model answered.
    Success {
        /// The answer, for the server.
        result: Value,
    },
    /// There is no answer.
    Failure {
        /// Why.
        error: String,
    },
}

/// A login at a server; empty if none is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpLogin {
    /// Page to open in a browser.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub authorization_url: Option<String>,
    /// Where the browser returns to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub redirect_uri: Option<String>,
    /// The pending request for the login.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
}

texts! {
    McpServers { servers, host }
    McpServer { name, status, source, transport, error }
    McpConnections { clients, disabled_servers, filtered_servers, pending_connections, failed_servers, needs_auth_servers }
    McpProblem { message }
    ConfiguredMcpServer { name, live }
    McpServerOverview { name, status, error, source, transport, tools }
    McpToolOverview { name, title, description, offered_as }
    McpDiagnosis { sample_tool_names }
    McpLogin { authorization_url, redirect_uri, request_id }
}

impl Texts for McpSampled {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Success { result } => result.each_text(change),
            Self::Failure { error } => change(error),
        }
    }
}

/// The context of apps comes from a client, which may read it back.
impl Texts for Json {
    fn each_text(&mut self, _change: &mut dyn FnMut(&mut String)) {}
}

/// Implements [`Texts`] for replies of all kinds.
macro_rules! texts_of_replies {
    ($($name:ident)*) => {
        impl Texts for McpReply {
            fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
                match self {
                    $( Self::$name(reply) => reply.each_text(change), )*
                }
            }
        }
    };
}

texts_of_replies! {
    ListMcpServers ListConfiguredMcpServers DescribeMcpServers StartMcpServers ListMcpTools EnableMcpServer DisableMcpServer
    ReloadMcpServers StopMcpServer StartMcpServer IsMcpServerRunning ReleaseMcpWait ReadMcpLog SendToMcpServer CallMcpTool
    DiagnoseMcpServer GetMcpAppContext SetMcpAppContext SupplyMcpTokens SupplyMcpHeaders AnswerMcpServer SampleForMcpServer
    ApproveMcpSampling LogInAtMcpServer FinishMcpLogin ConnectAfterMcpLogin LogOutOfMcpServer
}

impl McpAsk {
    /// Returns the change of settings that an ask makes which was served: with it, the next server of the session uses the
    /// same MCP servers.
    #[must_use]
    pub fn settings_edit(&self) -> Option<SettingsEdit> {
        let switched = |server: &String, switch| SettingsEdit::McpServer { name: server.clone(), switch };
        match self {
            Self::EnableMcpServer(ask) => Some(switched(&ask.server, McpSwitch::Enabled)),
            Self::DisableMcpServer(ask) => Some(switched(&ask.server, McpSwitch::Disabled)),
            Self::StopMcpServer(ask) => Some(switched(&ask.server, McpSwitch::Stopped)),
            Self::StartMcpServer(ask) => Some(switched(&ask.server, McpSwitch::Started(ask.config.clone()))),
            Self::SetMcpAppContext(ask) => Some(SettingsEdit::AppContext(ask.context.clone())),
            Self::SupplyMcpTokens(ask) => Some(SettingsEdit::SuppliesTokens(ask.supplied)),
            Self::SupplyMcpHeaders(_) => Some(SettingsEdit::SuppliesHeaders),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_settings::Settings;
    use serde_json::json;

    use super::*;

    #[test]
    fn asks_that_switch_servers_change_settings() {
        let server = || "s".to_owned();
        let config = Some(Json::from(json!({ "command": "x" })));
        let asks = [
            McpAsk::StartMcpServer(StartMcpServer { server: server(), config, restart: false }),
            McpAsk::StopMcpServer(StopMcpServer { server: server() }),
            McpAsk::DisableMcpServer(DisableMcpServer { server: server() }),
            McpAsk::SetMcpAppContext(SetMcpAppContext { context: Json::from(json!({ "theme": "dark" })) }),
            McpAsk::SupplyMcpTokens(SupplyMcpTokens { supplied: true }),
            McpAsk::SupplyMcpHeaders(SupplyMcpHeaders {}),
        ];
        let mut settings = Settings::default();
        asks.iter().filter_map(McpAsk::settings_edit).for_each(|edit| settings.apply(edit));
        assert!(settings.mcp_servers.contains_key("s"));
        assert_eq!(settings.stopped_mcp_servers, ["s"]);
        assert_eq!(settings.disabled_mcp_servers, ["s"]);
        assert!(settings.app_context.is_some() && settings.supplies_tokens && settings.supplies_headers);
        let enabled = McpAsk::EnableMcpServer(EnableMcpServer { server: server() }).settings_edit();
        settings.apply(enabled.unwrap());
        assert!(settings.disabled_mcp_servers.is_empty() && settings.stopped_mcp_servers.is_empty());
        let reads = [
            McpAsk::ListMcpServers(ListMcpServers {}),
            McpAsk::ReloadMcpServers(ReloadMcpServers {}),
            McpAsk::GetMcpAppContext(GetMcpAppContext {}),
        ];
        assert!(reads.iter().all(|ask| ask.settings_edit().is_none()));
    }

    #[test]
    fn every_text_of_a_reply_is_reached() {
        let server = McpServer {
            name: "a".into(),
            status: "b".into(),
            source: Some("c".into()),
            transport: None,
            error: Some("d".into()),
        };
        let problem = McpProblem { timestamp: 1, message: Some("e".into()) };
        let failed_servers = BTreeMap::from([("x".to_owned(), problem)]);
        let host = McpConnections { failed_servers, ..McpConnections::default() };
        let mut reply = McpReply::ListMcpServers(Box::new(McpServers { servers: vec![server], host }));
        let mut seen = String::new();
        reply.each_text(&mut |text| seen.push_str(text));
        assert_eq!(seen, "abcde");
        let result = json!({ "content": [{ "text": "f" }], "n": 1 });
        McpReply::CallMcpTool(Box::new(result)).each_text(&mut |text| seen.push_str(text));
        assert_eq!(seen, "abcdef");
    }
}
