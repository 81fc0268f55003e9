//! `claude -p --output-format stream-json`: one process for each prompt. Claude does not use tools for which it would
//! have to ask.

use serde_json::Value;

use super::common_args;
use super::messages::Messages;
use crate::adapter::{Adapter, Launch, LaunchContext, Step, Steps};
use crate::json::{list, text};

#[derive(Debug, Default)]
pub(crate) struct ClaudeExec {
    messages: Messages,
}

impl Adapter for ClaudeExec {
    fn name(&self) -> &'static str {
        "claude -p"
    }

    fn is_unknown_conversation(&self, error: &str) -> bool {
        super::is_unknown_conversation(error)
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        self.messages = Messages::new(context.spec);
        let mut args: Vec<String> =
            ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).into();
        if context.spec.allow_all {
            args.push("--dangerously-skip-permissions".to_owned());
        }
        args.extend(common_args(context));
        let environment = vec![("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1")];
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        steps.push(Step::SendAndClose(prompt.to_owned()));
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        if let Some(ending) = self.messages.receive(line, steps) {
            for denied in list(line, "/permission_denials") {
                let tool = text(denied, "/tool_name").unwrap_or("a tool");
                steps.warn(format!(
                    "claude was not allowed to use {tool}; in exec mode it cannot ask for permission."
                ));
            }
            steps.end(ending);
        }
    }
}
