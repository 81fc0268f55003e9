//! `pi --mode rpc`: a process for a conversation, which takes commands and prints events.
//!
//! Pi does not say when a prompt is done: after the end of the agent's work it may try again, or summarise the
//! conversation and go on. So it is asked for its state after each end. Its answer comes after whatever pi has begun by
//! then, and tells whether it is idle.

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};

use super::common_args;
use super::events::Events;
use super::questions::{EXTENSION, Questions};
use crate::dialect::{Dialect, Ending, Launch, Opening, Steps};
use crate::json::{number, text};

#[derive(Debug, Default)]
pub(crate) struct PiRpc {
    events: Events,
    questions: Questions,
    was_resumed: bool,
    session: Option<String>,
    model: Option<String>,
    running: bool,
    /// Prompts that pi has not accepted yet.
    unaccepted: usize,
    /// The last time that pi was asked for its state.
    asked: u64,
    compacting: bool,
    /// How the agent's work went, unless pi tries again.
    ending: Option<Ending>,
}

impl Dialect for PiRpc {
    fn name(&self) -> &'static str {
        "pi --mode rpc"
    }

    fn stays(&self) -> bool {
        true
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        *self = Self { was_resumed: opening.token.is_some(), ..Self::default() };
        self.questions.cwd.clone_from(&opening.spec.cwd);
        let mut args: Vec<String> = ["--mode", "rpc"].map(str::to_owned).into();
        let mut file = None;
        if !opening.spec.allow_all {
            let path = opening.scratch.join("pi-approvals.ts");
            args.extend(["--extension".to_owned(), path.display().to_string()]);
            file = Some((path, EXTENSION));
        }
        args.extend(common_args(opening));
        Launch { args, file, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.running = true;
        self.ending = None;
        match &self.session {
            Some(session) => steps.named(session, self.model.as_deref()),
            None => self.ask_state(steps),
        }
        self.say(prompt, steps);
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        match text(line, "/type").unwrap_or_default() {
            "response" => self.answered(line, steps),
            "extension_ui_request" if self.running => self.questions.hear(line, steps),
            "extension_ui_request" => Questions::refuse(line, steps),
            _ if self.running => self.happened(line, steps),
            _ => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        let denied = self.questions.decide(reference, verdict, steps);
        self.events.denied.extend(denied);
    }

    fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        self.questions.answer(reference, answer, steps);
    }

    fn steer(&mut self, said: &str, steps: &mut Steps) -> bool {
        let can = self.running && self.unaccepted == 0;
        if can {
            self.say(said, steps);
        }
        can
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let can = self.running && self.unaccepted == 0;
        if can {
            steps.say(&json!({"type": "abort"}));
        }
        can
    }

    fn can_be_resumed(&self) -> bool {
        self.was_resumed || self.events.has_answer
    }
}

impl PiRpc {
    /// Says something to pi: for the turn that runs, if there is one.
    fn say(&mut self, said: &str, steps: &mut Steps) {
        self.unaccepted += 1;
        steps.say(&json!({"type": "prompt", "message": said, "streamingBehavior": "steer"}));
    }

    fn ask_state(&mut self, steps: &mut Steps) {
        self.asked += 1;
        steps.say(&json!({"type": "get_state", "id": self.asked.to_string()}));
    }

    fn answered(&mut self, line: &Value, steps: &mut Steps) {
        let why = || text(line, "/error").unwrap_or("no reason given");
        match text(line, "/command").unwrap_or_default() {
            "get_state" if line["success"] == true => self.state(line, steps),
            "prompt" => {
                self.unaccepted = self.unaccepted.saturating_sub(1);
                if line["success"] != true {
                    self.ending = Some(Ending::Failed(format!("pi refuses to work: {}", why())));
                }
                if self.ending.is_some() {
                    self.ask_state(steps);
                }
            }
            // Whatever it was, pi can go on without.
            command if line["success"] != true => steps.warn(format!("pi does not do {command}: {}", why())),
            _ => {}
        }
    }

    fn state(&mut self, line: &Value, steps: &mut Steps) {
        let state = &line["data"];
        if self.session.is_none() {
            let Some(session) = text(state, "/sessionId") else {
                return steps.fail("pi has opened a conversation without a name.");
            };
            self.session = Some(session.to_owned());
            self.model = text(state, "/model/id").map(str::to_owned);
            return steps.named(session, self.model.as_deref());
        }
        let is_last = text(line, "/id").and_then(|id| id.parse().ok()) == Some(self.asked);
        let is_busy = state["isStreaming"] == true || state["isCompacting"] == true || self.compacting;
        if !is_last || is_busy || self.unaccepted > 0 {
            return;
        }
        if let Some(ending) = self.ending.take() {
            if number(state, "/pendingMessageCount").unwrap_or(0) > 0 {
                steps.warn(
                    "pi was done when it heard the last thing that was said. It comes with the next prompt.",
                );
            }
            self.running = false;
            self.questions.forget();
            steps.end(ending);
        }
    }

    /// Something has happened in a turn.
    fn happened(&mut self, line: &Value, steps: &mut Steps) {
        let ended = self.events.hear(line, steps);
        match text(line, "/type").unwrap_or_default() {
            "agent_end" => self.ending = ended,
            "agent_start" | "auto_retry_start" => self.ending = None,
            "auto_retry_end" if line["success"] != true => {
                let why = text(line, "/finalError").unwrap_or("pi gave no reason.");
                self.ending = Some(Ending::Failed(why.to_owned()));
            }
            "compaction_start" => self.compacting = true,
            "compaction_end" => {
                self.compacting = false;
                if line["willRetry"] == true {
                    self.ending = None;
                }
            }
            _ => return,
        }
        if self.ending.is_some() {
            self.ask_state(steps);
        }
    }
}
