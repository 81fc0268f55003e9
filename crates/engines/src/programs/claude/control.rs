//! The control protocol of claude: one process for each conversation, which receives messages and asks for permissions.
//!
//! A message that arrives while claude works is consumed at the next step of the running turn, or starts a turn after
//! it. Claude replays a message when it consumes it. So every message has an id, and a run is over when there is a
//! result and every message was consumed.

use std::collections::HashSet;

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};
use uuid::Uuid;

use super::approvals::{self, Approvals};
use super::common_args;
use super::messages::Messages;
use crate::adapter::{Adapter, Launch, LaunchContext, RunEnding, Steps};
use crate::json::text;

const ARGS: [&str; 9] = [
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--include-partial-messages",
    "--replay-user-messages",
];

#[derive(Debug, Default)]
pub(crate) struct ClaudeControl {
    messages: Messages,
    approvals: Approvals,
    /// The id of the prompt, until claude consumes it.
    prompt: Option<String>,
    /// The ids of steering messages that claude has not consumed yet.
    steers: HashSet<String>,
    running: bool,
}

impl Adapter for ClaudeControl {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn is_unknown_conversation(&self, error: &str) -> bool {
        super::is_unknown_conversation(error)
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        *self = Self { messages: Messages::new(context.spec), ..Self::default() };
        self.approvals.cwd.clone_from(&context.spec.cwd);
        let args = ARGS.map(str::to_owned).into_iter().chain(common_args(context)).collect();
        // A grant for a command line covers it in this directory, so a command must not change the directory of later
        // ones.
        let environment = vec![("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1")];
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.running = true;
        self.prompt = Some(send(prompt, steps));
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        match text(line, "/type").unwrap_or_default() {
            "control_request" => {
                let id = text(line, "/request_id").unwrap_or_default();
                if self.running {
                    self.approvals.on_request(id, &line["request"], steps);
                } else {
                    // Claude continues by itself after a run, for example when a background command finishes.
                    approvals::refuse(id, "No prompt is running. Wait for the next one.", steps);
                }
            }
            "control_cancel_request" => {
                self.approvals.withdraw(text(line, "/request_id").unwrap_or_default(), steps);
            }
            "control_response" => {}
            "user" if line["isReplay"] == true => self.on_replay(text(line, "/uuid").unwrap_or_default()),
            _ if self.running => {
                if let Some(ending) = self.messages.receive(line, steps) {
                    self.on_result(ending, steps);
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        let denied = self.approvals.decide(reference, verdict, steps);
        self.messages.denied.extend(denied);
    }

    fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        self.approvals.answer(reference, answer, steps);
    }

    fn steer(&mut self, text: &str, steps: &mut Steps) -> bool {
        // A claude that has not replayed the prompt might not replay this message either.
        let can_steer = self.running && self.prompt.is_none();
        if can_steer {
            let id = send(text, steps);
            self.steers.insert(id);
        }
        can_steer
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        // A message that is not consumed yet would start a turn after the interrupt.
        let can_interrupt = self.steers.is_empty();
        if can_interrupt {
            let request = json!({"subtype": "interrupt"});
            steps.send(&json!({"type": "control_request", "request_id": Uuid::new_v4(), "request": request}));
        }
        can_interrupt
    }
}

impl ClaudeControl {
    /// Handles the replay of a message that claude has consumed.
    fn on_replay(&mut self, id: &str) {
        self.steers.remove(id);
        self.prompt.take_if(|prompt| prompt == id);
    }

    fn on_result(&mut self, ending: RunEnding, steps: &mut Steps) {
        // Messages that are not consumed yet start the next turn, which belongs to this run.
        if ending != RunEnding::Interrupted && !self.steers.is_empty() {
            if let RunEnding::Failed(reason) = ending {
                steps.warn(reason);
            }
            return;
        }
        self.running = false;
        self.prompt = None;
        self.approvals.clear();
        steps.end(ending);
    }
}

/// Sends a message. Returns its id.
fn send(text: &str, steps: &mut Steps) -> String {
    let id = Uuid::new_v4().to_string();
    let message = json!({"role": "user", "content": text});
    steps.send(&json!({"type": "user", "message": message, "uuid": id}));
    id
}
