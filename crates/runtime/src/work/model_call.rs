//! Model calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::{ModelReply, WorkResult};
use baton_model::retry::ask_with_retries;
use baton_model::{Carrier, Message, ModelResponse, Request, ToolDef, citations, estimate};
use baton_protocol::event::{AssistantUsage, TokenCounts, ToolRequest, UsageInfo};
use baton_protocol::{Json, ToolCallId};
use baton_providers::{ChosenModel, ModelCaller, interaction_type};
use serde_json::{Value, json};

use super::model_stream::ResponseStream;
use super::{WorkScope, compact, mcp_calls, model_failure, prompt, provider_wait, skills, sub_agents, tools};

/// Returns the conversation that calls a model, with its choice of model.
pub(super) fn caller(scope: &WorkScope) -> ModelCaller<'_> {
    ModelCaller {
        session: &scope.session.id,
        settings: scope.settings.providers(),
        clients: scope.hub.hub(),
        agent: scope.agent.as_ref(),
        model: match scope.delegate() {
            Some(agent) if agent.model.is_some() => agent.model.as_deref(),
            Some(_) => scope.session.durable.facts.model.as_deref(),
            None => {
                let own = scope.settings.agent_in_charge().and_then(|agent| agent.model.as_deref());
                own.or(scope.session.durable.facts.model.as_deref())
            }
        },
    }
}

/// Calls the model with the conversation so far, and shows its response to clients while it arrives. Waits for the provider
/// of a session that was taken over without it.
pub(super) async fn call(scope: &mut WorkScope) -> WorkResult {
    provider_wait::wait(scope).await;
    let scope = &*scope;
    let chosen = match scope.runtime.models.choose(&caller(scope)).await {
        Ok(chosen) => chosen,
        Err(error) => return model_failure::result(scope, &error, None).await,
    };
    let begins = begins_turn(scope);
    skills::load(scope).await;
    if let Some(sub_agent) = scope.delegate() {
        sub_agents::ready_servers(scope, &sub_agent.kind).await;
    }
    if scope.tools.mcp().ready(&scope.settings, prompt::cwd(scope), begins).await && begins {
        scope.tools.mcp().show_loaded(scope.session.durable.facts.model.as_deref());
    }
    let request = request(scope, &chosen).await;
    let usage = usage_info(&request, &chosen, scope);
    scope.show(usage.clone());
    compact::compact_if_due(scope, &usage);
    let mut stream = ResponseStream::new(scope);
    let begun = Instant::now();
    let mut attempt_begun = begun;
    let mut failures = Vec::new();
    let answer = {
        let mut sink = |delta| stream.push(delta);
        ask_with_retries(
            &scope.runtime.models.retries,
            &*chosen.model,
            &request,
            &mut sink,
            |error, _, pause| {
                let source = if scope.agent.is_some() { "subagent" } else { "top_level" };
                scope.show(model_failure::attempt(error, &chosen, attempt_begun, source, pause));
                attempt_begun = Instant::now();
                failures.push(error.clone());
            },
        )
        .await
    };
    stream.show();
    match answer {
        Ok(answer) => {
            let mut said = said(&stream, answer, &chosen, &usage, begun);
            said.tool_requests.iter_mut().for_each(|request| mcp_calls::named(scope, request));
            said.refused = tools::refuse_unknown(scope, &said.tool_requests);
            WorkResult::CallModel(Box::new(said))
        }
        Err(error) => {
            let partial = model_failure::partial(&failures, &stream.message_id);
            model_failure::result(scope, &error, partial).await
        }
    }
}

/// Builds the request for the next model call of the conversation.
pub(super) async fn request(scope: &WorkScope, chosen: &ChosenModel) -> Request {
    let system = match scope.conversation.system_of(scope.agent.as_ref()) {
        Some(system) => system.to_string(),
        None => prompt::system_text(scope, scope.session.durable.mode()).await,
    };
    let tools: Vec<ToolDef> = scope
        .tools_for_model()
        .into_iter()
        .map(|tool| ToolDef {
            name: tool.name,
            description: tool.description,
            parameters: tool
                .parameters
                .unwrap_or_else(|| Json::from(json!({ "type": "object", "properties": {} }))),
        })
        .collect();
    let overhead = estimate::text(&system) + tools.iter().map(estimate::tool).sum::<u64>();
    let budget = chosen.token_limit.saturating_sub(overhead);
    let mut messages = vec![Arc::new(Message::System(system))];
    messages.extend(scope.conversation.transcript_of(scope.agent.as_ref()).messages(chosen.vision, budget));
    Request {
        model: chosen.wire_name.clone(),
        messages,
        tools: tools.into(),
        stream: scope.settings.streaming,
        reasoning_effort: effort(scope),
        max_output_tokens: chosen.max_output_tokens,
        citations: scope.settings.citations,
        headers: scope.conversation.headers.clone().into_iter().collect(),
    }
}

/// Returns the reasoning effort. The session's choice is for its own model, and does not apply to a sub-agent's.
fn effort(scope: &WorkScope) -> Option<String> {
    let has_own_model = scope.delegate().is_some_and(|agent| agent.model.is_some());
    scope.session.durable.facts.reasoning_effort.clone().filter(|_| !has_own_model)
}

/// Estimates how much of the context window the request fills.
fn usage_info(request: &Request, chosen: &ChosenModel, scope: &WorkScope) -> UsageInfo {
    let (system, conversation) = request.messages.split_at(request.messages.len().min(1));
    let (system, conversation) = (estimate_messages(system), estimate_messages(conversation));
    let tools = request.tools.iter().map(estimate::tool).sum::<u64>();
    UsageInfo {
        token_limit: chosen.token_limit,
        current_tokens: system + conversation + tools,
        messages_length: request.messages.len() as u64,
        system_tokens: Some(system),
        conversation_tokens: Some(conversation),
        tool_definitions_tokens: Some(tools),
        is_initial: Some(is_first_round(scope)),
    }
}

/// Whether the model is called for the first time in the turn.
fn is_first_round(scope: &WorkScope) -> bool {
    scope.session.durable.turn.as_ref().is_some_and(|turn| turn.rounds_of(scope.agent.as_ref()) <= 1)
}

/// Whether the main conversation calls the model for the first time in the turn, also after a question about trust.
fn begins_turn(scope: &WorkScope) -> bool {
    let turn = scope.session.durable.turn.as_ref().filter(|_| scope.agent.is_none());
    turn.is_some_and(|turn| scope.tools.mcp().begins(&turn.interaction))
}

/// Estimates the tokens of messages.
pub(super) fn estimate_messages(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| estimate::message(message)).sum()
}

/// Returns the tokens of a call as its provider counted them. Counts that it does not report are estimated.
pub(super) fn token_counts(
    answer: &ModelResponse,
    sent: impl FnOnce() -> u64,
    duration: Duration,
) -> TokenCounts {
    let usage = answer.usage.unwrap_or_default();
    TokenCounts {
        input: if usage.input > 0 { usage.input } else { sent() },
        output: if usage.output > 0 { usage.output } else { estimate::text(&answer.text) },
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        reasoning: usage.reasoning,
        duration_ms: duration.as_millis() as u64,
    }
}

/// Builds the result of a call that succeeded, with its usage.
fn said(
    stream: &ResponseStream<'_>,
    answer: ModelResponse,
    chosen: &ChosenModel,
    sent: &UsageInfo,
    begun: Instant,
) -> ModelReply {
    let of_agent = stream.scope.agent.is_some();
    let model = answer.model.clone().unwrap_or_else(|| chosen.wire_name.clone());
    let tokens = token_counts(&answer, || sent.current_tokens, begun.elapsed());
    let (transport, scheme) = match answer.carrier {
        Carrier::Http => ("http", ""),
        Carrier::WebSocket => ("websocket", "ws:"),
    };
    let shown = AssistantUsage {
        model: model.clone(),
        input_tokens: Some(tokens.input),
        output_tokens: Some(tokens.output),
        cache_read_tokens: Some(tokens.cache_read),
        cache_write_tokens: Some(tokens.cache_write),
        reasoning_tokens: Some(tokens.reasoning),
        duration: Some(tokens.duration_ms),
        time_to_first_token_ms: stream.first_token.map(|at| at.duration_since(begun).as_secs_f64() * 1000.0),
        initiator: Some(if of_agent { "sub-agent" } else { "user" }.into()),
        interaction_type: Some(interaction_type(of_agent).into()),
        is_byok: Some(chosen.byok),
        api_call_id: answer.id.clone(),
        provider_call_id: answer.request_id.clone(),
        api_endpoint: Some(format!("{scheme}{}", chosen.model.endpoint())),
        transport: Some(transport.into()),
        finish_reason: Some(answer.finish.as_str().to_owned()),
        num_tool_calls: Some(answer.tool_calls.len() as u64),
        max_prompt_tokens: Some(chosen.token_limit),
        ..AssistantUsage::default()
    };
    let endpoint = chosen.model.endpoint();
    ModelReply {
        message_id: stream.message_id.clone(),
        citations: citations::to_json(&stream.message_id, endpoint, &answer.text, &answer.citations),
        text: answer.text,
        reasoning: answer.reasoning,
        reasoning_opaque: answer.reasoning_opaque,
        tool_requests: answer.tool_calls.into_iter().map(tool_request).collect(),
        refused: BTreeMap::new(),
        model: Some(model),
        api_call_id: answer.id,
        usage: shown,
        tokens,
    }
}

/// Converts a tool call for the history. Arguments that are not JSON are recorded as a string.
fn tool_request(call: baton_model::ToolCall) -> ToolRequest {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let arguments =
        Json::from_text(text).unwrap_or_else(|_| Json::from(Value::String(call.arguments.clone())));
    ToolRequest {
        tool_call_id: ToolCallId(call.id),
        name: call.name,
        arguments: Some(arguments),
        kind: Some("function".into()),
        mcp_server_name: None,
        mcp_tool_name: None,
        tool_title: None,
    }
}
