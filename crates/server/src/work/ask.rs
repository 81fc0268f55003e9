//! Asking the model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use baton_core::{Instead, Said, Unanswered, WorkResult};
use baton_model::retry::ask_with_retries;
use baton_model::{Answer, Carrier, Delta, ErrorKind, Message, ModelError, Request, ToolDef, estimate};
use baton_protocol::event::{
    AssistantUsage, MessageDelta, MessageStart, ModelCallFailure, ReasoningDelta, SessionError,
    StreamingDelta, TokenCounts, ToolCallDelta, ToolRequest, UsageInfo,
};
use baton_protocol::{Body, Json, ToolCallId};
use serde_json::{Value, json};

use super::{Bench, citations, compact, hooks, prompt, tools};
use crate::models::{Asker, Chosen, interaction_type};

/// Who asks.
pub(super) fn asker(bench: &Bench) -> Asker<'_> {
    Asker {
        session: &bench.session.id,
        settings: &bench.settings,
        hub: &bench.hub,
        agent: bench.agent.as_ref(),
        model: match bench.delegate() {
            Some(agent) if agent.model.is_some() => agent.model.as_deref(),
            Some(_) => bench.session.durable.facts.model.as_deref(),
            None => {
                let own = bench.settings.agent_in_charge().and_then(|agent| agent.model.as_deref());
                own.or(bench.session.durable.facts.model.as_deref())
            }
        },
    }
}

/// Asks the model with the conversation so far, and tells clients what it says while it says it.
pub(super) async fn ask(bench: &Bench) -> WorkResult {
    let chosen = match bench.server.models.choose(&asker(bench)).await {
        Ok(chosen) => chosen,
        Err(error) => return failed(bench, &error, None).await,
    };
    let request = request(bench, &chosen).await;
    let usage = usage_info(&request, &chosen, bench);
    bench.show(usage.clone());
    compact::compact_if_due(bench, &usage);
    let mut stream = Stream::new(bench);
    let begun = Instant::now();
    let mut attempt_begun = begun;
    let mut failures = Vec::new();
    let answer = {
        let mut sink = |delta| stream.take(delta);
        ask_with_retries(&bench.server.models.retries, &*chosen.model, &request, &mut sink, |error, _, _| {
            let source = if bench.agent.is_some() { "subagent" } else { "top_level" };
            bench.show(call_failure(error, &chosen, attempt_begun, source));
            attempt_begun = Instant::now();
            failures.push(error.clone());
        })
        .await
    };
    stream.show();
    match answer {
        Ok(answer) => {
            let mut said = said(&stream, answer, &chosen, &usage, begun);
            said.refused = tools::refuse_unknown(bench, &said.tool_requests);
            WorkResult::Ask(Box::new(said))
        }
        Err(error) => failed(bench, &error, partial(&failures, &stream.message_id)).await,
    }
}

pub(super) async fn request(bench: &Bench, chosen: &Chosen) -> Request {
    let system = match bench.conversation.system_of(bench.agent.as_ref()) {
        Some(system) => system.to_string(),
        None => prompt::system_text(bench, bench.session.durable.mode()).await,
    };
    let tools: Vec<ToolDef> = bench
        .offered()
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
    messages.extend(bench.conversation.transcript_of(bench.agent.as_ref()).messages(chosen.vision, budget));
    Request {
        model: chosen.wire_name.clone(),
        messages,
        tools: tools.into(),
        stream: bench.settings.streaming,
        reasoning_effort: effort(bench),
        max_output_tokens: chosen.max_output_tokens,
        citations: bench.settings.citations,
        headers: bench.conversation.headers.clone().into_iter().collect(),
    }
}

/// How hard the model should think. What was chosen for the session's model says nothing about an agent's own.
fn effort(bench: &Bench) -> Option<String> {
    let has_own_model = bench.delegate().is_some_and(|agent| agent.model.is_some());
    bench.session.durable.facts.reasoning_effort.clone().filter(|_| !has_own_model)
}

fn usage_info(request: &Request, chosen: &Chosen, bench: &Bench) -> UsageInfo {
    let tokens_of = |messages: &[Arc<Message>]| messages.iter().map(|m| estimate::message(m)).sum::<u64>();
    let (system, conversation) = request.messages.split_at(request.messages.len().min(1));
    let (system, conversation) = (tokens_of(system), tokens_of(conversation));
    let tools = request.tools.iter().map(estimate::tool).sum::<u64>();
    UsageInfo {
        token_limit: chosen.token_limit,
        current_tokens: system + conversation + tools,
        messages_length: request.messages.len() as u64,
        system_tokens: Some(system),
        conversation_tokens: Some(conversation),
        tool_definitions_tokens: Some(tools),
        is_initial: Some(
            bench.session.durable.turn.as_ref().is_some_and(|turn| turn.rounds_of(bench.agent.as_ref()) <= 1),
        ),
    }
}

/// What clients see of an answer while it arrives.
struct Stream<'a> {
    bench: &'a Bench,
    message_id: String,
    reasoning_id: String,
    started: bool,
    first_token: Option<Instant>,
    /// What arrived together and is shown together.
    pieces: Vec<Body>,
}

impl<'a> Stream<'a> {
    fn new(bench: &'a Bench) -> Self {
        let id = || uuid::Uuid::new_v4().to_string();
        Self {
            bench,
            message_id: id(),
            reasoning_id: id(),
            started: false,
            first_token: None,
            pieces: Vec::new(),
        }
    }

    fn take(&mut self, delta: Delta) {
        self.first_token.get_or_insert_with(Instant::now);
        if !self.bench.settings.streaming {
            return;
        }
        match delta {
            Delta::Text(delta_content) => {
                if !std::mem::replace(&mut self.started, true) {
                    self.gather(MessageStart { message_id: self.message_id.clone() });
                }
                self.gather(MessageDelta { message_id: self.message_id.clone(), delta_content });
            }
            Delta::Reasoning(delta_content) => {
                self.gather(ReasoningDelta { reasoning_id: self.reasoning_id.clone(), delta_content });
            }
            Delta::ToolCall { id, name, arguments } => self.gather(ToolCallDelta {
                tool_call_id: ToolCallId(id),
                tool_name: Some(name),
                tool_type: Some("function".into()),
                input_delta: arguments,
            }),
            Delta::Progress { bytes } => {
                self.gather(StreamingDelta { total_response_size_bytes: bytes });
                self.show();
            }
            // The answer begins anew: as another message, so that nobody glues two halves together.
            Delta::Restart => {
                self.show();
                *self = Self::new(self.bench);
            }
        }
    }

    fn gather(&mut self, piece: impl Into<Body>) {
        self.pieces.push(piece.into());
    }

    /// Shows what has been gathered.
    fn show(&mut self) {
        if !self.pieces.is_empty() {
            self.bench.show_all(self.pieces.drain(..));
        }
    }
}

fn said(stream: &Stream<'_>, answer: Answer, chosen: &Chosen, sent: &UsageInfo, begun: Instant) -> Said {
    let duration = begun.elapsed();
    let of_agent = stream.bench.agent.is_some();
    let model = answer.model.clone().unwrap_or_else(|| chosen.wire_name.clone());
    let reported = answer.usage;
    let usage = reported.unwrap_or_default();
    let tokens = TokenCounts {
        // Where the provider does not say what it read, our own estimate is better than nothing.
        input: if usage.input > 0 { usage.input } else { sent.current_tokens },
        output: if usage.output > 0 { usage.output } else { estimate::text(&answer.text) },
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        reasoning: usage.reasoning,
        duration_ms: duration.as_millis() as u64,
    };
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
    Said {
        message_id: stream.message_id.clone(),
        citations: citations::told(&stream.message_id, endpoint, &answer.text, &answer.citations),
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

/// A call as it goes into the history. Arguments that are not JSON are kept as the text that they are.
fn tool_request(call: baton_model::ToolCall) -> ToolRequest {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let arguments =
        Json::from_text(text).unwrap_or_else(|_| Json::from(Value::String(call.arguments.clone())));
    ToolRequest {
        tool_call_id: ToolCallId(call.id),
        name: call.name,
        arguments: Some(arguments),
        kind: Some("function".into()),
    }
}

fn call_failure(error: &ModelError, chosen: &Chosen, begun: Instant, source: &str) -> ModelCallFailure {
    ModelCallFailure {
        source: source.into(),
        model: Some(chosen.wire_name.clone()),
        status_code: error.status,
        error_code: error.code.as_deref().map(str::to_owned),
        error_message: Some(error.message.clone()),
        duration_ms: Some(begun.elapsed().as_millis() as u64),
        api_endpoint: Some(chosen.model.endpoint().to_owned()),
        is_byok: Some(chosen.byok),
    }
}

/// The end of the turn, as everybody is told, unless another model is asked. Hooks hear of it first.
async fn failed(bench: &Bench, error: &ModelError, partial: Option<(String, String)>) -> WorkResult {
    let input = json!({
        "error": { "name": error.kind.as_str(), "message": error.message },
        "errorContext": "model_call",
        "recoverable": false,
    });
    hooks::invoke(bench, "errorOccurred", input).await;
    let instead = instead(bench, error).await;
    let error = SessionError {
        error_type: error_type(error).into(),
        message: error.message.clone(),
        error_code: error.code.as_deref().map(str::to_owned),
        status_code: error.status,
        provider_call_id: error.request_id.as_deref().map(str::to_owned),
        ..SessionError::default()
    };
    WorkResult::AskFailed(Box::new(Unanswered { error, partial, instead }))
}

/// What could be asked instead of a model that wants to be asked less often.
async fn instead(bench: &Bench, error: &ModelError) -> Option<Instead> {
    let (live, facts) = (&bench.session.live, &bench.session.durable.facts);
    let agrees = facts.switches_always || live.can_agree_to_switch();
    // An agent with a model of its own would be asked with that again.
    let is_free = bench.settings.agent_in_charge().is_none_or(|agent| agent.model.is_none());
    if error.kind != ErrorKind::RateLimited || bench.agent.is_some() || !agrees || !is_free {
        return None;
    }
    let model = bench.server.models.another(&asker(bench)).await?;
    Some(Instead { model, retry_after_seconds: error.retry_after.map(|wait| wait.as_secs()) })
}

/// What had been said when the last of these attempts failed that said anything, with the name under which it was shown.
fn partial(failures: &[ModelError], shown: &str) -> Option<(String, String)> {
    let (last, earlier) = failures.split_last()?;
    if !last.partial.is_empty() {
        return Some((shown.to_owned(), last.partial.to_string()));
    }
    let text = earlier.iter().rev().map(|failure| &failure.partial).find(|text| !text.is_empty())?;
    Some((uuid::Uuid::new_v4().to_string(), text.to_string()))
}

/// The kind of a failure, in the words that clients know.
fn error_type(error: &ModelError) -> &'static str {
    use baton_model::ErrorKind::{Auth, ContextTooLong, Quota, RateLimited};
    match error.kind {
        Auth => "authentication",
        RateLimited => "rate_limit",
        Quota => "quota",
        ContextTooLong => "context_limit",
        _ => "query",
    }
}
