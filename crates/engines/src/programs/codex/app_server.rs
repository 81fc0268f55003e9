//! `codex app-server`: one process for each conversation. The protocol is JSON-RPC without the version member.
//!
//! The program can serve many threads. Baton uses one process for each conversation all the same: a crash then costs
//! one conversation, and ending a process ends exactly what belongs to it.

use std::collections::{HashMap, HashSet};

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};

use super::approvals::Approvals;
use super::items::{self, Items};
use super::{Counts, LOGIN, common_args, retry};
use crate::Report;
use crate::adapter::{Adapter, Launch, LaunchContext, RunEnding, Step, Steps};
use crate::json::{list, readable, text};

#[derive(Debug, Default)]
pub(crate) struct CodexAppServer {
    /// The request that opens the thread: method and parameters.
    open_request: Option<(&'static str, Value)>,
    /// The prompt to send when the thread is open.
    prompt: Option<String>,
    model: String,
    thread: Option<String>,
    /// The id of the running turn, once it is known.
    turn: Option<String>,
    /// Whether a turn is running or about to start.
    running: bool,
    last_request: u64,
    /// Requests without a response yet.
    sent: HashMap<u64, Sent>,
    approvals: Approvals,
    items: Items,
    /// The commands of this turn.
    commands: HashSet<String>,
    /// How the turn ended, while a response is outstanding.
    ending: Option<RunEnding>,
}

/// A request to codex.
#[derive(Debug)]
enum Sent {
    Initialize,
    /// Reads whether codex is logged in.
    Account,
    Thread,
    Turn,
    Steer(String),
    Interrupt,
    /// Lists the commands that still run.
    ListCommands,
    /// Terminates one of them.
    EndCommand,
}

impl Adapter for CodexAppServer {
    fn name(&self) -> &'static str {
        "codex app-server"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn reports_login(&self) -> bool {
        true
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        *self = Self { open_request: Some(open_request(context)), ..Self::default() };
        self.approvals.cwd.clone_from(&context.spec.cwd);
        let mut args = common_args(context);
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
                steps.identified(thread, Some(&self.model));
                self.start_turn(prompt, steps);
            }
            None => {
                self.prompt = Some(prompt.to_owned());
                let client = json!({"name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION")});
                // The list of running commands is part of the experimental API.
                let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
                self.request(Sent::Initialize, "initialize", &params, steps);
            }
        }
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        match (text(line, "/method"), line.get("id")) {
            (Some(method), Some(id)) => self.approvals.on_request(method, id, &line["params"], steps),
            (Some(method), None) => self.on_notification(method, &line["params"], steps),
            (None, Some(id)) => {
                if let Some(sent) = id.as_u64().and_then(|id| self.sent.remove(&id)) {
                    self.on_response(sent, line, steps);
                }
            }
            (None, None) => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        // The response has no field for feedback, but codex accepts messages while it works.
        if let Some(feedback) = self.approvals.decide(reference, verdict, steps) {
            self.steer(&feedback, steps);
        }
    }

    fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        self.approvals.answer(reference, answer, steps);
    }

    fn steer(&mut self, message: &str, steps: &mut Steps) -> bool {
        let (Some(thread), Some(turn)) = (&self.thread, &self.turn) else { return false };
        let params = json!({"threadId": thread, "expectedTurnId": turn, "input": input(message)});
        self.request(Sent::Steer(message.to_owned()), "turn/steer", &params, steps);
        true
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let (Some(thread), Some(turn)) = (&self.thread, &self.turn) else { return false };
        let params = json!({"threadId": thread, "turnId": turn});
        self.request(Sent::Interrupt, "turn/interrupt", &params, steps);
        true
    }
}

impl CodexAppServer {
    fn request(&mut self, sent: Sent, method: &str, params: &Value, steps: &mut Steps) {
        self.last_request += 1;
        self.sent.insert(self.last_request, sent);
        steps.send(&json!({"id": self.last_request, "method": method, "params": params}));
    }

    fn start_turn(&mut self, prompt: &str, steps: &mut Steps) {
        let params = json!({"threadId": self.thread, "input": input(prompt)});
        self.request(Sent::Turn, "turn/start", &params, steps);
    }

    /// Handles the response to a request.
    fn on_response(&mut self, sent: Sent, line: &Value, steps: &mut Steps) {
        let failure =
            line.get("error").map(|error| readable(text(error, "/message").unwrap_or("no reason given")));
        match (sent, failure) {
            (Sent::Initialize, None) => {
                steps.send(&json!({"method": "initialized"}));
                self.request(Sent::Account, "account/read", &json!({}), steps);
                if let Some((method, params)) = self.open_request.take() {
                    self.request(Sent::Thread, method, &params, steps);
                }
            }
            (Sent::Account, None) => on_account(&line["result"], steps),
            (Sent::Thread, None) => self.on_opened(&line["result"], steps),
            (Sent::Turn, None) => self.turn = text(line, "/result/turn/id").map(str::to_owned),
            (Sent::ListCommands, None) => self.end_commands(&line["result"], steps),
            (Sent::Steer(_) | Sent::Interrupt | Sent::EndCommand, None) => {}
            // The turn ended before the message arrived.
            (Sent::Steer(message), Some(_)) => steps.push(Step::Defer(message)),
            // Older versions of codex have no such list, and end their commands themselves. Some have no accounts.
            (Sent::Account | Sent::Interrupt | Sent::ListCommands | Sent::EndCommand, Some(_)) => {}
            (Sent::Thread, Some(reason)) => {
                steps.fail(format!("codex cannot open the conversation: {reason}. Start a new session."));
            }
            (Sent::Initialize | Sent::Turn, Some(reason)) => {
                steps.fail(format!("codex refused to start: {reason}."));
            }
        }
        self.end_if_done(steps);
    }

    fn on_opened(&mut self, result: &Value, steps: &mut Steps) {
        let Some(thread) = text(result, "/thread/id") else {
            return steps.fail("codex opened a conversation without an id.");
        };
        text(result, "/model").unwrap_or("codex").clone_into(&mut self.model);
        self.thread = Some(thread.to_owned());
        steps.identified(thread, text(result, "/model"));
        if let Some(prompt) = self.prompt.take() {
            self.start_turn(&prompt, steps);
        }
    }

    /// Handles a notification. Sub-agents of codex have their own threads, which are not reported.
    fn on_notification(&mut self, method: &str, params: &Value, steps: &mut Steps) {
        if text(params, "/threadId").is_some_and(|thread| self.thread.as_deref() != Some(thread)) {
            return;
        }
        match method {
            "turn/started" if self.running => self.turn = text(params, "/turn/id").map(str::to_owned),
            "turn/completed" => self.on_turn_completed(&params["turn"], steps),
            "serverRequest/resolved" => self.approvals.withdraw(&params["requestId"], steps),
            "warning" | "guardianWarning" => steps.warn(text(params, "/message").unwrap_or_default()),
            "configWarning" | "deprecationNotice" => {
                let summary = text(params, "/summary").unwrap_or("codex warns about its configuration.");
                steps.report(Report::StandingWarning(summary.to_owned()));
            }
            _ if self.running => self.on_turn_event(method, params, steps),
            _ => {}
        }
    }

    /// Handles a notification about the running turn.
    fn on_turn_event(&mut self, method: &str, params: &Value, steps: &mut Steps) {
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
                let error = &params["error"];
                let message = readable(text(error, "/message").unwrap_or("no reason given"));
                steps.report(retry(&message, text(error, "/additionalDetails"), status(error)));
            }
            _ => {}
        }
    }

    fn on_turn_completed(&mut self, turn: &Value, steps: &mut Steps) {
        if !self.running || text(turn, "/id") != self.turn.as_deref() {
            return;
        }
        self.ending = Some(match text(turn, "/status") {
            Some("completed") => RunEnding::Completed,
            Some("interrupted") => RunEnding::Interrupted,
            _ => {
                let reason =
                    text(turn, "/error/message").map_or("codex gave no reason.".to_owned(), readable);
                RunEnding::Failed(with_details(&turn["error"], reason))
            }
        });
        self.turn = None;
        // An interrupt ends the turn but not its commands, which continue in the background.
        if self.ending == Some(RunEnding::Interrupted) && !self.commands.is_empty() {
            let params = json!({"threadId": self.thread});
            self.request(Sent::ListCommands, "thread/backgroundTerminals/list", &params, steps);
        }
        self.end_if_done(steps);
    }

    /// Ends the commands of this turn. Those of earlier turns run in the background on purpose.
    fn end_commands(&mut self, running: &Value, steps: &mut Steps) {
        for command in list(running, "/data") {
            if text(command, "/itemId").is_some_and(|id| self.commands.contains(id)) {
                let params = json!({"threadId": self.thread, "processId": command["processId"]});
                self.request(Sent::EndCommand, "thread/backgroundTerminals/terminate", &params, steps);
            }
        }
    }

    /// Ends the run once the turn has ended and the responses that matter have arrived: whether codex accepted steering
    /// messages, and whether its commands have ended.
    fn end_if_done(&mut self, steps: &mut Steps) {
        let matters = |sent: &Sent| matches!(sent, Sent::Steer(_) | Sent::ListCommands | Sent::EndCommand);
        if self.sent.values().any(matters) {
            return;
        }
        if let Some(ending) = self.ending.take() {
            self.running = false;
            self.approvals.clear();
            steps.end(ending);
        }
    }
}

/// Warns if codex is not logged in and its provider needs it. Only a warning: there may be a proxy that adds credentials.
fn on_account(result: &Value, steps: &mut Steps) {
    if result["account"].is_null() && result["requiresOpenaiAuth"] == true {
        steps.warn(format!("codex is not logged in. {LOGIN}"));
    }
}

/// Adds the details of an error. Codex replaces some messages with friendlier ones and puts the reason elsewhere.
fn with_details(error: &Value, message: String) -> String {
    match (text(error, "/additionalDetails"), status(error)) {
        (Some(details), _) if !message.contains(details) => format!("{message} ({details})"),
        (None, Some(status)) if !message.contains(&status.to_string()) => {
            format!("{message} (HTTP {status})")
        }
        _ => message,
    }
}

/// Returns the HTTP status that caused an error. Each kind of error has it in an object of its own.
fn status(error: &Value) -> Option<u64> {
    error["codexErrorInfo"].as_object()?.values().find_map(|kind| kind["httpStatusCode"].as_u64())
}

/// Returns the request that opens the thread: method and parameters.
fn open_request(context: &LaunchContext<'_>) -> (&'static str, Value) {
    let spec = context.spec;
    let (policy, sandbox) =
        if spec.allow_all { ("never", "danger-full-access") } else { ("untrusted", "workspace-write") };
    let sandbox = super::chosen_sandbox(spec).unwrap_or(sandbox);
    let mut params = json!({
        "cwd": spec.cwd,
        "approvalPolicy": policy,
        "sandbox": context.settings.sandbox.as_deref().unwrap_or(sandbox),
    });
    if let Some(model) = &spec.model {
        params["model"] = model.as_str().into();
    }
    match context.token {
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
