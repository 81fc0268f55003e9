//! `pi --mode rpc`: one process for each conversation, which takes commands and prints events.
//!
//! Pi does not announce the end of a prompt: after the agent's work has ended, pi may retry, or summarise the
//! conversation and continue. So the adapter asks for pi's state after each end. The response follows the events of
//! everything that pi has started by then, and states whether pi is idle.

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};

use super::common_args;
use super::events::Events;
use super::ui_requests::{EXTENSION, UiRequests};
use crate::adapter::{Adapter, Launch, LaunchContext, RunEnding, Steps};
use crate::json::{number, text};

#[derive(Debug, Default)]
pub(crate) struct PiRpc {
    events: Events,
    requests: UiRequests,
    was_resumed: bool,
    session: Option<String>,
    model: Option<String>,
    running: bool,
    /// Prompts that pi has not accepted yet.
    unaccepted: usize,
    /// The id of the last request for pi's state.
    last_state_request: u64,
    compacting: bool,
    /// How the agent's work ended, unless pi retries.
    ending: Option<RunEnding>,
}

impl Adapter for PiRpc {
    fn name(&self) -> &'static str {
        "pi --mode rpc"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        *self = Self { was_resumed: context.token.is_some(), ..Self::default() };
        self.requests.cwd.clone_from(&context.spec.cwd);
        let mut args: Vec<String> = ["--mode", "rpc"].map(str::to_owned).into();
        let mut file = None;
        if !context.spec.allow_all {
            let path = context.scratch.join("pi-approvals.ts");
            args.extend(["--extension".to_owned(), path.display().to_string()]);
            file = Some((path, EXTENSION));
        }
        args.extend(common_args(context));
        Launch { args, file, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.running = true;
        self.ending = None;
        match &self.session {
            Some(session) => steps.identified(session, self.model.as_deref()),
            None => self.request_state(steps),
        }
        self.send_message(prompt, steps);
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        match text(line, "/type").unwrap_or_default() {
            "response" => self.on_response(line, steps),
            "extension_ui_request" if self.running => self.requests.on_request(line, steps),
            "extension_ui_request" => UiRequests::refuse(line, steps),
            _ if self.running => self.on_event(line, steps),
            _ => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        let denied = self.requests.decide(reference, verdict, steps);
        self.events.denied.extend(denied);
    }

    fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        self.requests.answer(reference, answer, steps);
    }

    fn steer(&mut self, message: &str, steps: &mut Steps) -> bool {
        let is_ready = self.running && self.unaccepted == 0;
        if is_ready {
            self.send_message(message, steps);
        }
        is_ready
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let is_ready = self.running && self.unaccepted == 0;
        if is_ready {
            steps.send(&json!({"type": "abort"}));
        }
        is_ready
    }

    fn is_resumable(&self) -> bool {
        self.was_resumed || self.events.has_answer
    }
}

impl PiRpc {
    /// Sends a message to pi, which joins the running turn if there is one.
    fn send_message(&mut self, message: &str, steps: &mut Steps) {
        self.unaccepted += 1;
        steps.send(&json!({"type": "prompt", "message": message, "streamingBehavior": "steer"}));
    }

    fn request_state(&mut self, steps: &mut Steps) {
        self.last_state_request += 1;
        steps.send(&json!({"type": "get_state", "id": self.last_state_request.to_string()}));
    }

    fn on_response(&mut self, line: &Value, steps: &mut Steps) {
        let reason = || text(line, "/error").unwrap_or("no reason given");
        match text(line, "/command").unwrap_or_default() {
            "get_state" if line["success"] == true => self.on_state(line, steps),
            "prompt" => {
                self.unaccepted = self.unaccepted.saturating_sub(1);
                if line["success"] != true {
                    self.ending = Some(RunEnding::Failed(format!("pi refused the prompt: {}", reason())));
                }
                if self.ending.is_some() {
                    self.request_state(steps);
                }
            }
            // Pi continues after the failure of any other command.
            command if line["success"] != true => {
                steps.warn(format!("pi refused the command {command}: {}", reason()));
            }
            _ => {}
        }
    }

    fn on_state(&mut self, line: &Value, steps: &mut Steps) {
        let state = &line["data"];
        if self.session.is_none() {
            let Some(session) = text(state, "/sessionId") else {
                return steps.fail("pi opened a conversation without an id.");
            };
            self.session = Some(session.to_owned());
            self.model = text(state, "/model/id").map(str::to_owned);
            return steps.identified(session, self.model.as_deref());
        }
        let is_last = text(line, "/id").and_then(|id| id.parse().ok()) == Some(self.last_state_request);
        let is_busy = state["isStreaming"] == true || state["isCompacting"] == true || self.compacting;
        if !is_last || is_busy || self.unaccepted > 0 {
            return;
        }
        if let Some(ending) = self.ending.take() {
            if number(state, "/pendingMessageCount").unwrap_or(0) > 0 {
                steps.warn("pi had finished when the last message arrived. It gets it with the next prompt.");
            }
            self.running = false;
            self.requests.clear();
            steps.end(ending);
        }
    }

    /// Handles an event of the running turn.
    fn on_event(&mut self, line: &Value, steps: &mut Steps) {
        let ended = self.events.receive(line, steps);
        match text(line, "/type").unwrap_or_default() {
            "agent_end" => self.ending = ended,
            "agent_start" | "auto_retry_start" => self.ending = None,
            "auto_retry_end" if line["success"] != true => {
                let reason = text(line, "/finalError").unwrap_or("pi gave no reason.");
                self.ending = Some(RunEnding::Failed(reason.to_owned()));
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
            self.request_state(steps);
        }
    }
}
