//! Sampling: an MCP server's request for an answer of the session's model. A client approves it by having it executed.

use std::sync::Arc;

use baton_ask::mcp::McpSampled;
use baton_model::retry::ask_with_retries;
use baton_model::{Message, Part, Request};
use baton_protocol::Json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{WorkScope, model_call};

/// Characters of all messages of a request.
const LONGEST: usize = 1024 * 1024;

/// A server's request, as far as it is used. Tools and images are not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    messages: Vec<SampledMessage>,
    max_tokens: Option<u64>,
    system_prompt: Option<String>,
}

#[derive(Deserialize)]
struct SampledMessage {
    role: String,
    content: Value,
}

/// Executes a request: one model call, without the conversation and without tools. A failure is part of the reply.
pub(super) async fn execute(scope: &WorkScope, request: &Json) -> McpSampled {
    match answer(scope, request).await {
        Ok(result) => McpSampled::Success { result },
        Err(error) => McpSampled::Failure { error },
    }
}

async fn answer(scope: &WorkScope, request: &Json) -> Result<Value, String> {
    let sampled: Sampled =
        request.parse().map_err(|error| format!("the sampling request cannot be used: {error}"))?;
    let mut messages = Vec::new();
    messages.extend(sampled.system_prompt.map(|text| Arc::new(Message::System(text))));
    for message in &sampled.messages {
        messages.push(Arc::new(converted(message)?));
    }
    if request.as_str().len() > LONGEST || sampled.messages.is_empty() {
        return Err("the sampling request has no messages, or is too large".into());
    }
    let chosen =
        scope.runtime.models.choose(&model_call::caller(scope)).await.map_err(|error| error.message)?;
    let mut call = Request { stream: false, messages, ..model_call::request(scope, &chosen).await };
    call.tools = Arc::default();
    if let Some(most) = sampled.max_tokens {
        call.max_output_tokens = Some(call.max_output_tokens.map_or(most, |limit| limit.min(most)));
    }
    let retries = &scope.runtime.models.retries;
    let answer = ask_with_retries(retries, &*chosen.model, &call, &mut |_| {}, |_, _, _| {}).await;
    let answer = answer.map_err(|error| error.message)?;
    Ok(json!({
        "role": "assistant",
        "model": answer.model.unwrap_or(chosen.wire_name),
        "stopReason": "endTurn",
        "content": { "type": "text", "text": answer.text },
    }))
}

fn converted(message: &SampledMessage) -> Result<Message, String> {
    let parts = match &message.content {
        Value::Array(parts) => parts.iter().collect(),
        part => vec![part],
    };
    let text: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
    let text = text.ok_or("a message of the sampling request is not text")?.join("\n");
    Ok(match message.role.as_str() {
        "assistant" => Message::Assistant { text, tool_calls: Vec::new(), reasoning_opaque: None },
        _ => Message::User(vec![Part::Text(text)]),
    })
}
