//! Turns that another agent's program works on.
//!
//! The program has rounds of its own; here a turn is one piece of work that reports what happens inside it. What it asks
//! becomes a request like any other: shown to everybody, answered once. What it does is recorded as our own tools are.
//! After a crash there is nobody left who could be answered: the turn is closed as interrupted, and the program's own name
//! of the conversation is kept, so that the next prompt goes on with it.

use std::path::Path;

use baton_protocol::event::{
    AssistantMessage, EngineThread, EngineTurn, EngineUsage, Outcome, Question, Reasoning, RequestOpened,
    SessionError, SessionInfo, SessionWarning, ToolStart, TurnEnd, TurnStart, UserQuestion,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{Json, RequestId, ToolCallId};

use super::Step;
use crate::output::{EngineControl, Output, Work, WorkId, denial};
use crate::policy::{Advice, Decision};
use crate::results::EngineReport;
use crate::state::{Call, CallKey};

impl Step<'_> {
    /// Whether an engine works on the running turn.
    pub(super) fn is_driven(&self) -> bool {
        self.turn().is_some_and(|turn| turn.engine.is_some())
    }

    /// Gives the turn that has just been opened to an engine.
    pub(super) fn drive(&mut self, engine: String, prompt: String) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, interaction_id) = (turn.rounds.to_string(), Some(turn.interaction.clone()));
        self.record(TurnStart { turn_id, interaction_id, model: Some(engine.clone()) });
        self.record(EngineTurn { engine: engine.clone() });
        let token = self.session.durable.facts.threads.get(&engine).cloned();
        self.start(Work::Drive { engine, prompt, token });
    }

    pub(super) fn steer_engine(&mut self, prompt: String) {
        self.tell(EngineControl::Steer(prompt));
    }

    fn tell(&mut self, control: EngineControl) {
        let driving = self.session.live.work.iter().find(|(_, work)| matches!(work, Work::Drive { .. }));
        if let Some((id, _)) = driving {
            self.out.push(Output::Tell(*id, control));
        }
    }

    /// The engine says what it does. What comes from work that was stopped belongs to a turn that has had its outcome.
    pub(super) fn reported(&mut self, work: WorkId, report: EngineReport) {
        let Some(Work::Drive { engine, .. }) = self.session.live.work.get(&work).cloned() else { return };
        match report {
            EngineReport::Thread(token) => {
                if self.session.durable.facts.threads.get(&engine) != Some(&token) {
                    self.record(EngineThread { engine, token });
                }
            }
            EngineReport::Said { message_id, text, reasoning, model } => {
                self.engine_said(message_id, text, reasoning, model.or(Some(engine)));
            }
            EngineReport::CallStarted { call, tool, arguments } => self.call_begun(call, tool, arguments),
            EngineReport::CallFinished { call, result } => self.call_over(&call, result),
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

    /// Records that a call has begun. A program that begins the same call twice has begun it once.
    fn call_begun(&mut self, call: ToolCallId, tool: String, arguments: Json) {
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
        });
    }

    /// The engine is done with a call. If it was waiting for an answer, it does not any more.
    fn call_over(&mut self, id: &ToolCallId, result: ToolResult) {
        let key = CallKey::from(id.clone());
        let Some(call) = self.turn().and_then(|turn| turn.call(&key)).cloned() else { return };
        self.close_request(&call, "the engine went on without an answer");
        self.complete_call(&key, result);
    }

    fn engine_wants(
        &mut self,
        reference: String,
        call: Option<ToolCallId>,
        wants: PermissionRequest,
        cwd: Option<&Path>,
    ) {
        let known = call.filter(|id| {
            self.turn().and_then(|t| t.call(&id.clone().into())).is_some_and(|c| !c.stage.is_done())
        });
        let call = known.unwrap_or_else(|| self.stand_in("permission", &wants));
        let verdict = match self.judge(&wants, Advice::None, cwd) {
            Decision::Allow(_) => Verdict::ApproveOnce,
            Decision::Deny(_) => Verdict::DeniedByRules,
            Decision::Ask(reason) => {
                let request = self.ask_permission(None, wants.for_call(&call), &reason, cwd);
                self.session.live.references.insert(request, reference);
                return;
            }
        };
        self.finish_stand_in(&call, result_of_decision(&verdict));
        self.tell(EngineControl::Decide { reference, verdict });
    }

    fn engine_asks(&mut self, reference: String, question: UserQuestion) {
        let call = self.stand_in("ask_user", &question);
        let question = Question::UserInput(question);
        let request_id = RequestId(self.stamp.text_id());
        self.record(RequestOpened {
            request_id: request_id.clone(),
            tool_call_id: Some(call.clone()),
            question: question.clone(),
        });
        self.session.live.references.insert(request_id.clone(), reference);
        self.show_question(&request_id, &call, &question);
        self.deliver_questions();
    }

    /// The engine has gone on without an answer: nobody needs to give one any more.
    fn engine_withdraws(&mut self, reference: &str) {
        let references = &mut self.session.live.references;
        let Some((request, _)) = references.iter().find(|(_, known)| *known == reference) else { return };
        let request = request.clone();
        references.remove(&request);
        let waiting = |call: &&Call| call.stage.request() == Some(&request);
        let Some(call) = self.turn().and_then(|turn| turn.calls.iter().find(waiting)).cloned() else {
            return;
        };
        let reason = "the engine went on without an answer";
        self.close_request(&call, reason);
        self.finish_stand_in(&call.id, ToolResult::failure(reason));
    }

    /// A call that stands for a question, where the engine has begun none of its own.
    fn stand_in(&mut self, tool: &str, about: &impl serde::Serialize) -> ToolCallId {
        let call = ToolCallId(self.stamp.text_id());
        let arguments = Json::from_value(about).unwrap_or_else(|_| Json::empty_object());
        self.call_begun(call.clone(), tool.to_owned(), arguments);
        self.session.live.stand_ins.insert(call.clone());
        call
    }

    fn finish_stand_in(&mut self, call: &ToolCallId, result: ToolResult) {
        if self.session.live.stand_ins.remove(call) {
            self.complete_call(&call.clone().into(), result);
        }
    }

    /// Passes a decision on. What the engine does about it, it reports. A grant stays here: the program's own idea of what
    /// is "for this session" covers more than the person was shown, so it is told of a single approval and asks again.
    pub(super) fn tell_decision(&mut self, request: &RequestId, call: &ToolCallId, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => Verdict::ApproveOnce,
            other => other,
        };
        self.finish_stand_in(call, result_of_decision(&verdict));
        if let Some(reference) = self.session.live.references.remove(request) {
            self.tell(EngineControl::Decide { reference, verdict });
        }
    }

    pub(super) fn tell_answer(&mut self, request: &RequestId, answer: &str, was_freeform: bool) {
        if let Some(reference) = self.session.live.references.remove(request) {
            self.tell(EngineControl::Answer { reference, answer: answer.to_owned(), was_freeform });
        }
    }

    /// The engine has done its work.
    pub(super) fn driven(&mut self, outcome: Result<(), SessionError>) {
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
        self.go_on_or_rest();
    }

    /// The server has stopped while an engine was at work: its turn cannot be carried on, the prompts after it can.
    pub(super) fn engine_lost(&mut self) {
        let Some(turn) = self.turn().cloned() else { return };
        self.interrupt_calls(|_| true, "the server stopped");
        self.record(TurnEnd { turn_id: turn.round_name(None), model: None });
        self.settle(turn.prompts, Outcome::Interrupted, "the server stopped while the engine was at work");
        self.go_on_or_rest();
    }

    pub(super) fn forget_engine(&mut self) {
        self.session.live.references.clear();
        self.session.live.stand_ins.clear();
    }
}

/// What came of a call that stood for a question.
fn result_of_decision(verdict: &Verdict) -> ToolResult {
    match verdict {
        // The engine ends its turn in its own way; a refusal is not the end of ours.
        Verdict::Reject { .. } | Verdict::UserNotAvailable | Verdict::DeniedByRules => {
            ToolResult { result_type: ResultType::Denied, ..denial(verdict) }
        }
        _ => ToolResult::success("Allowed"),
    }
}
