//! The rounds of a turn: ask the model, work on its calls, ask again, until it makes none.

use baton_protocol::event::{
    AssistantMessage, CallAmended, ExternalToolRequested, Outcome, PermissionMode, PermissionRequested,
    Reasoning, RequestOpened, SessionError, ToolComplete, ToolCompleteError, ToolCompleteResult, ToolStart,
    TurnEnd, TurnStart, UserMessage,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{RequestId, ToolCallId};

use super::Step;
use crate::input::{Prepared, Route, Said};
use crate::output::Work;
use crate::state::{Call, CallStage};

impl Step<'_> {
    /// Asks the model.
    pub(super) fn ask(&mut self) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, interaction_id) = (turn.rounds.to_string(), Some(turn.interaction.clone()));
        self.record(TurnStart { turn_id, interaction_id, model: None });
        self.start(Work::Ask);
    }

    /// The model has answered.
    pub(super) fn answered(&mut self, mut said: Said) {
        let Some(turn) = self.turn() else { return };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name()));
        self.show(said.usage);
        if let Some(content) = &said.reasoning {
            let reasoning_id = self.stamp.text_id();
            self.record(Reasoning { reasoning_id, content: content.clone() });
        }
        self.record(AssistantMessage {
            message_id: said.message_id,
            model: said.model.clone(),
            content: said.text,
            tool_requests: said.tool_requests.clone(),
            interaction_id,
            turn_id: turn_id.clone(),
            reasoning_text: said.reasoning,
            reasoning_opaque: said.reasoning_opaque,
            citations: said.citations,
            output_tokens: Some(said.tokens.output),
            api_call_id: said.api_call_id,
            request_id: None,
            tokens: Some(said.tokens),
        });
        for request in &said.tool_requests {
            self.record(ToolStart {
                tool_call_id: request.tool_call_id.clone(),
                tool_name: request.name.clone(),
                arguments: request.arguments.clone(),
                turn_id: turn_id.clone(),
                model: said.model.clone(),
            });
            if let Some(result) = said.refused.remove(&request.tool_call_id) {
                self.complete_call(&request.tool_call_id, result);
            }
        }
        let open: Vec<_> =
            self.turn().iter().flat_map(|turn| turn.open_calls()).map(|call| call.id.clone()).collect();
        for call in open {
            self.start(Work::PrepareCall { call });
        }
        self.end_round_if_over();
    }

    /// The model could not be asked: the turn fails, and says why.
    pub(super) fn ask_failed(&mut self, error: SessionError) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, prompts) = (turn.round_name(), turn.prompts.clone());
        let reason = error.message.clone();
        self.record(error);
        self.record(TurnEnd { turn_id, model: None });
        self.settle(prompts, Outcome::Failed, reason);
        self.go_on_or_rest();
    }

    /// It is known what a call would do: ask somebody, run it, or be done with it.
    pub(super) fn call_prepared(&mut self, id: &ToolCallId, prepared: Prepared) {
        match prepared {
            Prepared::Finished(result) => self.tool_finished(id, result),
            Prepared::Question(question) => {
                let request_id = RequestId(self.stamp.text_id());
                self.record(RequestOpened {
                    request_id: request_id.clone(),
                    tool_call_id: Some(id.clone()),
                    question: question.clone(),
                });
                self.show_question(&request_id, id, &question);
                self.deliver_questions();
            }
            Prepared::Runnable { route, wants, always_ask, arguments } => {
                if let Some(arguments) = arguments {
                    self.record(CallAmended { tool_call_id: id.clone(), arguments });
                }
                match wants {
                    Some(wants) if always_ask || !self.is_granted(&wants) => drop(self.ask_permission(wants)),
                    _ => self.run_call(id, route),
                }
            }
        }
    }

    pub(super) fn ask_permission(&mut self, wants: PermissionRequest) -> RequestId {
        let request_id = RequestId(self.stamp.text_id());
        self.record(PermissionRequested {
            request_id: request_id.clone(),
            prompt_request: Some(wants.as_prompt()),
            permission_request: wants,
            resolved_by_hook: None,
        });
        request_id
    }

    /// Whether no one needs to be asked.
    pub(super) fn is_granted(&self, wants: &PermissionRequest) -> bool {
        let durable = &self.session.durable;
        if durable.facts.permissions == PermissionMode::AllowAll {
            return true;
        }
        if let PermissionRequest::Shell { commands, has_write_file_redirection: false, .. } = wants {
            let granted = |id: &str| durable.approvals.iter().any(|approval| approval.covers_command(id));
            return !commands.is_empty() && commands.iter().all(|command| granted(&command.identifier));
        }
        durable.approvals.iter().any(|approval| approval.covers(wants))
    }

    /// Runs a call that may run. Who owns a client's tool is looked up now, not when the model was told of it.
    pub(super) fn run_call(&mut self, id: &ToolCallId, route: Route) {
        let Some(call) = self.turn().and_then(|turn| turn.call(id)).cloned() else { return };
        match route {
            Route::BuiltIn => self.start(Work::RunTool { call: id.clone() }),
            Route::Client => self.call_client(call),
        }
    }

    fn call_client(&mut self, call: Call) {
        let request_id = RequestId(self.stamp.text_id());
        self.record(ExternalToolRequested {
            request_id,
            session_id: self.session.id.clone(),
            tool_call_id: call.id,
            tool_name: call.tool,
            arguments: call.arguments,
            working_directory: Some(self.session.durable.facts.context.cwd.clone()),
            traceparent: None,
            tracestate: None,
        });
    }

    /// A call is over.
    pub(super) fn tool_finished(&mut self, id: &ToolCallId, result: ToolResult) {
        self.complete_call(id, result);
        self.end_round_if_over();
    }

    /// Records the end of a call. Exactly once for each: a call that is over takes no second end.
    pub(super) fn complete_call(&mut self, id: &ToolCallId, result: ToolResult) {
        let Some(turn) = self.turn() else { return };
        if turn.call(id).is_none_or(|call| call.stage.is_done()) {
            return;
        }
        let success = result.result_type == ResultType::Success;
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name()));
        let error = (!success).then(|| ToolCompleteError {
            message: result.error.clone().unwrap_or_else(|| result.text_result_for_llm.clone()),
            code: Some(result.result_type.as_str().to_owned()),
        });
        self.record(ToolComplete {
            tool_call_id: id.clone(),
            success,
            model: None,
            interaction_id,
            turn_id,
            result: Some(ToolCompleteResult {
                content: result.text_result_for_llm,
                detailed_content: result.session_log,
                contents: result.contents,
                binary_results_for_llm: result.binary_results_for_llm,
            }),
            error,
            tool_telemetry: result.tool_telemetry,
        });
    }

    /// Once all calls of a round are over, the next round begins or the turn ends.
    pub(super) fn end_round_if_over(&mut self) {
        let Some(turn) = self.turn() else { return };
        if turn.engine.is_some() || turn.open_calls().next().is_some() {
            return;
        }
        let (turn_id, made_calls) = (turn.round_name(), !turn.calls.is_empty());
        let stop = turn.rejected.clone().or_else(|| self.terminal_tool(&turn.calls));
        self.record(TurnEnd { turn_id, model: None });
        match stop {
            Some(reason) => self.complete_turn(reason),
            None if made_calls && self.prepare_steering() => {}
            None if made_calls => self.ask(),
            None if self.session.live.clients.values().any(|client| client.hooks) => self.start(Work::Review),
            None => self.complete_turn("the model has answered".into()),
        }
    }

    /// Why the turn ends here, if one of these calls succeeded and its tool is declared to end turns.
    fn terminal_tool(&self, calls: &[Call]) -> Option<String> {
        let mut specs =
            self.session.live.clients.values().flat_map(|client| &client.tools).filter(|t| t.is_terminal);
        let ended = |name: &str| {
            calls.iter().any(|call| call.tool == name && call.stage == CallStage::Done { success: true })
        };
        specs.find(|spec| ended(&spec.name)).map(|spec| format!("the tool {} ended the turn", spec.name))
    }

    /// Hooks have been asked whether the turn may end.
    pub(super) fn reviewed(&mut self, go_on: Option<String>) {
        let Some(turn) = self.turn() else { return };
        let Some(content) = go_on else { return self.complete_turn("the model has answered".into()) };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.rounds.to_string()));
        self.record(UserMessage {
            content,
            transformed_content: None,
            attachments: Vec::new(),
            agent_mode: None,
            delivery: None,
            interaction_id,
            turn_id,
            source: Some("hook".into()),
            message_id: None,
        });
        self.ask();
    }

    fn complete_turn(&mut self, reason: String) {
        let prompts = self.turn().map(|turn| turn.prompts.clone()).unwrap_or_default();
        self.settle(prompts, Outcome::Completed, reason);
        self.go_on_or_rest();
    }

    /// After a turn: the next prompt, or rest.
    pub(super) fn go_on_or_rest(&mut self) {
        if self.session.durable.inbox.is_empty() {
            self.show_idle(false);
        } else {
            self.open_next_turn();
        }
    }
}
