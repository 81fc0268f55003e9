//! MCP servers.

use std::collections::BTreeMap;

use baton_addons::mcp::CatalogueEntry;
use baton_ask::mcp::McpServerOverview;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// An MCP server of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServerView {
    pub(crate) name: String,
    /// `connected`, `pending`, `failed`, `needs-auth`, `disabled`, `stopped` or `not_configured`.
    pub(crate) status: String,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// Who declared it: `user`, `workspace` or `plugin`; absent for the session itself.
    pub(crate) source: Option<String>,
    /// `stdio`, `http` or `sse`; absent if the configuration cannot be used.
    pub(crate) transport: Option<String>,
    /// Whether the session uses it.
    pub(crate) enabled: bool,
    pub(crate) tool_count: usize,
    /// Its tools, if it is connected. Texts are the server's own.
    pub(crate) tools: Vec<McpToolView>,
}

/// A tool of an MCP server. Titles, descriptions and hints are the server's own words.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpToolView {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// Whether the server says that the tool changes nothing.
    pub(crate) read_only_hint: bool,
    /// Name under which models are offered it; absent if they are not.
    pub(crate) offered_as: Option<String>,
}

impl From<McpServerOverview> for McpServerView {
    fn from(server: McpServerOverview) -> Self {
        let view = |tool: baton_ask::mcp::McpToolOverview| McpToolView {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            read_only_hint: tool.read_only_hint,
            offered_as: tool.offered_as,
        };
        Self {
            name: server.name,
            status: server.status,
            error: server.error,
            source: server.source,
            transport: server.transport,
            enabled: server.enabled,
            tool_count: server.tools.len(),
            tools: server.tools.into_iter().map(view).collect(),
        }
    }
}

/// MCP servers of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct McpServerList {
    pub(crate) servers: Vec<McpServerView>,
}

/// Query of the list of a session's servers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct McpListQuery {
    /// Connect to all servers first, and wait for them; needs the role `driver`. Default: servers start with the next prompt.
    #[serde(default)]
    pub(crate) start: bool,
}

/// Newest lines of a server's log: its standard error, its log messages, and what happened to its connection.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct McpLog {
    pub(crate) lines: Vec<String>,
}

/// Query of lists that servers divide into pages.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct McpPageQuery {
    /// `nextCursor` of the previous page.
    pub(crate) cursor: Option<String>,
}

/// Query of one resource.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct McpResourceQuery {
    /// URI of the resource.
    pub(crate) uri: String,
}

/// Arguments of a prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpPromptArguments {
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, String>,
}

/// An MCP server outside of sessions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpEntryView {
    pub(crate) name: String,
    /// Who declared it: `user`, `workspace` or `plugin`.
    pub(crate) source: Option<String>,
    /// File of a workspace that declares it.
    pub(crate) file: Option<String>,
    /// Whether new sessions use it.
    pub(crate) enabled: bool,
    /// Whether it may be started: files of a workspace need the user's approval.
    pub(crate) trusted: bool,
    /// `stdio`, `http` or `sse`; absent if the configuration cannot be used.
    pub(crate) transport: Option<String>,
    /// Why the configuration cannot be used.
    pub(crate) problem: Option<String>,
}

impl McpEntryView {
    pub(crate) fn new(name: String, entry: &CatalogueEntry) -> Self {
        let declared = &entry.chosen.declared;
        Self {
            name,
            source: declared.origin.source().map(str::to_owned),
            file: declared.origin.file().map(|file| file.display().to_string()),
            enabled: entry.enabled,
            trusted: !entry.is_pending(),
            transport: declared.config.as_ref().ok().map(|config| config.transport().to_owned()),
            problem: declared.config.as_ref().err().map(|error| error.problem.clone()),
        }
    }
}

/// MCP servers outside of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct McpCatalogue {
    pub(crate) servers: Vec<McpEntryView>,
}

/// Query of the servers outside of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct McpCatalogueQuery {
    /// Include servers that files of this directory declare.
    pub(crate) cwd: Option<String>,
}

/// A server to add for all sessions of the user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMcpServer {
    pub(crate) name: String,
    /// Configuration, as in `mcpServers`: `command`, `args`, `env`, or `type`, `url`, `headers`; `tools`, `timeout`.
    #[schema(value_type = Object)]
    pub(crate) config: Map<String, Value>,
}
