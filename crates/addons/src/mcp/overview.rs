//! Views of a session's servers for doors other than the SDKs'.

use std::sync::Arc;

use baton_ask::mcp::{McpServerOverview, McpToolOverview};
use baton_mcp::{Host, Server, ServerStatus};

/// Describes the servers of a session.
pub(super) fn overview(host: &Host) -> Vec<McpServerOverview> {
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
            let view = |tool: &Arc<baton_mcp::RemoteTool>| McpToolOverview {
                name: tool.name.clone(),
                title: tool.title.clone(),
                description: tool.description.clone(),
                read_only_hint: tool.read_only_hint,
                offered_as: offered_as(server, &tool.name),
            };
            tools.iter().map(view).collect::<Vec<_>>()
        });
        McpServerOverview {
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
