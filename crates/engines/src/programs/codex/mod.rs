//! Codex: `codex app-server` for conversations, `codex exec` for single prompts.

mod app_server;
mod approvals;
mod exec;
mod items;

use baton_protocol::event::AssistantUsage;
use baton_protocol::sandbox::SandboxLevel;
use serde_json::{Value, json};

use self::app_server::CodexAppServer;
use self::exec::CodexExec;
use crate::adapter::LaunchContext;
use crate::json::number;
use crate::login::{Credentials, NO_CREDENTIALS};
use crate::program::{Keys, ProgramInfo};
use crate::retry::Retry;
use crate::{Mode, Report, ThreadSpec};

/// Facts about codex.
pub(super) const INFO: ProgramInfo = ProgramInfo {
    name: "codex",
    command: "codex",
    install: "Install it with `npm install -g @openai/codex`.",
    login: LOGIN,
    keys: Keys::Own(&["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"]),
    credentials: |mode| {
        Some(Credentials {
            directory: ("CODEX_HOME", ".codex"),
            files: &[
                ("auth.json", &[]),
                // A configured provider or address may need no login, and credentials can be in a keyring.
                ("config.toml", &["model_provider", "oss", "openai_base_url", "cli_auth_credentials_store"]),
            ],
            variables: match mode {
                Mode::Interactive => &[],
                Mode::Exec => &["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
            },
            without: NO_CREDENTIALS,
        })
    },
    project_files: &[".codex"],
    variable_files: &[],
    user_files: &[],
    state: &[".codex"],
    oldest: [0, 100, 0],
    reserved_args: &[
        "--json",
        "--skip-git-repo-check",
        "--output-schema",
        "--output-last-message",
        "--color",
        "-o",
    ],
    adapter: |_, mode| match mode {
        Mode::Interactive => Box::<CodexAppServer>::default(),
        Mode::Exec => Box::<CodexExec>::default(),
    },
};

/// How to log in, in sentences.
const LOGIN: &str = "Log in with `codex login`, or pass a key to `codex login --with-api-key`.";

/// Start of the messages with which codex announces that it repeats a model call.
const RECONNECTING: &str = "Reconnecting... ";

/// Returns codex's name of the sandbox that somebody chose for the session.
fn chosen_sandbox(spec: &ThreadSpec) -> Option<&'static str> {
    match spec.sandbox? {
        SandboxLevel::ReadOnly => Some("read-only"),
        SandboxLevel::Workspace => Some("workspace-write"),
        SandboxLevel::Off => None,
    }
}

/// Returns the arguments that both modes put before the subcommand.
fn common_args(context: &LaunchContext<'_>) -> Vec<String> {
    let mut args = context.settings.extra_args.clone();
    if let Some(effort) = &context.spec.reasoning_effort {
        args.extend(["-c".to_owned(), format!("model_reasoning_effort={effort}")]);
    }
    if let Some(tools) = &context.spec.tools {
        // A text of JSON is one of TOML, too, and so is a list of texts.
        let server = format!("mcp_servers.{}", tools.name);
        for setting in [
            format!("{server}.command={}", json!(tools.program)),
            format!("{server}.args={}", json!(tools.args)),
            format!("{server}.default_tools_approval_mode=\"approve\""),
        ] {
            args.extend(["-c".to_owned(), setting]);
        }
    }
    args
}

/// Reports a retry. `exec` announces `Reconnecting... 2/5 (reason)`; `app-server` puts the reason into the details.
fn retry(message: &str, details: Option<&str>, status: Option<u64>) -> Report {
    let (count, rest) = numbered(message.strip_prefix(RECONNECTING).unwrap_or(message));
    let reason = match (details, rest) {
        (Some(details), "") => details.to_owned(),
        (Some(details), rest) => format!("{rest}: {details}"),
        (None, "") => "the model call failed".to_owned(),
        (None, rest) => rest.to_owned(),
    };
    Retry { program: "codex", reason: &reason, status, attempt: count, ..Retry::default() }.report()
}

/// Splits `2/5 (reason)` into numbers and reason. Anything else is a reason.
fn numbered(announced: &str) -> (Option<(u64, u64)>, &str) {
    let (count, reason) = announced.split_once(' ').unwrap_or((announced, ""));
    let numbers =
        count.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some(numbers) => {
            (Some(numbers), reason.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(reason))
        }
        None => (None, announced),
    }
}

/// Token counts. `exec` and `app-server` spell their names differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

impl Counts {
    fn read(usage: &Value) -> Self {
        let count =
            |camel: &str, snake: &str| number(usage, camel).or_else(|| number(usage, snake)).unwrap_or(0);
        Self {
            input: count("/inputTokens", "/input_tokens"),
            cached: count("/cachedInputTokens", "/cached_input_tokens"),
            cache_write: count("/cacheWriteInputTokens", "/cache_write_input_tokens"),
            output: count("/outputTokens", "/output_tokens"),
            reasoning: count("/reasoningOutputTokens", "/reasoning_output_tokens"),
        }
    }

    /// Returns the tokens that were used since `earlier`.
    fn since(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            cached: self.cached.saturating_sub(earlier.cached),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
            output: self.output.saturating_sub(earlier.output),
            reasoning: self.reasoning.saturating_sub(earlier.reasoning),
        }
    }

    fn usage(self, model: &str) -> AssistantUsage {
        AssistantUsage {
            model: model.to_owned(),
            input_tokens: Some(self.input),
            output_tokens: Some(self.output),
            cache_read_tokens: Some(self.cached),
            cache_write_tokens: Some(self.cache_write),
            reasoning_tokens: Some(self.reasoning),
            ..AssistantUsage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_of_retries_are_read() {
        let shown = |message: &str, details| {
            let Report::Retries(failure) = retry(message, details, Some(401)) else { panic!("not a retry") };
            assert_eq!(failure.status_code, Some(401));
            failure.error_message.unwrap_or_default()
        };
        assert_eq!(shown("Reconnecting... 2/5 (no route)", None), "codex: no route (2 of 5).");
        assert_eq!(shown("Reconnecting... 2/5", Some("no route")), "codex: no route (2 of 5).");
        let waiting = shown("Reconnecting... waiting for network", Some("no route"));
        assert_eq!(waiting, "codex: waiting for network: no route.");
        assert_eq!(shown("Reconnecting... x/5", None), "codex: x/5.");
        assert_eq!(shown("Reconnecting... 1/5", None), "codex: the model call failed (1 of 5).");
        assert_eq!(shown("", None), "codex: the model call failed.");
    }
}
