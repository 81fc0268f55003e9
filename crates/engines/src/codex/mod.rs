//! Codex: `codex app-server` for conversations, `codex exec` for single prompts.

mod app_server;
mod approvals;
mod exec;
mod items;

pub(crate) use app_server::CodexAppServer;
pub(crate) use exec::CodexExec;

use baton_protocol::event::AssistantUsage;
use serde_json::{Value, json};

use crate::adapter::LaunchContext;
use crate::json::number;

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
