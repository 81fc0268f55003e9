//! `codex exec --json`: one process for a prompt, which answers in events and cannot be asked anything.
//!
//! Two things are worth knowing. A command that its sandbox refuses leaves no trace at all in what it prints. And tokens
//! are counted over the whole thread, so that what a turn used is a difference.

use serde_json::Value;

use super::items::Items;
use super::{Counts, common_args};
use crate::Report;
use crate::dialect::{Dialect, Ending, Launch, Opening, Step, Steps};
use crate::json::{readable, text};

#[derive(Debug, Default)]
pub(crate) struct CodexExec {
    /// How many processes there were; each of them counts its items from 0.
    launches: u64,
    model: String,
    items: Items,
    /// What the thread had used before this turn, if that is known.
    used: Option<Counts>,
}

impl Dialect for CodexExec {
    fn name(&self) -> &'static str {
        "codex exec"
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        self.launches += 1;
        self.model = opening.spec.model.clone().unwrap_or_else(|| "codex".to_owned());
        if opening.token.is_none() {
            self.used = Some(Counts::default());
        }
        let mut args = common_args(opening);
        if let Some(model) = &opening.spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        args.extend(["exec", "--json", "--skip-git-repo-check", "--color=never"].map(str::to_owned));
        // Not the flag that bypasses everything: that one also makes the directory a trusted one, for ever.
        let sandbox = if opening.spec.allow_all { Some("danger-full-access") } else { None };
        if let Some(sandbox) = sandbox.or(opening.settings.sandbox.as_deref()) {
            args.extend(["--sandbox".to_owned(), sandbox.to_owned()]);
        }
        if let Some(token) = opening.token {
            args.extend(["resume".to_owned(), token.0.clone()]);
        }
        args.push("-".to_owned());
        Launch { args, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.items = Items::default();
        steps.push(Step::SayAll(prompt.to_owned()));
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        let item = &line["item"];
        let id = || format!("{}-{}", self.launches, text(item, "/id").unwrap_or("item"));
        match text(line, "/type").unwrap_or_default() {
            "thread.started" => {
                if let Some(thread) = text(line, "/thread_id") {
                    steps.named(thread, None);
                }
            }
            "turn.started" => self.items = Items::default(),
            "turn.completed" => {
                self.count(&line["usage"], steps);
                steps.end(Ending::Completed);
            }
            "turn.failed" => {
                let why = text(line, "/error/message").unwrap_or("codex gave no reason.");
                steps.fail(readable(why));
            }
            "error" => tell_error(text(line, "/message").unwrap_or_default(), steps),
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

    fn at_exit(&self) -> Ending {
        if self.items.has_message {
            return Ending::Completed;
        }
        Ending::Failed("codex exec ended without an answer.".to_owned())
    }
}

impl CodexExec {
    fn count(&mut self, usage: &Value, steps: &mut Steps) {
        let total = Counts::read(usage);
        // Without knowing what was used before, nothing is better than too much.
        if let Some(before) = self.used.replace(total) {
            steps.report(Report::Usage(Box::new(total.since(before).usage(&self.model))));
        }
    }
}

/// Codex tells of its own retries as of errors: `Reconnecting... 1/5 (reason)`.
fn tell_error(message: &str, steps: &mut Steps) {
    if message.starts_with("Reconnecting...") {
        steps.note(message);
    } else {
        steps.warn(readable(message));
    }
}
