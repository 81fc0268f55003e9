//! The control protocol of claude: one process for a conversation, which is sent messages and asks for permissions.
//!
//! A message that arrives while claude works is taken at the next step of the running turn, or becomes a turn of its own
//! after it. Which of the two is told by its replay: so every message has an id, and a run is over when there is a result
//! and nothing that was said is still to be taken.

use std::collections::HashSet;

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};
use uuid::Uuid;

use super::approvals::{self, Approvals};
use super::common_args;
use super::messages::Messages;
use crate::dialect::{Dialect, Ending, Launch, Opening, Steps};
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
    /// The prompt that was sent, until it is taken.
    prompt: Option<String>,
    /// What was said in the middle and is not taken yet.
    steers: HashSet<String>,
    running: bool,
}

impl Dialect for ClaudeControl {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn has_forgotten(&self, why: &str) -> bool {
        super::has_forgotten(why)
    }

    fn stays(&self) -> bool {
        true
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        *self = Self { messages: Messages::new(opening.spec), ..Self::default() };
        self.approvals.cwd.clone_from(&opening.spec.cwd);
        let args = ARGS.map(str::to_owned).into_iter().chain(common_args(opening)).collect();
        // A grant for a line is one for it in this directory: commands do not move the ones after them.
        let environment = vec![("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1")];
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.running = true;
        self.prompt = Some(send(prompt, steps));
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        match text(line, "/type").unwrap_or_default() {
            "control_request" => {
                let id = text(line, "/request_id").unwrap_or_default();
                if self.running {
                    self.approvals.asked(id, &line["request"], steps);
                } else {
                    // It goes on by itself after a run, for example when something in the background is done.
                    approvals::refuse(id, "Nobody has asked for this. Wait for the next prompt.", steps);
                }
            }
            "control_cancel_request" => {
                self.approvals.withdrawn(text(line, "/request_id").unwrap_or_default(), steps);
            }
            "control_response" => {}
            "user" if line["isReplay"] == true => self.taken(text(line, "/uuid").unwrap_or_default()),
            _ if self.running => {
                if let Some(ending) = self.messages.hear(line, steps) {
                    self.result(ending, steps);
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

    fn steer(&mut self, said: &str, steps: &mut Steps) -> bool {
        // One that does not tell what it takes could not be trusted to have taken this.
        let can = self.running && self.prompt.is_none();
        if can {
            let id = send(said, steps);
            self.steers.insert(id);
        }
        can
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        // What is still to be taken would be a turn of its own after the interrupt.
        let can = self.steers.is_empty();
        if can {
            let request = json!({"subtype": "interrupt"});
            steps.say(&json!({"type": "control_request", "request_id": Uuid::new_v4(), "request": request}));
        }
        can
    }
}

impl ClaudeControl {
    fn taken(&mut self, id: &str) {
        self.steers.remove(id);
        self.prompt.take_if(|prompt| prompt == id);
    }

    fn result(&mut self, ending: Ending, steps: &mut Steps) {
        // What it has not taken yet is its next turn, and belongs to this run.
        if ending != Ending::Interrupted && !self.steers.is_empty() {
            if let Ending::Failed(why) = ending {
                steps.warn(why);
            }
            return;
        }
        self.running = false;
        self.prompt = None;
        self.approvals.forget();
        steps.end(ending);
    }
}

/// Sends a message, and returns its id.
fn send(said: &str, steps: &mut Steps) -> String {
    let id = Uuid::new_v4().to_string();
    let message = json!({"role": "user", "content": said});
    steps.say(&json!({"type": "user", "message": message, "uuid": id}));
    id
}
