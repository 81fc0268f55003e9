//! Claude Code: its control protocol for conversations, `claude -p` for single prompts. Both print the same messages.

mod approvals;
mod control;
mod exec;
mod messages;

pub(crate) use control::ClaudeControl;
pub(crate) use exec::ClaudeExec;

use serde_json::json;

use crate::adapter::LaunchContext;

/// Whether this is the error for a conversation that claude was asked to resume and does not know.
fn is_unknown_conversation(error: &str) -> bool {
    error.contains("No conversation found")
}

/// Returns the arguments that both modes append to their own.
fn common_args(context: &LaunchContext<'_>) -> Vec<String> {
    let mut args = context.args("--resume", "--model", "--effort");
    if let Some(tools) = &context.spec.tools {
        let server = json!({"type": "stdio", "command": tools.program, "args": tools.args});
        let config = json!({"mcpServers": {tools.name.as_str(): server}});
        args.extend(["--mcp-config".to_owned(), config.to_string()]);
        args.extend(["--allowedTools".to_owned(), format!("mcp__{}", tools.name)]);
    }
    args
}
