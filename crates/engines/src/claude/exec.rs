//! `claude -p --output-format stream-json`: one process for a prompt. What it may not do without asking, it does not do.

use serde_json::Value;

use super::common_args;
use super::messages::Messages;
use crate::dialect::{Dialect, Launch, Opening, Step, Steps};
use crate::json::{list, text};

#[derive(Debug, Default)]
pub(crate) struct ClaudeExec {
    messages: Messages,
}

impl Dialect for ClaudeExec {
    fn name(&self) -> &'static str {
        "claude -p"
    }

    fn has_forgotten(&self, why: &str) -> bool {
        super::has_forgotten(why)
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        self.messages = Messages::new(opening.spec);
        let mut args: Vec<String> =
            ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).into();
        if opening.spec.allow_all {
            args.push("--dangerously-skip-permissions".to_owned());
        }
        args.extend(common_args(opening));
        let environment = vec![("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1")];
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        steps.push(Step::SayAll(prompt.to_owned()));
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        if let Some(ending) = self.messages.hear(line, steps) {
            for denied in list(line, "/permission_denials") {
                let tool = text(denied, "/tool_name").unwrap_or("a tool");
                steps.warn(format!("claude was not allowed to use {tool}, and there was nobody to ask."));
            }
            steps.end(ending);
        }
    }
}
