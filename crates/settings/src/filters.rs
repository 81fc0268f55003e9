//! Filters of tools: a tool, all of a kind (`builtin:*`), or everything (`*`).

/// Origin of a tool, for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind<'a> {
    /// Built into the server.
    BuiltIn,
    /// Executed by a client.
    Client,
    /// A tool of an MCP server.
    Mcp {
        /// Name of the server.
        server: &'a str,
        /// Name of the tool on the server.
        tool: &'a str,
    },
}

/// Whether a filter names a tool.
pub(super) fn filter_matches(filter: &str, name: &str, kind: ToolKind<'_>) -> bool {
    let (is_of_kind, pattern) = match filter.split_once(':') {
        Some(("builtin", pattern)) => (kind == ToolKind::BuiltIn, pattern),
        Some(("custom", pattern)) => (kind == ToolKind::Client, pattern),
        Some(("mcp", pattern)) => (matches!(kind, ToolKind::Mcp { .. }), pattern),
        _ => (true, filter),
    };
    is_of_kind && (pattern == "*" || pattern == name || is_on_server(pattern, kind))
}

/// Whether a pattern names a tool of an MCP server: `server/tool` or `server/*`.
fn is_on_server(pattern: &str, kind: ToolKind<'_>) -> bool {
    let ToolKind::Mcp { server, tool } = kind else { return false };
    let rest = pattern.strip_prefix(server).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| rest == "*" || rest == tool)
}
