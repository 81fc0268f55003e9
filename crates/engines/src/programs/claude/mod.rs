//! Claude Code: its control protocol for conversations, `claude -p` for single prompts. Both print the same messages.

mod approvals;
mod control;
mod exec;
mod messages;

use serde_json::json;

use self::control::ClaudeControl;
use self::exec::ClaudeExec;
use crate::Mode;
use crate::adapter::LaunchContext;
use crate::login::{Credentials, NO_CREDENTIALS};
use crate::program::{Keys, ProgramInfo};

/// Facts about Claude Code.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "claude",
    command: "claude",
    install: "Install it with `npm install -g @anthropic-ai/claude-code`.",
    login: "Log in by running `claude` once, or set ANTHROPIC_API_KEY.",
    keys: Keys::Own(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]),
    // On other systems it uses the keychain.
    credentials: |_| cfg!(target_os = "linux").then_some(CREDENTIALS),
    project_files: &[".claude", ".mcp.json"],
    variable_files: &[],
    user_files: &[".claude.json"],
    state: &[".claude", ".claude.json"],
    oldest: [2, 0, 0],
    reserved_args: &[
        "-p",
        "--print",
        "--input-format",
        "--output-format",
        "--permission-prompt-tool",
        "--resume",
        "-r",
        "--continue",
        "-c",
        "--session-id",
        "--fork-session",
    ],
    adapter: |_, mode| match mode {
        Mode::Interactive => Box::<ClaudeControl>::default(),
        Mode::Exec => Box::<ClaudeExec>::default(),
    },
};

const CREDENTIALS: Credentials = Credentials {
    directory: ("CLAUDE_CONFIG_DIR", ".claude"),
    files: &[(".credentials.json", &[]), ("settings.json", &["apiKeyHelper", "ANTHROPIC_"])],
    variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
    without: NO_CREDENTIALS,
};

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
