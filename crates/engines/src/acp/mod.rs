//! The Agent Client Protocol: one dialect for opencode, gemini, qwen and whatever else speaks it.
//!
//! The types are those of the protocol's own crate; who speaks when is ours, because this is a state machine like every
//! dialect. We offer the agent no files and no terminals: it has those of the machine that it runs on.

mod calls;
mod permissions;
mod updates;

use std::collections::VecDeque;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, AgentCapabilities, CLIENT_METHOD_NAMES as QUESTIONS, CancelNotification,
    Implementation, InitializeRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    ResumeSessionRequest, SessionNotification,
};
use baton_protocol::permission::Verdict;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ResumeToken;
use crate::dialect::{Dialect, Ending, Launch, Opening, Step, Steps};
use crate::json::{list, readable, text};
use permissions::Permissions;
use updates::Updates;

/// JSON-RPC's word for what one does not do.
const METHOD_NOT_FOUND: i64 = -32601;

/// What is special about a program that speaks the protocol.
#[derive(Debug, Clone)]
pub(crate) struct Speaker {
    /// What it is called in messages for people.
    pub(crate) name: &'static str,
    /// The arguments that make it speak.
    pub(crate) args: &'static [&'static str],
    /// Variables that make it ask before it does something that matters.
    pub(crate) asking: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(crate) struct Acp {
    speaker: Speaker,
    /// Where it works, and what was asked of it.
    cwd: String,
    model: Option<String>,
    effort: Option<String>,
    resume: Option<ResumeToken>,
    can_be_resumed: bool,
    /// The prompt that waits until the conversation is open.
    prompt: Option<String>,
    session: Option<String>,
    last_request: u64,
    /// Requests that were not answered yet, oldest first.
    asked: VecDeque<(u64, Asked)>,
    updates: Updates,
    permissions: Permissions,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Greeting,
    /// To begin a conversation, or to go on with one.
    Session,
    /// To go on with a conversation, without being told what was said in it.
    Resumed,
    /// To set what it is called.
    Setting(String),
    Prompt,
}

impl Acp {
    pub(crate) fn new(speaker: Speaker) -> Self {
        Self {
            speaker,
            cwd: String::new(),
            model: None,
            effort: None,
            resume: None,
            can_be_resumed: true,
            prompt: None,
            session: None,
            last_request: 0,
            asked: VecDeque::new(),
            updates: Updates::default(),
            permissions: Permissions::default(),
        }
    }
}

impl Dialect for Acp {
    fn name(&self) -> &'static str {
        self.speaker.name
    }

    fn stays(&self) -> bool {
        true
    }

    fn can_be_resumed(&self) -> bool {
        self.can_be_resumed
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        let spec = opening.spec;
        *self = Self {
            cwd: spec.cwd.display().to_string(),
            model: spec.model.clone(),
            effort: spec.reasoning_effort.clone(),
            resume: opening.token.cloned(),
            ..Self::new(self.speaker.clone())
        };
        self.permissions.cwd.clone_from(&spec.cwd);
        let ours = self.speaker.args.iter().map(|argument| (*argument).to_owned());
        let args = ours.chain(opening.settings.extra_args.iter().cloned()).collect();
        let environment = if spec.allow_all { Vec::new() } else { self.speaker.asking.to_vec() };
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        self.updates.begin();
        match self.session.clone() {
            Some(session) => {
                steps.named(&session, self.updates.model.as_deref());
                self.ask_prompt(session, prompt, steps);
            }
            None => {
                self.prompt = Some(prompt.to_owned());
                let us = Implementation::new("baton", env!("CARGO_PKG_VERSION")).title("Baton".to_owned());
                let greeting = InitializeRequest::new(ProtocolVersion::V1).client_info(us);
                self.ask(Asked::Greeting, METHODS.initialize, greeting, steps);
            }
        }
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        match (text(line, "/method"), line.get("id")) {
            (Some(method), Some(id)) => self.questioned(method, id, &line["params"], steps),
            (Some(method), None) if method == QUESTIONS.session_update => self.told(&line["params"], steps),
            (None, Some(id)) => self.answered(id, line, steps),
            _ => {}
        }
    }

    fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) {
        let instead = match &verdict {
            Verdict::Reject { feedback } => feedback.clone().filter(|text| !text.trim().is_empty()),
            _ => None,
        };
        if let Some(denied) = self.permissions.decide(reference, verdict, steps) {
            self.updates.calls.deny(denied);
            // The protocol has no words for why not, so they come afterwards.
            instead.into_iter().for_each(|text| steps.push(Step::Later(text)));
        }
    }

    fn interrupt(&mut self, steps: &mut Steps) -> bool {
        let Some(session) = self.session.clone().filter(|_| self.is_prompted()) else { return false };
        self.permissions.cancel(steps);
        let params = CancelNotification::new(session);
        steps.say(&json!({"jsonrpc": "2.0", "method": METHODS.session_cancel, "params": params}));
        true
    }
}

impl Acp {
    fn ask(&mut self, what: Asked, method: &str, params: impl Serialize, steps: &mut Steps) {
        self.last_request += 1;
        self.asked.push_back((self.last_request, what));
        let params = serde_json::to_value(params).unwrap_or_default();
        steps.say(&json!({"jsonrpc": "2.0", "id": self.last_request, "method": method, "params": params}));
    }

    fn ask_prompt(&mut self, session: String, prompt: &str, steps: &mut Steps) {
        let params = PromptRequest::new(session, vec![prompt.into()]);
        self.ask(Asked::Prompt, METHODS.session_prompt, params, steps);
    }

    fn is_prompted(&self) -> bool {
        self.asked.iter().any(|(_, asked)| *asked == Asked::Prompt)
    }

    /// Something has happened. What happens before a prompt is the history of the conversation, which we know.
    fn told(&mut self, params: &Value, steps: &mut Steps) {
        let Ok(told) = serde_json::from_value::<SessionNotification>(params.clone()) else { return };
        if self.is_prompted() && self.session.as_deref() == Some(&*told.session_id.0) {
            self.updates.hear(told.update, steps);
        }
    }

    /// The agent asks something. What we do not offer is refused, so that it does not wait for ever.
    fn questioned(&mut self, method: &str, id: &Value, params: &Value, steps: &mut Steps) {
        if method != QUESTIONS.session_request_permission {
            let error = json!({"code": METHOD_NOT_FOUND, "message": format!("Baton does not do {method}")});
            return steps.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        let Some(request) = Permissions::read(params).filter(|_| self.is_prompted()) else {
            return permissions::cancel(id, steps);
        };
        let call = self.updates.calls.wanted(&request.tool_call, steps);
        self.permissions.asked(id, &call, request.options, steps);
    }

    fn answered(&mut self, id: &Value, line: &Value, steps: &mut Steps) {
        let Some(at) = self.asked.iter().position(|(request, _)| id.as_u64() == Some(*request)) else {
            return;
        };
        let Some((_, asked)) = self.asked.remove(at) else { return };
        if let Some(error) = line.get("error") {
            return self.refused(&asked, error, steps);
        }
        let result = &line["result"];
        match asked {
            Asked::Greeting => self.greeted(result, steps),
            Asked::Session | Asked::Resumed => self.opened(result, steps),
            Asked::Setting(_) => self.begin_when_set(steps),
            Asked::Prompt => {
                let ending = self.updates.end(result, steps);
                self.permissions.forget();
                steps.end(ending);
            }
        }
    }

    fn refused(&mut self, asked: &Asked, error: &Value, steps: &mut Steps) {
        // Some say that they can do this, and cannot.
        if *asked == Asked::Resumed && error["code"] == METHOD_NOT_FOUND {
            return self.load(steps);
        }
        let name = self.name();
        let message = text(error, "/message").unwrap_or("no reason given");
        let details = ["/data/message", "/data/details", "/data/error", "/data"];
        let why = match details.iter().find_map(|path| text(error, path)).filter(|d| !message.contains(d)) {
            Some(details) => format!("{message}: {}", readable(details)),
            None => message.to_owned(),
        };
        let failure = match asked {
            Asked::Greeting => format!("{name} refuses to work: {why}"),
            Asked::Session | Asked::Resumed if self.resume.is_some() => {
                format!(
                    "{name} cannot open the conversation: {}. Start a new session.",
                    why.trim_end_matches('.')
                )
            }
            Asked::Session | Asked::Resumed => format!("{name} cannot begin a conversation: {why}"),
            Asked::Setting(what) => format!("{name} does not accept {what}: {why}"),
            Asked::Prompt => why,
        };
        self.updates.flush(steps);
        self.permissions.forget();
        steps.fail(failure);
    }

    fn greeted(&mut self, result: &Value, steps: &mut Steps) {
        let can: AgentCapabilities =
            serde_json::from_value(result["agentCapabilities"].clone()).unwrap_or_default();
        let can_resume = can.session_capabilities.resume.is_some();
        self.can_be_resumed = can_resume || can.load_session;
        let cwd = self.cwd.clone();
        match self.resume.clone() {
            None => self.ask(Asked::Session, METHODS.session_new, NewSessionRequest::new(cwd), steps),
            Some(token) if can_resume => {
                let params = ResumeSessionRequest::new(token.0, cwd);
                self.ask(Asked::Resumed, METHODS.session_resume, params, steps);
            }
            Some(_) if can.load_session => self.load(steps),
            Some(_) => steps.fail(format!(
                "{} cannot go on with a conversation after its process has ended. Start a new session.",
                self.name()
            )),
        }
    }

    fn load(&mut self, steps: &mut Steps) {
        if let Some(token) = self.resume.clone() {
            let params = LoadSessionRequest::new(token.0, self.cwd.clone());
            self.ask(Asked::Session, METHODS.session_load, params, steps);
        }
    }

    fn opened(&mut self, result: &Value, steps: &mut Steps) {
        let known = self.resume.as_ref().map(|token| token.0.as_str());
        let Some(session) = text(result, "/sessionId").or(known).map(str::to_owned) else {
            return steps.fail(format!("{} has opened a conversation without a name.", self.name()));
        };
        self.session = Some(session.clone());
        let model = select(result, "model");
        let current = model.and_then(|option| text(option, "/currentValue"));
        let current = self.model.as_deref().or(current).or(text(result, "/models/currentModelId"));
        self.updates.model = current.map(str::to_owned);
        steps.named(&session, self.updates.model.as_deref());
        if let Some(wanted) = self.model.clone() {
            let what = Asked::Setting(format!("the model {wanted}"));
            match model.and_then(|option| text(option, "/id")) {
                Some(id) => self.set(what, &session, id, &wanted, steps),
                // What there was before there were such options.
                None => {
                    let params = json!({"sessionId": session, "modelId": wanted});
                    self.ask(what, "session/set_model", params, steps);
                }
            }
        }
        if let Some(wanted) = self.effort.clone() {
            match select(result, "thought_level").and_then(|option| text(option, "/id")) {
                Some(id) => {
                    let what = Asked::Setting(format!("the reasoning effort {wanted}"));
                    self.set(what, &session, id, &wanted, steps);
                }
                None => steps.warn(format!("{} does not let its reasoning effort be chosen.", self.name())),
            }
        }
        self.begin_when_set(steps);
    }

    fn set(&mut self, what: Asked, session: &str, id: &str, value: &str, steps: &mut Steps) {
        let params = json!({"sessionId": session, "configId": id, "value": value});
        self.ask(what, METHODS.session_set_config_option, params, steps);
    }

    fn begin_when_set(&mut self, steps: &mut Steps) {
        if self.asked.is_empty()
            && let (Some(session), Some(prompt)) = (self.session.clone(), self.prompt.take())
        {
            self.ask_prompt(session, &prompt, steps);
        }
    }
}

/// A setting of the conversation by what it is about.
fn select<'a>(result: &'a Value, category: &str) -> Option<&'a Value> {
    list(result, "/configOptions").find(|option| option["category"] == category)
}

/// How a prompt went, by the reason for which the agent stopped.
fn ending(reason: Option<&str>, steps: &mut Steps) -> Ending {
    match reason {
        Some("cancelled") => Ending::Interrupted,
        Some("refusal") => Ending::Failed("The model refuses to go on.".to_owned()),
        Some("max_tokens") => {
            steps.warn("The model stopped because it may not say more at once.");
            Ending::Completed
        }
        Some("max_turn_requests") => {
            steps.warn("The agent stopped because it may not ask its model more often for one prompt.");
            Ending::Completed
        }
        _ => Ending::Completed,
    }
}
