//! The rounds of a turn: ask the model, work on its calls, ask again, until it makes none.

use std::path::Path;

use baton_protocol::event::{
    AssistantMessage, AssistantUsage, CallAmended, ExternalToolRequested, Outcome, PermissionMode,
    PermissionRequested, Reasoning, RequestOpened, SessionError, ToolComplete, ToolCompleteError,
    ToolCompleteResult, ToolStart, TurnEnd, TurnStart, UserMessage,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{AgentId, RequestId, ToolCallId};

use super::Step;
use crate::output::Work;
use crate::policy::{self, Advice, Decision, Reason, Situation};
use crate::results::{Prepared, Route, Said};
use crate::state::{Call, CallKey, CallStage, Session};

/// What the model is told when a deny rule names what it wants.
fn denied_by_rule() -> ToolResult {
    let text = "Permission denied by a rule of this session";
    ToolResult { result_type: ResultType::Denied, ..ToolResult::failure(text) }
}

/// What a sub-agent is told that wants to do what only the main conversation can.
const NOT_FOR_AGENTS: &str =
    "This cannot be done by a sub-agent. Go on without it, and say in your answer what is missing.";

impl Step<'_> {
    /// Asks the model: of the main conversation, or of a sub-agent.
    pub(super) fn ask(&mut self, agent: Option<AgentId>) {
        let Some(turn) = self.turn() else { return };
        let turn_id = turn.rounds_of(agent.as_ref()).to_string();
        let interaction_id = Some(turn.interaction.clone());
        self.record_for(agent.as_ref(), TurnStart { turn_id, interaction_id, model: None });
        self.start(Work::Ask { agent });
    }

    /// The model has answered.
    pub(super) fn answered(&mut self, agent: Option<&AgentId>, mut said: Said) {
        let Some(turn) = self.turn() else { return };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name(agent)));
        let parent_tool_call_id = self.parent_call(agent);
        self.show_for(
            agent,
            AssistantUsage { parent_tool_call_id: parent_tool_call_id.clone(), ..said.usage },
        );
        if let Some(content) = &said.reasoning {
            let reasoning_id = self.stamp.text_id();
            self.record_for(agent, Reasoning { reasoning_id, content: content.clone() });
        }
        self.record_for(
            agent,
            AssistantMessage {
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
                parent_tool_call_id: parent_tool_call_id.clone(),
                tokens: Some(said.tokens),
            },
        );
        for request in &said.tool_requests {
            self.record_for(
                agent,
                ToolStart {
                    tool_call_id: request.tool_call_id.clone(),
                    tool_name: request.name.clone(),
                    arguments: request.arguments.clone(),
                    turn_id: turn_id.clone(),
                    model: said.model.clone(),
                    parent_tool_call_id: parent_tool_call_id.clone(),
                },
            );
            if let Some(result) = said.refused.remove(&request.tool_call_id) {
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

    /// The call that a sub-agent works for.
    fn parent_call(&self, agent: Option<&AgentId>) -> Option<ToolCallId> {
        Some(self.turn()?.agent(agent?)?.call.clone())
    }

    /// The model could not be asked: the turn fails, and says why.
    pub(super) fn ask_failed(&mut self, error: SessionError) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, prompts) = (turn.round_name(None), turn.prompts.clone());
        let reason = error.message.clone();
        self.dismiss_agents(Outcome::Failed, &reason);
        self.record(error);
        self.record(TurnEnd { turn_id, model: None });
        self.settle(prompts, Outcome::Failed, reason);
        self.go_on_or_rest();
    }

    /// It is known what a call would do: ask somebody, run it, or be done with it.
    pub(super) fn call_prepared(&mut self, key: &CallKey, prepared: Prepared) {
        let CallKey { agent, id } = key;
        match prepared {
            Prepared::Finished(result) => self.tool_finished(key, result),
            // One that waited for itself, or for one that waits for it, would never end.
            Prepared::Delegate(_) | Prepared::Question(_) | Prepared::AfterAgent(_) if agent.is_some() => {
                self.tool_finished(key, ToolResult::failure(NOT_FOR_AGENTS));
            }
            Prepared::Delegate(task) => self.delegate(id, *task),
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
                let Some(wants) = wants else { return self.run_call(key, route) };
                match self.judge(&wants, advice, cwd.as_deref()) {
                    Decision::Allow(_) => self.run_call(key, route),
                    Decision::Deny(_) => self.tool_finished(key, denied_by_rule()),
                    Decision::Ask(reason) => {
                        self.ask_permission(agent.as_ref(), wants.for_call(id), &reason, cwd.as_deref());
                    }
                }
            }
        }
    }

    pub(super) fn ask_permission(
        &mut self,
        agent: Option<&AgentId>,
        wants: PermissionRequest,
        reason: &Reason,
        cwd: Option<&Path>,
    ) -> RequestId {
        let wants = self.explained(wants, reason, cwd);
        let request_id = RequestId(self.stamp.text_id());
        let requested = PermissionRequested {
            request_id: request_id.clone(),
            prompt_request: Some(wants.as_prompt()),
            permission_request: wants,
            resolved_by_hook: None,
        };
        self.record_for(agent, requested);
        request_id
    }

    /// Completes a request with what the policy knows: whether a grant can be offered, and why somebody is asked.
    fn explained(&self, wants: PermissionRequest, reason: &Reason, cwd: Option<&Path>) -> PermissionRequest {
        let territory = self.session.durable.territory(&self.session.live, cwd);
        let mut wants = policy::with_offers(wants, &territory);
        if let (PermissionRequest::Shell { warning, .. }, Reason::MayBeDenied(_)) = (&mut wants, reason) {
            *warning = Some(reason.to_string());
        }
        wants
    }

    /// Decides about a request, by the rules and grants of this moment.
    pub(super) fn judge(&self, wants: &PermissionRequest, advice: Advice, cwd: Option<&Path>) -> Decision {
        let Session { durable, live, .. } = &*self.session;
        let mode = if live.allow_all { PermissionMode::AllowAll } else { durable.facts.permissions };
        self.judge_in(mode, wants, advice, cwd)
    }

    /// The same, in another mode than the session's.
    pub(super) fn judge_in(
        &self,
        mode: PermissionMode,
        wants: &PermissionRequest,
        advice: Advice,
        cwd: Option<&Path>,
    ) -> Decision {
        let Session { durable, live, .. } = &*self.session;
        let situation = Situation {
            mode,
            rules: &durable.rules,
            grants: &durable.grants,
            territory: &durable.territory(live, cwd),
            advice,
            cwd: &durable.facts.context.cwd,
        };
        policy::decide(wants, &situation)
    }

    /// Runs a call that may run. Who owns a client's tool is looked up now, not when the model was told of it.
    pub(super) fn run_call(&mut self, key: &CallKey, route: Route) {
        let Some(call) = self.turn().and_then(|turn| turn.call(key)).cloned() else { return };
        match route {
            Route::BuiltIn => self.start(Work::RunTool { call: key.clone() }),
            Route::Client => self.call_client(call),
        }
    }

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

    /// A call is over.
    pub(super) fn tool_finished(&mut self, key: &CallKey, result: ToolResult) {
        self.complete_call(key, result);
        self.end_round_if_over(key.agent.as_ref());
    }

    /// Records the end of a call. Exactly once for each: a call that is over takes no second end.
    pub(super) fn complete_call(&mut self, key: &CallKey, result: ToolResult) {
        let Some(turn) = self.turn() else { return };
        let agent = key.agent.as_ref();
        if turn.call(key).is_none_or(|call| call.stage.is_done()) {
            return;
        }
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
                binary_results_for_llm: result.binary_results_for_llm,
            }),
            error,
            tool_telemetry: result.tool_telemetry,
            parent_tool_call_id: self.parent_call(agent),
        };
        self.record_for(agent, complete);
    }

    /// Once all calls of a round are over, the next round begins or the turn ends.
    pub(super) fn end_round_if_over(&mut self, agent: Option<&AgentId>) {
        match agent {
            Some(agent) => self.end_agent_round_if_over(agent),
            None => self.end_main_round_if_over(),
        }
    }

    fn end_main_round_if_over(&mut self) {
        let Some(turn) = self.turn() else { return };
        let calls: Vec<&Call> = turn.calls_of(None).collect();
        if turn.engine.is_some() || calls.iter().any(|call| !call.stage.is_done()) {
            return;
        }
        let (turn_id, made_calls) = (turn.round_name(None), !calls.is_empty());
        let (has_news, agents_work) = (turn.has_news, turn.working_agents().next().is_some());
        let stop = turn.stop.clone().or_else(|| self.terminal_tool(&calls));
        self.record(TurnEnd { turn_id, model: None });
        match stop {
            Some(reason) => self.complete_turn(reason),
            None if made_calls && self.prepare_steering() => {}
            None if made_calls || has_news => self.ask(None),
            None if agents_work => self.rest_until_agents_end(),
            None if self.session.live.clients.values().any(|client| client.hooks) => self.start(Work::Review),
            None => self.complete_turn("the model has answered".into()),
        }
    }

    /// Why the turn ends here, if one of these calls succeeded and its tool is declared to end turns.
    fn terminal_tool(&self, calls: &[&Call]) -> Option<String> {
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
        self.ask(None);
    }

    fn complete_turn(&mut self, reason: String) {
        self.dismiss_agents(Outcome::Completed, &reason);
        let prompts = self.turn().map(|turn| turn.prompts.clone()).unwrap_or_default();
        self.settle(prompts, Outcome::Completed, reason);
        self.go_on_or_rest();
    }

    /// After a turn: the next prompt, or rest.
    pub(super) fn go_on_or_rest(&mut self) {
        if self.next_in_line().is_none() && !self.session.is_running_command() {
            self.show_idle(false);
        } else {
            self.open_next_turn();
        }
    }
}
