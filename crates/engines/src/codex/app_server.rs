//! `codex app-server`: a process for a conversation, spoken to in JSON-RPC without the version member.
//!
//! It can serve many threads. We use one process for one conversation all the same: a crash then costs one conversation,
//! and ending a process ends exactly what belongs to it.

use std::collections::{HashMap, HashSet};

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};

use super::approvals::Approvals;
use super::items::{self, Items};
use super::{Counts, common_args};
use crate::Report;
use crate::dialect::{Dialect, Ending, Launch, Opening, Steps};
use crate::json::{list, readable, text};

#[derive(Debug, Default)]
pub(crate) struct CodexAppServer {
    /// How the thread is to be opened: method and parameters.
    opening: Option<(&'static str, Value)>,
    /// The prompt that waits until the thread is open.
    prompt: Option<String>,
    model: String,
    thread: Option<String>,
    /// The turn that runs, once it has a name.
    turn: Option<String>,
    /// Whether a turn runs, or is about to.
    running: bool,
    last_request: u64,
    /// Requests that were not answered yet.
    asked: HashMap<u64, Asked>,
    approvals: Approvals,
    items: Items,
    /// Commands of this turn.
    commands: HashSet<String>,
    /// How the turn ended, while something that was asked is not answered yet.
    ending: Option<Ending>,
}

/// What was asked for.
#[derive(Debug)]
enum Asked {
    Greeting,
    Thread,
    Turn,
    Steer(String),
    Interrupt,
    /// Which commands still run.
    Commands,
    /// The end of one of them.
    CommandEnd,
}

impl Dialect for CodexAppServer {
    fn name(&self) -> &'static str {
        "codex app-server"
    }

    fn stays(&self) -> bool {
        true
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        *self = Self { opening: Some(thread_to_open(opening)), ..Self::default() };
        self.approvals.cwd.clone_from(&opening.spec.cwd);
        let mut args = common_args(opening);
        args.push("app-server".to_owned());
        Launch { args, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.running = true;
        self.turn = None;
        self.items = Items::default();
        self.commands.clear();
        match &self.thread {
            Some(thread) => {
                steps.named(thread, Some(&self.model));
                self.start_turn(prompt, steps);
            }
            None => {
                self.prompt = Some(prompt.to_owned());
                let us = json!({"name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION")});
                // Lists of commands that still run are called experimental.
                let params = json!({"clientInfo": us, "capabilities": {"experimentalApi": true}});
                self.ask(Asked::Greeting, "initialize", &params, steps);
            }
        }
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        match (text(line, "/method"), line.get("id")) {
            (Some(method), Some(id)) => self.approvals.asked(method, id, &line["params"], steps),
            (Some(method), None) => self.told(method, &line["params"], steps),
            (None, Some(id)) => {
                if let Some(asked) = id.as_u64().and_then(|id| self.asked.remove(&id)) {
                    self.answered(asked, line, steps);
                }
            }
            (None, None) => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        // Codex has no words for why not, but it listens while it works.
        if let Some(instead) = self.approvals.decide(reference, verdict, steps) {
            self.steer(&instead, steps);
        }
    }

    fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        self.approvals.answer(reference, answer, steps);
    }

    fn steer(&mut self, said: &str, steps: &mut Steps) -> bool {
        let (Some(thread), Some(turn)) = (&self.thread, &self.turn) else { return false };
        let params = json!({"threadId": thread, "expectedTurnId": turn, "input": input(said)});
        self.ask(Asked::Steer(said.to_owned()), "turn/steer", &params, steps);
        true
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let (Some(thread), Some(turn)) = (&self.thread, &self.turn) else { return false };
        let params = json!({"threadId": thread, "turnId": turn});
        self.ask(Asked::Interrupt, "turn/interrupt", &params, steps);
        true
    }
}

impl CodexAppServer {
    fn ask(&mut self, what: Asked, method: &str, params: &Value, steps: &mut Steps) {
        self.last_request += 1;
        self.asked.insert(self.last_request, what);
        steps.say(&json!({"id": self.last_request, "method": method, "params": params}));
    }

    fn start_turn(&mut self, prompt: &str, steps: &mut Steps) {
        let params = json!({"threadId": self.thread, "input": input(prompt)});
        self.ask(Asked::Turn, "turn/start", &params, steps);
    }

    /// One of our requests was answered.
    fn answered(&mut self, asked: Asked, line: &Value, steps: &mut Steps) {
        let failure =
            line.get("error").map(|error| readable(text(error, "/message").unwrap_or("no reason given")));
        match (asked, failure) {
            (Asked::Greeting, None) => {
                steps.say(&json!({"method": "initialized"}));
                if let Some((method, params)) = self.opening.take() {
                    self.ask(Asked::Thread, method, &params, steps);
                }
            }
            (Asked::Thread, None) => self.opened(&line["result"], steps),
            (Asked::Turn, None) => self.turn = text(line, "/result/turn/id").map(str::to_owned),
            (Asked::Commands, None) => self.end_commands(&line["result"], steps),
            (Asked::Steer(_) | Asked::Interrupt | Asked::CommandEnd, None) => {}
            // It was over just then.
            (Asked::Steer(said), Some(_)) => steps.push(crate::dialect::Step::Later(said)),
            // An older codex, which has no such list, has ended its commands already.
            (Asked::Interrupt | Asked::Commands | Asked::CommandEnd, Some(_)) => {}
            (Asked::Thread, Some(why)) => {
                steps.fail(format!("codex cannot open the conversation: {why}. Start a new session."));
            }
            (Asked::Greeting | Asked::Turn, Some(why)) => {
                steps.fail(format!("codex refuses to work: {why}."));
            }
        }
        self.end_if_over(steps);
    }

    fn opened(&mut self, result: &Value, steps: &mut Steps) {
        let Some(thread) = text(result, "/thread/id") else {
            return steps.fail("codex has opened a conversation without a name.");
        };
        text(result, "/model").unwrap_or("codex").clone_into(&mut self.model);
        self.thread = Some(thread.to_owned());
        steps.named(thread, text(result, "/model"));
        if let Some(prompt) = self.prompt.take() {
            self.start_turn(&prompt, steps);
        }
    }

    /// Something has happened. Agents that codex starts have threads of their own, which are not ours to tell.
    fn told(&mut self, method: &str, params: &Value, steps: &mut Steps) {
        if text(params, "/threadId").is_some_and(|thread| self.thread.as_deref() != Some(thread)) {
            return;
        }
        match method {
            "turn/started" if self.running => self.turn = text(params, "/turn/id").map(str::to_owned),
            "turn/completed" => self.turn_completed(&params["turn"], steps),
            "serverRequest/resolved" => self.approvals.withdrawn(&params["requestId"], steps),
            "warning" | "guardianWarning" => steps.warn(text(params, "/message").unwrap_or_default()),
            "configWarning" | "deprecationNotice" => {
                steps.warn(text(params, "/summary").unwrap_or("codex does not like its configuration."));
            }
            _ if self.running => self.worked(method, params, steps),
            _ => {}
        }
    }

    /// Something has happened in a turn.
    fn worked(&mut self, method: &str, params: &Value, steps: &mut Steps) {
        let item = &params["item"];
        let id = text(params, "/itemId").or_else(|| text(item, "/id")).unwrap_or_default().to_owned();
        let delta = || text(params, "/delta").unwrap_or_default().to_owned();
        match method {
            "item/started" => {
                if item["type"] == "commandExecution" {
                    self.commands.insert(id.clone());
                }
                self.approvals.item_started(&id, item);
                self.items.started(&id, item, steps);
            }
            "item/completed" => self.items.completed(&id, item, steps),
            "item/agentMessage/delta" => steps.report(Report::TextDelta(delta())),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                steps.report(Report::ReasoningDelta(delta()));
            }
            "item/commandExecution/outputDelta" => steps.report(Report::CallOutput { id, output: delta() }),
            "item/mcpToolCall/progress" => {
                let output = text(params, "/message").unwrap_or_default().to_owned();
                steps.report(Report::CallOutput { id, output });
            }
            "thread/tokenUsage/updated" if text(params, "/turnId") == self.turn.as_deref() => {
                let used = Counts::read(&params["tokenUsage"]["last"]);
                steps.report(Report::Usage(Box::new(used.usage(&self.model))));
            }
            "turn/plan/updated" => steps.note(items::todo(&params["plan"])),
            "error" if params["willRetry"] == true => {
                steps.note(readable(text(params, "/error/message").unwrap_or("codex tries again.")));
            }
            _ => {}
        }
    }

    fn turn_completed(&mut self, turn: &Value, steps: &mut Steps) {
        if !self.running || text(turn, "/id") != self.turn.as_deref() {
            return;
        }
        self.ending = Some(match text(turn, "/status") {
            Some("completed") => Ending::Completed,
            Some("interrupted") => Ending::Interrupted,
            _ => {
                let why = text(turn, "/error/message").map_or("codex gave no reason.".to_owned(), readable);
                Ending::Failed(details(&turn["error"], why))
            }
        });
        self.turn = None;
        // Codex interrupts itself, not its commands: those go on in the background.
        if self.ending == Some(Ending::Interrupted) && !self.commands.is_empty() {
            let params = json!({"threadId": self.thread});
            self.ask(Asked::Commands, "thread/backgroundTerminals/list", &params, steps);
        }
        self.end_if_over(steps);
    }

    /// Ends the commands of this turn; those of earlier turns run in the background on purpose.
    fn end_commands(&mut self, running: &Value, steps: &mut Steps) {
        for command in list(running, "/data") {
            if text(command, "/itemId").is_some_and(|id| self.commands.contains(id)) {
                let params = json!({"threadId": self.thread, "processId": command["processId"]});
                self.ask(Asked::CommandEnd, "thread/backgroundTerminals/terminate", &params, steps);
            }
        }
    }

    /// The end comes when all questions about it are answered: whether codex took what was said to it in the middle,
    /// whether its commands have ended.
    fn end_if_over(&mut self, steps: &mut Steps) {
        let matters = |asked: &Asked| matches!(asked, Asked::Steer(_) | Asked::Commands | Asked::CommandEnd);
        if self.asked.values().any(matters) {
            return;
        }
        if let Some(ending) = self.ending.take() {
            self.running = false;
            self.approvals.forget();
            steps.end(ending);
        }
    }
}

/// Codex replaces some messages by friendlier ones and keeps the reason elsewhere.
fn details(error: &Value, why: String) -> String {
    let status = ["httpConnectionFailed", "responseStreamConnectionFailed", "responseTooManyFailedAttempts"]
        .iter()
        .find_map(|kind| error["codexErrorInfo"][kind]["httpStatusCode"].as_u64());
    match (text(error, "/additionalDetails"), status) {
        (Some(details), _) if !why.contains(details) => format!("{why} ({details})"),
        (None, Some(status)) if !why.contains(&status.to_string()) => format!("{why} (HTTP {status})"),
        _ => why,
    }
}

fn thread_to_open(opening: &Opening<'_>) -> (&'static str, Value) {
    let spec = opening.spec;
    let (policy, sandbox) =
        if spec.allow_all { ("never", "danger-full-access") } else { ("untrusted", "workspace-write") };
    let mut params = json!({
        "cwd": spec.cwd,
        "approvalPolicy": policy,
        "sandbox": opening.settings.sandbox.as_deref().unwrap_or(sandbox),
    });
    if let Some(model) = &spec.model {
        params["model"] = model.as_str().into();
    }
    match opening.token {
        None => ("thread/start", params),
        Some(token) => {
            params["threadId"] = token.0.as_str().into();
            params["excludeTurns"] = true.into();
            ("thread/resume", params)
        }
    }
}

fn input(prompt: &str) -> Value {
    json!([{"type": "text", "text": prompt}])
}

/// Questions of a list that have a text.
pub(super) fn questions(params: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list(params, "/questions").filter_map(|question| Some((text(question, "/id")?, question)))
}
