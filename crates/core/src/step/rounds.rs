//! Rounds of a turn: call the model, run its tool calls, and repeat until it makes none.

use baton_protocol::engine::EngineControl;
use baton_protocol::event::{
    AssistantMessage, AssistantUsage, CallAmended, ExternalToolRequested, Outcome, Reasoning, RequestOpened,
    SessionError, SkillInvoked, ToolComplete, ToolCompleteError, ToolCompleteResult, ToolStart, TurnEnd,
    TurnStart, UserMessage,
};
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{AgentId, RequestId, ToolCallId};

use super::Step;
use super::permissions::{Permit, Permitted};
use crate::output::Work;
use crate::results::{ModelReply, Prepared, Route};
use crate::state::{Call, CallKey, CallStage};

/// Returns the result of a call that a deny rule names, for the model.
fn denied_by_rule() -> ToolResult {
    let text = "Permission denied by a rule of this session";
    ToolResult { result_type: ResultType::Denied, ..ToolResult::failure(text) }
}

/// Result of a sub-agent's call that only the main conversation can make, for the model.
const NOT_FOR_AGENTS: &str =
    "This cannot be done by a sub-agent. Continue without it, and say in your answer what is missing.";

impl Step<'_> {
    /// Starts a round: calls the model of the main conversation, or of a sub-agent.
    pub(super) fn start_round(&mut self, agent: Option<AgentId>) {
        let Some(turn) = self.turn() else { return };
        let turn_id = turn.rounds_of(agent.as_ref()).to_string();
        let interaction_id = Some(turn.interaction.clone());
        self.record_for(agent.as_ref(), TurnStart { turn_id, interaction_id, model: None });
        self.start(Work::CallModel { agent });
    }

    /// Records the answer of the model, and prepares its calls.
    pub(super) fn model_answered(&mut self, agent: Option<&AgentId>, mut reply: ModelReply) {
        let Some(turn) = self.turn() else { return };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name(agent)));
        let parent_tool_call_id = self.parent_call(agent);
        self.show_for(
            agent,
            AssistantUsage { parent_tool_call_id: parent_tool_call_id.clone(), ..reply.usage },
        );
        if let Some(content) = &reply.reasoning {
            let reasoning_id = self.stamp.text_id();
            self.record_for(agent, Reasoning { reasoning_id, content: content.clone() });
        }
        self.record_for(
            agent,
            AssistantMessage {
                message_id: reply.message_id,
                model: reply.model.clone(),
                content: reply.text,
                tool_requests: reply.tool_requests.clone(),
                interaction_id,
                turn_id: turn_id.clone(),
                reasoning_text: reply.reasoning,
                reasoning_opaque: reply.reasoning_opaque,
                citations: reply.citations,
                output_tokens: Some(reply.tokens.output),
                api_call_id: reply.api_call_id,
                request_id: None,
                parent_tool_call_id: parent_tool_call_id.clone(),
                tokens: Some(reply.tokens),
            },
        );
        for request in &reply.tool_requests {
            self.record_for(
                agent,
                ToolStart {
                    tool_call_id: request.tool_call_id.clone(),
                    tool_name: request.name.clone(),
                    arguments: request.arguments.clone(),
                    turn_id: turn_id.clone(),
                    model: reply.model.clone(),
                    parent_tool_call_id: parent_tool_call_id.clone(),
                    mcp_server_name: request.mcp_server_name.clone(),
                    mcp_tool_name: request.mcp_tool_name.clone(),
                    tool_title: request.tool_title.clone(),
                },
            );
            if let Some(result) = reply.refused.remove(&request.tool_call_id) {
                let id = request.tool_call_id.clone();
                self.complete_call(&CallKey { agent: agent.cloned(), id }, result);
            }
        }
        let open: Vec<CallKey> = self
            .turn()
            .into_iter()
            .flat_map(|turn| turn.calls_of(agent))
            .filter(|call| !call.stage.is_done())
            .map(Call::key)
            .collect();
        for call in open {
            self.start(Work::PrepareCall { call });
        }
        self.end_round_if_over(agent);
    }

    /// Returns the call that started a sub-agent.
    fn parent_call(&self, agent: Option<&AgentId>) -> Option<ToolCallId> {
        Some(self.turn()?.agent(agent?)?.call.clone())
    }

    /// Fails the turn with the error of a model call.
    pub(super) fn fail_turn(&mut self, error: SessionError) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, prompts) = (turn.round_name(None), turn.prompts.clone());
        let reason = error.message.clone();
        self.end_all_agents(Outcome::Failed, &reason);
        self.record(error);
        self.record(TurnEnd { turn_id, model: None });
        self.settle(prompts, Outcome::Failed, reason);
        self.start_next_or_idle();
    }

    /// Handles a prepared call: runs it, asks for permission or an answer, or ends it.
    pub(super) fn call_prepared(&mut self, key: &CallKey, prepared: Prepared) {
        let CallKey { agent, id } = key;
        match prepared {
            Prepared::Finished(result) => self.tool_finished(key, result),
            // A sub-agent that waited for itself, or for one that waits for it, would never end.
            Prepared::Handoff { .. } | Prepared::Question(_) | Prepared::AfterAgent(_) if agent.is_some() => {
                self.tool_finished(key, ToolResult::failure(NOT_FOR_AGENTS));
            }
            Prepared::Handoff { task, limits } => match self.refusal_of_agent(limits) {
                Some(refusal) => self.tool_finished(key, ToolResult::failure(refusal)),
                None => self.delegate(id, *task),
            },
            Prepared::AfterAgent(agent) => self.run_after_agent(key, agent),
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
            Prepared::Runnable { route, wants, advice, cwd, arguments } => {
                if let Some(arguments) = arguments {
                    let amended = CallAmended { tool_call_id: id.clone(), arguments };
                    self.record_for(agent.as_ref(), amended);
                }
                let Some(wants) = wants else { return self.run_call(key, route, Permit::default()) };
                match self.decide(&wants, advice, cwd.as_deref()) {
                    Ok(Permitted::Yes) => {
                        self.run_call(key, route, Permit { binding: None, placed: wants.placed() });
                    }
                    Ok(Permitted::No) => self.tool_finished(key, denied_by_rule()),
                    Err(asked) => {
                        self.ask_permission(agent.as_ref(), wants.for_call(id), &asked);
                    }
                }
            }
        }
    }

    /// Runs a permitted call. The owner of a client tool is looked up when the call runs, not when the model was
    /// offered the tool.
    pub(super) fn run_call(&mut self, key: &CallKey, route: Route, permit: Permit) {
        let Permit { binding, placed } = permit;
        let Some(call) = self.turn().and_then(|turn| turn.call(key)).cloned() else { return };
        match route {
            Route::BuiltIn => self.start(Work::RunTool { call: key.clone(), binding, placed }),
            Route::Client => self.call_client(call),
        }
    }

    /// Opens a request to run a client tool.
    fn call_client(&mut self, call: Call) {
        let request_id = RequestId(self.stamp.text_id());
        let requested = ExternalToolRequested {
            request_id,
            session_id: self.session.id.clone(),
            tool_call_id: call.id,
            tool_name: call.tool,
            arguments: call.arguments,
            working_directory: Some(self.session.durable.facts.context.cwd.clone()),
            traceparent: None,
            tracestate: None,
        };
        self.record_for(call.agent.as_ref(), requested);
    }

    /// Ends a call, and the round if it was the last one.
    pub(super) fn tool_finished(&mut self, key: &CallKey, result: ToolResult) {
        self.complete_call(key, result);
        self.end_round_if_over(key.agent.as_ref());
    }

    /// Ends a call that loaded a skill. The skill follows the result in the same step: the next model call needs it.
    pub(super) fn skill_loaded(&mut self, key: &CallKey, result: ToolResult, skill: SkillInvoked) {
        let is_open = self.turn().and_then(|turn| turn.call(key)).is_some_and(|call| !call.stage.is_done());
        self.complete_call(key, result);
        if is_open {
            self.record_for(key.agent.as_ref(), skill);
        }
        self.end_round_if_over(key.agent.as_ref());
    }

    /// Records the end of a call. A call that is done is not ended again.
    pub(super) fn complete_call(&mut self, key: &CallKey, result: ToolResult) {
        let Some(turn) = self.turn() else { return };
        let agent = key.agent.as_ref();
        if turn.call(key).is_none_or(|call| call.stage.is_done()) {
            return;
        }
        let returned = self.is_for_engine(&key.id).then(|| result.clone());
        let success = result.result_type == ResultType::Success;
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name(agent)));
        let error = (!success).then(|| ToolCompleteError {
            message: result.error.clone().unwrap_or_else(|| result.text_result_for_llm.clone()),
            code: Some(result.result_type.as_str().to_owned()),
        });
        let complete = ToolComplete {
            tool_call_id: key.id.clone(),
            success,
            model: None,
            interaction_id,
            turn_id,
            result: Some(ToolCompleteResult {
                content: result.text_result_for_llm,
                detailed_content: result.session_log,
                contents: result.contents,
                structured_content: result.structured_content,
                binary_results_for_llm: result.binary_results_for_llm,
            }),
            error,
            tool_telemetry: result.tool_telemetry,
            parent_tool_call_id: self.parent_call(agent),
        };
        self.record_for(agent, complete);
        if let Some(result) = returned {
            self.session.live.engine_calls.remove(&key.id);
            let (call, result) = (key.id.clone(), Box::new(result));
            self.tell(EngineControl::Returns { call, result });
        }
    }

    /// Ends the round of a conversation, if all its calls are done.
    pub(super) fn end_round_if_over(&mut self, agent: Option<&AgentId>) {
        match agent {
            Some(agent) => self.end_agent_round_if_over(agent),
            None => self.end_main_round_if_over(),
        }
    }

    /// Ends the round of the main conversation, if all its calls are done: the next round starts, or the turn ends.
    fn end_main_round_if_over(&mut self) {
        let Some(turn) = self.turn() else { return };
        let calls: Vec<&Call> = turn.calls_of(None).collect();
        if turn.engine.is_some() || calls.iter().any(|call| !call.stage.is_done()) {
            return;
        }
        let (turn_id, made_calls) = (turn.round_name(None), !calls.is_empty());
        let (has_notification, agents_work) = (turn.has_notification, turn.working_agents().next().is_some());
        let stop = turn.stop.clone().or_else(|| self.terminal_tool(&calls));
        self.record(TurnEnd { turn_id, model: None });
        match stop {
            Some(reason) => self.complete_turn(reason),
            None if made_calls && self.prepare_steering() => {}
            None if made_calls || has_notification => self.start_round(None),
            None if agents_work => self.wait_for_agents(),
            None if self.session.live.clients.values().any(|client| client.hooks) => self.start(Work::Review),
            None => self.complete_turn("the model has answered".into()),
        }
    }

    /// Returns why the turn ends, if one of these calls succeeded and its tool is terminal.
    fn terminal_tool(&self, calls: &[&Call]) -> Option<String> {
        let mut specs =
            self.session.live.clients.values().flat_map(|client| &client.tools).filter(|t| t.is_terminal);
        let ended = |name: &str| {
            calls.iter().any(|call| call.tool == name && call.stage == CallStage::Done { success: true })
        };
        specs.find(|spec| ended(&spec.name)).map(|spec| format!("the tool {} ended the turn", spec.name))
    }

    /// Ends the turn, or starts a further round if a hook says so.
    pub(super) fn turn_reviewed(&mut self, go_on: Option<String>) {
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
        self.start_round(None);
    }

    /// Completes the turn.
    pub(super) fn complete_turn(&mut self, reason: String) {
        self.end_all_agents(Outcome::Completed, &reason);
        let prompts = self.turn().map(|turn| turn.prompts.clone()).unwrap_or_default();
        self.settle(prompts, Outcome::Completed, reason);
        self.start_next_or_idle();
    }

    /// Starts the next item of the queue after a turn, or shows that the session is idle.
    pub(super) fn start_next_or_idle(&mut self) {
        if self.next_item().is_none() && !self.session.is_running_command() {
            self.show_idle(false);
        } else {
            self.open_next_turn();
        }
    }
}
