//! Views of a session's servers for doors other than the SDKs'.

use std::sync::Arc;

use baton_mcp::{Host, Server, ServerStatus};
use serde::{Deserialize, Serialize};

/// A server of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerOverview {
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
    pub tools: Vec<ToolOverview>,
}

/// A tool of a server. Everything in it is the server's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOverview {
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

/// Describes the servers of a session.
pub(super) fn overview(host: &Host) -> Vec<ServerOverview> {
    let offered = host.offered();
    let offered_as = |server: &Arc<Server>, tool: &str| {
        let is_it =
            |known: &&baton_mcp::OfferedTool| Arc::ptr_eq(&known.server, server) && known.tool.name == tool;
        offered.iter().find(is_it).map(|known| known.name.clone())
    };
    let describe = |listed: baton_mcp::Listed| {
        let server = host.server(&listed.name);
        let tools = server.iter().flat_map(|server| {
            let tools = server.tools();
            let view = |tool: &Arc<baton_mcp::RemoteTool>| ToolOverview {
                name: tool.name.clone(),
                title: tool.title.clone(),
                description: tool.description.clone(),
                read_only_hint: tool.read_only_hint,
                offered_as: offered_as(server, &tool.name),
            };
            tools.iter().map(view).collect::<Vec<_>>()
        });
        ServerOverview {
            tools: tools.collect(),
            status: listed.status.as_str().to_owned(),
            error: listed.status.error().map(str::to_owned),
            enabled: listed.status != ServerStatus::Disabled,
            source: listed.source,
            transport: listed.transport.map(str::to_owned),
            name: listed.name,
        }
    };
    host.list().into_iter().map(describe).collect()
}
