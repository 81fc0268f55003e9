//! `codex exec --json`: one process for each prompt, which prints events and takes no input besides the prompt.
//!
//! Two peculiarities: a command that the sandbox refuses leaves no trace in the output, and tokens are counted over the
//! whole thread, so the usage of a turn is a difference.

use serde_json::Value;

use super::items::Items;
use super::{Counts, RECONNECTING, common_args, retry};
use crate::Report;
use crate::adapter::{Adapter, Launch, LaunchContext, RunEnding, Step, Steps};
use crate::json::{readable, text};

#[derive(Debug, Default)]
pub(crate) struct CodexExec {
    /// The number of processes so far. Each of them numbers its items from 0.
    launches: u64,
    model: String,
    items: Items,
    /// The usage of the thread before this turn, if it is known.
    used: Option<Counts>,
}

impl Adapter for CodexExec {
    fn name(&self) -> &'static str {
        "codex exec"
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        self.launches += 1;
        self.model = context.spec.model.clone().unwrap_or_else(|| "codex".to_owned());
        if context.token.is_none() {
            self.used = Some(Counts::default());
        }
        let mut args = common_args(context);
        if let Some(model) = &context.spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        args.extend(["exec", "--json", "--skip-git-repo-check", "--color=never"].map(str::to_owned));
        // Not the flag that bypasses everything: it also marks the directory as trusted, permanently.
        let sandbox = if context.spec.allow_all { Some("danger-full-access") } else { None };
        let sandbox = super::chosen_sandbox(context.spec).or(sandbox);
        if let Some(sandbox) = sandbox.or(context.settings.sandbox.as_deref()) {
            args.extend(["--sandbox".to_owned(), sandbox.to_owned()]);
        }
        if let Some(token) = context.token {
            args.extend(["resume".to_owned(), token.0.clone()]);
        }
        args.push("-".to_owned());
        Launch { args, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.items = Items::default();
        steps.push(Step::SendAndClose(prompt.to_owned()));
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        let item = &line["item"];
        let id = || format!("{}-{}", self.launches, text(item, "/id").unwrap_or("item"));
        match text(line, "/type").unwrap_or_default() {
            "thread.started" => {
                if let Some(thread) = text(line, "/thread_id") {
                    steps.identified(thread, None);
                }
            }
            "turn.started" => self.items = Items::default(),
            "turn.completed" => {
                self.report_usage(&line["usage"], steps);
                steps.end(RunEnding::Completed);
            }
            "turn.failed" => {
                let reason = text(line, "/error/message").unwrap_or("codex gave no reason.");
                steps.fail(readable(reason));
            }
            "error" => report_error(text(line, "/message").unwrap_or_default(), steps),
            "item.started" | "item.updated" if item["type"] == "todo_list" => {
                self.items.completed(&id(), item, steps);
            }
            "item.started" => self.items.started(&id(), item, steps),
            "item.completed" => {
                let id = id();
                self.items.completed(&id, item, steps);
            }
            _ => {}
        }
    }

    fn ending_at_exit(&self) -> RunEnding {
        if self.items.has_message {
            return RunEnding::Completed;
        }
        RunEnding::Failed("codex exec ended without an answer.".to_owned())
    }
}

impl CodexExec {
    fn report_usage(&mut self, usage: &Value, steps: &mut Steps) {
        let total = Counts::read(usage);
        // Without the earlier usage the difference is unknown; reporting nothing is better than reporting too much.
        if let Some(before) = self.used.replace(total) {
            steps.report(Report::Usage(Box::new(total.since(before).usage(&self.model))));
        }
    }
}

/// Reports an error event. Codex announces its retries as errors: `Reconnecting... 1/5 (reason)`.
fn report_error(message: &str, steps: &mut Steps) {
    if message.starts_with(RECONNECTING) {
        steps.report(retry(message, None, None));
    } else {
        steps.warn(readable(message));
    }
}
