//! What goes on in a session, in words for a terminal.

use baton_protocol::event::ToolStart;
use baton_protocol::permission::PermissionRequest;

/// A tool call, in a line.
pub(crate) fn call(start: &ToolStart) -> String {
    let arguments = start.arguments.as_ref().map(|json| json.as_str()).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let telling = ["command", "path", "pattern", "url", "query", "question"];
    let detail = telling.iter().find_map(|key| value.get(key)?.as_str()).unwrap_or(arguments);
    let short: String = detail.lines().next().unwrap_or_default().chars().take(100).collect();
    format!("{} {short}", start.tool_name)
}

/// What somebody wants to be allowed, as in "allow …?".
pub(crate) fn wish(wants: &PermissionRequest) -> String {
    match wants {
        PermissionRequest::Shell { full_command_text, .. } => format!("running `{full_command_text}`"),
        PermissionRequest::Write { file_name, diff, .. } => format!("changing {file_name}\n{diff}\n"),
        PermissionRequest::Read { path, .. } => format!("reading {path}"),
        PermissionRequest::Url { url, .. } => format!("fetching {url}"),
        PermissionRequest::CustomTool { tool_name, .. } => format!("the tool {tool_name}"),
        PermissionRequest::Mcp { server_name, tool_name, .. } => format!("{tool_name} of {server_name}"),
        PermissionRequest::Memory { .. } => "remembering something".into(),
        PermissionRequest::Hook { tool_name, .. } => format!("{tool_name}, which a hook wants you to decide"),
    }
}
