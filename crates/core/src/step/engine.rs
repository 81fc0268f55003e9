//! Turns of engines: other agents' programs that work on a turn in place of Baton's own rounds.
//!
//! An engine has its own rounds; here its turn is one piece of work, which reports what happens. Its questions become
//! requests like any others, shown to all clients and answered once; its tool calls are recorded like Baton's own. After a
//! crash the program is gone, so the turn is closed as interrupted. The engine's id of the conversation is durable, and
//! the next prompt continues with it.

use std::path::Path;

use baton_protocol::engine::EngineControl;
use baton_protocol::event::{
    AssistantMessage, EngineThread, EngineTurn, EngineUsage, Outcome, Question, Reasoning, RequestOpened,
    SessionError, SessionInfo, SessionWarning, ToolRequest, ToolStart, TurnEnd, TurnStart, UserQuestion,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{Json, RequestId, ToolCallId};

use super::Step;
use super::permissions::Permitted;
use crate::output::{Output, Work, WorkId, denial};
use crate::policy::Advice;
use crate::results::EngineReport;
use crate::state::{Call, CallKey};

impl Step<'_> {
    /// Whether an engine works on the running turn.
    pub(super) fn is_driven(&self) -> bool {
        self.turn().is_some_and(|turn| turn.engine.is_some())
    }

    /// Starts an engine on the turn that was just opened.
    pub(super) fn start_engine(&mut self, engine: String, prompt: String) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, interaction_id) = (turn.rounds.to_string(), Some(turn.interaction.clone()));
        self.record(TurnStart { turn_id, interaction_id, model: Some(engine.clone()) });
        self.record(EngineTurn { engine: engine.clone() });
        let token = self.session.durable.facts.threads.get(&engine).cloned();
        self.start(Work::Drive { engine, prompt, token });
    }

    /// Passes a further prompt to the engine.
    pub(super) fn steer_engine(&mut self, prompt: String) {
        self.tell(EngineControl::Steer(prompt));
    }

    /// Sends a message to the engine, if one runs.
    pub(super) fn tell(&mut self, control: EngineControl) {
        let driving = self.session.live.work.iter().find(|(_, work)| matches!(work, Work::Drive { .. }));
        if let Some((id, _)) = driving {
            self.out.push(Output::Tell(*id, control));
        }
    }

    /// Handles a report of the engine. A report of work that was stopped belongs to a turn that has its outcome.
    pub(super) fn engine_reported(&mut self, work: WorkId, report: EngineReport) {
        let Some(Work::Drive { engine, .. }) = self.session.live.work.get(&work).cloned() else { return };
        match report {
            EngineReport::Thread(token) => {
                if self.session.durable.facts.threads.get(&engine) != Some(&token) {
                    self.record(EngineThread { engine, token });
                }
            }
            EngineReport::Message { message_id, text, reasoning, model } => {
                self.engine_said(message_id, text, reasoning, model.or(Some(engine)));
            }
            EngineReport::CallStarted { call, tool, arguments } => {
                self.engine_call_started(call, tool, arguments);
            }
            EngineReport::CallFinished { call, result } => self.engine_call_finished(&call, result),
            EngineReport::Calls { request } => self.engine_calls(*request),
            EngineReport::Abandons { call } => self.engine_abandons(&call),
            EngineReport::Wants { reference, call, wants, cwd } => {
                self.engine_wants(reference, call, *wants, cwd.as_deref());
            }
            EngineReport::Asks { reference, question } => self.engine_asks(reference, question),
            EngineReport::Withdrawn { reference } => self.engine_withdraws(&reference),
            EngineReport::Used { model, tokens } => {
                self.record(EngineUsage { model: model.unwrap_or(engine), tokens });
            }
            EngineReport::Note { warning: true, text } => {
                self.record(SessionWarning { warning_type: engine, message: text, url: None });
            }
            EngineReport::Note { warning: false, text } => {
                self.record(SessionInfo { info_type: engine, message: text, url: None, tip: None });
            }
        }
    }

    fn engine_said(
        &mut self,
        message_id: String,
        text: String,
        reasoning: Option<String>,
        model: Option<String>,
    ) {
        let Some(turn) = self.turn() else { return };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name(None)));
        if let Some(content) = &reasoning {
            let reasoning_id = self.stamp.text_id();
            self.record(Reasoning { reasoning_id, content: content.clone() });
        }
        self.record(AssistantMessage {
            message_id,
            model,
            content: text,
            tool_requests: Vec::new(),
            interaction_id,
            turn_id,
            reasoning_text: reasoning,
            reasoning_opaque: None,
            citations: None,
            output_tokens: None,
            api_call_id: None,
            request_id: None,
            tokens: None,
            parent_tool_call_id: None,
        });
    }

    /// Records the start of a call, once.
    fn engine_call_started(&mut self, call: ToolCallId, tool: String, arguments: Json) {
        let Some(turn) = self.turn() else { return };
        if turn.call(&call.clone().into()).is_some() {
            return;
        }
        let turn_id = Some(turn.round_name(None));
        self.record(ToolStart {
            tool_call_id: call,
            tool_name: tool,
            arguments: Some(arguments),
            turn_id,
            model: None,
            parent_tool_call_id: None,
            mcp_server_name: None,
            mcp_tool_name: None,
            tool_title: None,
        });
    }

    /// Executes a call of a tool of the session, exactly as one of the session's own model: hooks, policy, limits and
    /// cancel are the same. The engine gets the result when the call ends.
    fn engine_calls(&mut self, request: ToolRequest) {
        let Some(turn) = self.turn() else { return };
        let key = CallKey::from(request.tool_call_id.clone());
        if turn.call(&key).is_some() {
            return;
        }
        let turn_id = Some(turn.round_name(None));
        self.record(ToolStart {
            tool_call_id: request.tool_call_id.clone(),
            tool_name: request.name,
            arguments: request.arguments,
            turn_id,
            model: None,
            parent_tool_call_id: None,
            mcp_server_name: request.mcp_server_name,
            mcp_tool_name: request.mcp_tool_name,
            tool_title: request.tool_title,
        });
        self.session.live.engine_calls.insert(request.tool_call_id);
        self.start(Work::PrepareCall { call: key });
    }

    /// Ends a call that the engine no longer waits for.
    fn engine_abandons(&mut self, id: &ToolCallId) {
        if !self.session.live.engine_calls.contains(id) {
            return;
        }
        let key = CallKey::from(id.clone());
        self.stop_where(|work| match work {
            Work::PrepareCall { call } | Work::RunTool { call, .. } => *call == key,
            _ => false,
        });
        self.interrupt_calls(|call| call.id == *id, "the engine has cancelled the call");
    }

    /// Whether the session executes a call for the engine.
    pub(super) fn is_for_engine(&self, call: &ToolCallId) -> bool {
        self.session.live.engine_calls.contains(call)
    }

    /// Records the end of a call, and closes its request.
    fn engine_call_finished(&mut self, id: &ToolCallId, result: ToolResult) {
        // The session executes this one, and knows when it ends.
        if self.is_for_engine(id) {
            return;
        }
        let key = CallKey::from(id.clone());
        let Some(call) = self.turn().and_then(|turn| turn.call(&key)).cloned() else { return };
        self.close_request(&call, "the engine continued without an answer");
        self.complete_call(&key, result);
    }

    /// Decides about a permission request, or asks clients. A request gets a call of its own if the engine names one that
    /// has a request already, or one that the session executes: the answer would be taken for that of the other request.
    fn engine_wants(
        &mut self,
        reference: String,
        call: Option<ToolCallId>,
        wants: PermissionRequest,
        cwd: Option<&Path>,
    ) {
        let is_free = |call: &Call| !call.stage.is_done() && call.stage.request().is_none();
        let known = call.filter(|id| {
            let call = self.turn().and_then(|turn| turn.call(&id.clone().into()));
            call.is_some_and(is_free) && !self.is_for_engine(id)
        });
        let call = known.unwrap_or_else(|| self.placeholder_call("permission", &wants));
        let verdict = match self.decide(&wants, Advice::None, cwd) {
            Ok(Permitted::Yes) => Verdict::ApproveOnce,
            Ok(Permitted::No) => Verdict::DeniedByRules,
            Err(asked) => {
                let request = self.ask_permission(None, wants.for_call(&call), &asked);
                self.session.live.engine_references.insert(request, reference);
                return;
            }
        };
        self.finish_placeholder(&call, result_of_decision(&verdict));
        self.tell(EngineControl::Decide { reference, verdict });
    }

    /// Asks the user a question of the engine.
    fn engine_asks(&mut self, reference: String, question: UserQuestion) {
        let call = self.placeholder_call("ask_user", &question);
        let question = Question::UserInput(question);
        let request_id = RequestId(self.stamp.text_id());
        self.record(RequestOpened {
            request_id: request_id.clone(),
            tool_call_id: Some(call.clone()),
            question: question.clone(),
        });
        self.session.live.engine_references.insert(request_id.clone(), reference);
        self.show_question(&request_id, &call, &question);
        self.deliver_questions();
    }

    /// Closes a request that the engine no longer waits for.
    fn engine_withdraws(&mut self, reference: &str) {
        let references = &mut self.session.live.engine_references;
        let Some((request, _)) = references.iter().find(|(_, known)| *known == reference) else { return };
        let request = request.clone();
        references.remove(&request);
        let is_its_call = |call: &&Call| call.stage.request() == Some(&request);
        let Some(call) = self.turn().and_then(|turn| turn.calls.iter().find(is_its_call)).cloned() else {
            return;
        };
        let reason = "the engine continued without an answer";
        self.close_request(&call, reason);
        self.finish_placeholder(&call.id, ToolResult::failure(reason));
    }

    /// Records a call that carries a request of the engine, for a request without a call.
    fn placeholder_call(&mut self, tool: &str, about: &impl serde::Serialize) -> ToolCallId {
        let call = ToolCallId(self.stamp.text_id());
        let arguments = Json::from_value(about).unwrap_or_else(|_| Json::empty_object());
        self.engine_call_started(call.clone(), tool.to_owned(), arguments);
        self.session.live.placeholder_calls.insert(call.clone());
        call
    }

    /// Ends a call, if it is a placeholder. The engine reports the end of its own calls.
    fn finish_placeholder(&mut self, call: &ToolCallId, result: ToolResult) {
        if self.session.live.placeholder_calls.remove(call) {
            self.complete_call(&call.clone().into(), result);
        }
    }

    /// Passes a decision to the engine. A grant is passed on as a single approval: what the engine covers "for this session"
    /// is wider than what the user was shown, so the engine has to ask again, and the policy applies the grant.
    pub(super) fn tell_decision(&mut self, request: &RequestId, call: &ToolCallId, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => Verdict::ApproveOnce,
            other => other,
        };
        self.finish_placeholder(call, result_of_decision(&verdict));
        if let Some(reference) = self.session.live.engine_references.remove(request) {
            self.tell(EngineControl::Decide { reference, verdict });
        }
    }

    /// Passes an answer of the user to the engine.
    pub(super) fn tell_answer(&mut self, request: &RequestId, answer: &str, was_freeform: bool) {
        if let Some(reference) = self.session.live.engine_references.remove(request) {
            self.tell(EngineControl::Answer { reference, answer: answer.to_owned(), was_freeform });
        }
    }

    /// Ends the turn with the end of the engine's work.
    pub(super) fn engine_finished(&mut self, outcome: Result<(), SessionError>) {
        let Some(turn) = self.turn().cloned() else { return };
        self.interrupt_calls(|_| true, "the engine has ended");
        self.forget_engine();
        let (outcome, reason) = match outcome {
            Ok(()) => (Outcome::Completed, "the engine has answered".to_owned()),
            Err(error) => {
                let reason = error.message.clone();
                self.record(error);
                (Outcome::Failed, reason)
            }
        };
        self.record(TurnEnd { turn_id: turn.round_name(None), model: None });
        self.settle(turn.prompts, outcome, reason);
        self.start_next_or_idle();
    }

    /// Ends the turn of an engine that was started without approvals, because a deny rule now stands. The program does not
    /// ask before it acts, so nothing else can hold it to the rule. The next turn starts it with approvals.
    pub(super) fn end_unsupervised_engine(&mut self) {
        if !self.session.live.allow_all || !self.is_driven() {
            return;
        }
        self.stop_where(|work| matches!(work, Work::Drive { .. }));
        let message = "stopped: the engine was started without approvals, and a deny rule was added";
        self.engine_finished(Err(SessionError {
            error_type: "permission".to_owned(),
            message: message.to_owned(),
            ..SessionError::default()
        }));
    }

    /// Interrupts the turn of an engine after a crash. The queue continues.
    pub(super) fn engine_lost(&mut self) {
        let Some(turn) = self.turn().cloned() else { return };
        self.interrupt_calls(|_| true, "the server stopped");
        self.record(TurnEnd { turn_id: turn.round_name(None), model: None });
        self.settle(turn.prompts, Outcome::Interrupted, "the server stopped while the engine was running");
        self.start_next_or_idle();
    }

    /// Forgets the requests of the engine.
    pub(super) fn forget_engine(&mut self) {
        self.session.live.engine_references.clear();
        self.session.live.placeholder_calls.clear();
        self.session.live.engine_calls.clear();
    }
}

/// Returns the result of a placeholder call for a permission request.
fn result_of_decision(verdict: &Verdict) -> ToolResult {
    match verdict {
        // A rejection does not end the turn here: the engine decides how to continue.
        Verdict::Reject { .. } | Verdict::UserNotAvailable | Verdict::DeniedByRules => {
            ToolResult { result_type: ResultType::Denied, ..denial(verdict) }
        }
        _ => ToolResult::success("Allowed"),
    }
}
