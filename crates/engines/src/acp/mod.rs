//! The Agent Client Protocol: one adapter for opencode, gemini, qwen and every other program that speaks it.
//!
//! The types are the few that Baton needs of the official schema, which tests compare them with. The exchange is
//! implemented here, as a state machine like every adapter. Baton offers the agent no file access and no terminals: the
//! agent has those of the machine that it runs on.

mod calls;
mod permissions;
mod schema;
mod tool_call;
mod updates;

use std::collections::VecDeque;

use baton_protocol::permission::Verdict;
use serde_json::{Value, json};

use crate::ResumeToken;
use crate::adapter::{Adapter, Launch, LaunchContext, OUTPUT_LIMIT, RunEnding, Step, Steps};
use crate::json::{list, readable, text};
use crate::retry::{FailureLog, Failures};
use permissions::Permissions;
use schema::{Capabilities, PermissionRequest, Update, client_methods, methods};
use updates::Updates;

/// The JSON-RPC error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// The particulars of a program that speaks the protocol.
#[derive(Debug, Clone)]
pub(crate) struct AcpProgram {
    /// The name in messages to the user.
    pub(crate) name: &'static str,
    /// The arguments that select the protocol.
    pub(crate) args: &'static [&'static str],
    /// Environment variables that make it ask for permissions.
    pub(crate) permissions: &'static [(&'static str, &'static str)],
    /// How it logs failed model calls, for which the protocol has no message.
    pub(crate) failure_log: Option<FailureLog>,
}

#[derive(Debug)]
pub(crate) struct Acp {
    program: AcpProgram,
    cwd: String,
    /// MCP servers that the agent starts, in the form of its protocol.
    servers: Value,
    model: Option<String>,
    effort: Option<String>,
    resume: Option<ResumeToken>,
    is_resumable: bool,
    /// The prompt to send when the conversation is open.
    prompt: Option<String>,
    session: Option<String>,
    last_request: u64,
    /// Requests without a response yet, oldest first.
    sent: VecDeque<(u64, Sent)>,
    updates: Updates,
    permissions: Permissions,
    failures: Failures,
}

/// A request to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Initialize,
    /// Creates a conversation, or loads one with its history.
    Open,
    /// Resumes a conversation without its history.
    Resume,
    /// Changes a setting, with its name in messages to the user.
    Set(String),
    Prompt,
}

impl Acp {
    pub(crate) fn new(program: AcpProgram) -> Self {
        Self {
            program,
            cwd: String::new(),
            servers: json!([]),
            model: None,
            effort: None,
            resume: None,
            is_resumable: true,
            prompt: None,
            session: None,
            last_request: 0,
            sent: VecDeque::new(),
            updates: Updates::default(),
            permissions: Permissions::default(),
            failures: Failures::default(),
        }
    }
}

impl Adapter for Acp {
    fn name(&self) -> &'static str {
        self.program.name
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn is_resumable(&self) -> bool {
        self.is_resumable
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        let spec = context.spec;
        *self = Self {
            cwd: spec.cwd.display().to_string(),
            servers: spec.tools.iter().map(schema::stdio_server).collect(),
            model: spec.model.clone(),
            effort: spec.reasoning_effort.clone(),
            resume: context.token.cloned(),
            ..Self::new(self.program.clone())
        };
        self.permissions.cwd.clone_from(&spec.cwd);
        let protocol = self.program.args.iter().map(|argument| (*argument).to_owned());
        let args = protocol.chain(context.settings.extra_args.iter().cloned()).collect();
        let mut environment = if spec.allow_all { Vec::new() } else { self.program.permissions.to_vec() };
        environment.extend(self.program.failure_log.iter().flat_map(|log| log.environment));
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.updates.reset();
        self.failures = Failures::default();
        match self.session.clone() {
            Some(session) => {
                steps.identified(&session, self.updates.model.as_deref());
                self.send_prompt(&session, prompt, steps);
            }
            None => {
                self.prompt = Some(prompt.to_owned());
                self.request(Sent::Initialize, methods::INITIALIZE, &schema::initialize(), steps);
            }
        }
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        match (text(line, "/method"), line.get("id")) {
            (Some(method), Some(id)) => self.on_request(method, id, &line["params"], steps),
            (Some(method), None) if method == client_methods::UPDATE => {
                self.on_update(&line["params"], steps);
            }
            (None, Some(id)) => self.on_response(id, line, steps),
            _ => {}
        }
    }

    fn receive_diagnostic(&mut self, line: &str, steps: &mut Steps) {
        if let Some(log) = &self.program.failure_log
            && let Some(failed) = (log.read)(line)
            && self.session.as_deref() == Some(failed.conversation)
        {
            self.failures.add(log.program, failed.reason, steps);
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        let feedback = match &verdict {
            Verdict::Reject { feedback } => feedback.clone().filter(|text| !text.trim().is_empty()),
            _ => None,
        };
        if let Some(denied) = self.permissions.decide(reference, verdict, steps) {
            self.updates.calls.deny(denied);
            // The protocol has no field for feedback, so it becomes the next prompt.
            feedback.into_iter().for_each(|text| steps.push(Step::Defer(text)));
        }
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let Some(session) = self.session.clone().filter(|_| self.is_prompted()) else { return false };
        self.permissions.cancel(steps);
        let params = json!({"sessionId": session});
        steps.send(&json!({"jsonrpc": "2.0", "method": methods::CANCEL, "params": params}));
        true
    }
}

impl Acp {
    fn request(&mut self, sent: Sent, method: &str, params: &Value, steps: &mut Steps) {
        self.last_request += 1;
        self.sent.push_back((self.last_request, sent));
        steps.send(&json!({"jsonrpc": "2.0", "id": self.last_request, "method": method, "params": params}));
    }

    fn send_prompt(&mut self, session: &str, prompt: &str, steps: &mut Steps) {
        self.request(Sent::Prompt, methods::PROMPT, &schema::prompt(session, prompt), steps);
    }

    fn is_prompted(&self) -> bool {
        self.sent.iter().any(|(_, sent)| *sent == Sent::Prompt)
    }

    /// Handles an update. Updates before a prompt repeat the history of the conversation, which the session has
    /// already.
    fn on_update(&mut self, params: &Value, steps: &mut Steps) {
        let session = self.session.as_deref().filter(|_| self.is_prompted());
        if session.is_some()
            && session == params["sessionId"].as_str()
            && let Some(update) = Update::read(&params["update"])
        {
            self.failures = Failures::default();
            self.updates.receive(update, steps);
        }
    }

    /// Handles a request of the agent. Unknown requests are refused, so that the agent does not wait for an answer
    /// forever.
    fn on_request(&mut self, method: &str, id: &Value, params: &Value, steps: &mut Steps) {
        if method != client_methods::REQUEST_PERMISSION {
            let error =
                json!({"code": METHOD_NOT_FOUND, "message": format!("Baton does not support {method}")});
            return steps.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        let Some(request) = PermissionRequest::read(params).filter(|_| self.is_prompted()) else {
            return permissions::cancel(id, steps);
        };
        let call = self.updates.calls.permission_requested(request.tool_call, steps);
        self.permissions.on_request(id, &call, request.options, steps);
    }

    fn on_response(&mut self, id: &Value, line: &Value, steps: &mut Steps) {
        let Some(at) = self.sent.iter().position(|(request, _)| id.as_u64() == Some(*request)) else {
            return;
        };
        let Some((_, sent)) = self.sent.remove(at) else { return };
        if let Some(error) = line.get("error") {
            return self.on_error(&sent, error, steps);
        }
        let result = &line["result"];
        match sent {
            Sent::Initialize => self.on_initialized(result, steps),
            Sent::Open | Sent::Resume => self.on_opened(result, steps),
            Sent::Set(_) => self.prompt_when_ready(steps),
            Sent::Prompt => {
                let ending = self.updates.end(result, steps);
                self.permissions.clear();
                steps.end(ending);
            }
        }
    }

    fn on_error(&mut self, sent: &Sent, error: &Value, steps: &mut Steps) {
        // Some agents announce this method and do not implement it.
        if *sent == Sent::Resume && error["code"] == METHOD_NOT_FOUND {
            return self.load(steps);
        }
        let name = self.name();
        let message = text(error, "/message").unwrap_or("no reason given");
        let details = ["/data/message", "/data/details", "/data/error", "/data"];
        let reason = match details.iter().find_map(|path| text(error, path)).filter(|d| !message.contains(d))
        {
            Some(details) => format!("{message}: {}", readable(details)),
            None => message.to_owned(),
        };
        let failure = match sent {
            Sent::Initialize => format!("{name} refused to start: {reason}"),
            Sent::Open | Sent::Resume if self.resume.is_some() => {
                format!(
                    "{name} cannot open the conversation: {}. Start a new session.",
                    reason.trim_end_matches('.')
                )
            }
            Sent::Open | Sent::Resume => format!("{name} cannot start a conversation: {reason}"),
            Sent::Set(what) => format!("{name} does not accept {what}: {reason}"),
            Sent::Prompt => reason,
        };
        self.updates.flush(steps);
        self.permissions.clear();
        steps.fail(failure);
    }

    fn on_initialized(&mut self, result: &Value, steps: &mut Steps) {
        let Capabilities { load, resume } = Capabilities::read(result);
        self.is_resumable = resume || load;
        match self.resume.clone() {
            None => {
                self.request(Sent::Open, methods::NEW, &schema::new_session(&self.cwd, &self.servers), steps);
            }
            Some(token) if resume => {
                let params = schema::resume_session(&token.0, &self.cwd, &self.servers);
                self.request(Sent::Resume, methods::RESUME, &params, steps);
            }
            Some(_) if load => self.load(steps),
            Some(_) => steps.fail(format!(
                "{} cannot resume a conversation after its process has ended. Start a new session.",
                self.name()
            )),
        }
    }

    fn load(&mut self, steps: &mut Steps) {
        if let Some(token) = self.resume.clone() {
            let params = schema::load_session(&token.0, &self.cwd, &self.servers);
            self.request(Sent::Open, methods::LOAD, &params, steps);
        }
    }

    fn on_opened(&mut self, result: &Value, steps: &mut Steps) {
        let known = self.resume.as_ref().map(|token| token.0.as_str());
        let Some(session) = text(result, "/sessionId").or(known).map(str::to_owned) else {
            return steps.fail(format!("{} opened a conversation without an id.", self.name()));
        };
        self.session = Some(session.clone());
        let model = setting(result, "model");
        let current = model.and_then(|option| text(option, "/currentValue"));
        let current = self.model.as_deref().or(current).or(text(result, "/models/currentModelId"));
        self.updates.model = current.map(str::to_owned);
        steps.identified(&session, self.updates.model.as_deref());
        if let Some(wanted) = self.model.clone() {
            let what = Sent::Set(format!("the model {wanted}"));
            match model.and_then(|option| text(option, "/id")) {
                Some(id) => self.set(what, &session, id, &wanted, steps),
                None => {
                    let params = json!({"sessionId": session, "modelId": wanted});
                    self.request(what, methods::SET_MODEL, &params, steps);
                }
            }
        }
        if let Some(wanted) = self.effort.clone() {
            match setting(result, "thought_level").and_then(|option| text(option, "/id")) {
                Some(id) => {
                    let what = Sent::Set(format!("the reasoning effort {wanted}"));
                    self.set(what, &session, id, &wanted, steps);
                }
                None => steps.warn(format!("{} has no setting for the reasoning effort.", self.name())),
            }
        }
        self.prompt_when_ready(steps);
    }

    fn set(&mut self, what: Sent, session: &str, id: &str, value: &str, steps: &mut Steps) {
        let params = json!({"sessionId": session, "configId": id, "value": value});
        self.request(what, methods::SET_CONFIG_OPTION, &params, steps);
    }

    /// Sends the prompt once the conversation is open and all settings were accepted.
    fn prompt_when_ready(&mut self, steps: &mut Steps) {
        if self.sent.is_empty()
            && let (Some(session), Some(prompt)) = (self.session.clone(), self.prompt.take())
        {
            self.send_prompt(&session, &prompt, steps);
        }
    }
}

/// Returns the setting of a category, from the response that opened the conversation.
fn setting<'a>(result: &'a Value, category: &str) -> Option<&'a Value> {
    list(result, "/configOptions").find(|option| option["category"] == category)
}

/// Returns how a prompt ended, by the agent's stop reason.
fn ending(reason: Option<&str>, steps: &mut Steps) -> RunEnding {
    match reason {
        Some("cancelled") => RunEnding::Interrupted,
        Some("refusal") => RunEnding::Failed("The model refused to continue.".to_owned()),
        Some("max_tokens") => {
            steps.warn(OUTPUT_LIMIT);
            RunEnding::Completed
        }
        Some("max_turn_requests") => {
            steps.warn("The agent reached its limit of model requests for one prompt.");
            RunEnding::Completed
        }
        _ => RunEnding::Completed,
    }
}
