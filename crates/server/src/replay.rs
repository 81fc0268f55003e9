//! A recording as an endpoint: any program that speaks OpenAI's chat completions can be answered from it, offline.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use baton_model::replay::{Recording, ReplayModel};
use baton_model::{Answer, Message, Model, Part, Request, ToolCall};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The largest request that is read: conversations with images are long.
const LONGEST_REQUEST: usize = 64 << 20;

/// Serves a recording until the process ends.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve_recording(listener: TcpListener, recording: Recording) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/v1/models", get(models))
        .route("/models", get(models))
        .route("/v1/chat/completions", post(completions))
        .route("/chat/completions", post(completions))
        .layer(axum::extract::DefaultBodyLimit::max(LONGEST_REQUEST))
        .with_state(Arc::new(ReplayModel::new(recording)));
    axum::serve(listener, routes).await
}

async fn models() -> Json<Value> {
    Json(json!({ "object": "list", "data": [{ "id": "replay", "object": "model" }] }))
}

async fn completions(State(model): State<Arc<ReplayModel>>, Json(body): Json<Value>) -> Response {
    let wants_stream = body["stream"] == true;
    let request = read(&body);
    match model.ask(&request, &mut |_| {}).await {
        Ok(answer) if wants_stream => streamed(&answer, &request.model),
        Ok(answer) => Json(whole(&answer, &request.model)).into_response(),
        Err(error) => {
            let error = json!({ "message": error.message, "type": "replay_miss", "code": "replay_miss" });
            (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
        }
    }
}

/// A request of chat completions, as far as a recording is asked by it.
fn read(body: &Value) -> Request {
    let messages = body["messages"].as_array().into_iter().flatten();
    Request {
        model: body["model"].as_str().unwrap_or("replay").to_owned(),
        messages: messages.map(|message| Arc::new(read_message(message))).collect(),
        ..Request::default()
    }
}

fn read_message(message: &Value) -> Message {
    match message["role"].as_str().unwrap_or_default() {
        "system" | "developer" => Message::System(text(&message["content"])),
        "assistant" => Message::Assistant {
            text: text(&message["content"]),
            tool_calls: message["tool_calls"].as_array().into_iter().flatten().map(read_call).collect(),
            reasoning_opaque: None,
        },
        "tool" => Message::Tool {
            call_id: message["tool_call_id"].as_str().unwrap_or_default().to_owned(),
            content: text(&message["content"]),
            failed: false,
        },
        _ => Message::User(read_parts(&message["content"])),
    }
}

fn read_call(call: &Value) -> ToolCall {
    let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ToolCall {
        id: field(&call["id"]),
        name: field(&call["function"]["name"]),
        arguments: field(&call["function"]["arguments"]),
    }
}

fn text(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

fn read_parts(content: &Value) -> Vec<Part> {
    let Value::Array(parts) = content else { return vec![Part::Text(text(content))] };
    let part = |part: &Value| match part["image_url"]["url"].as_str().and_then(data_url) {
        Some((mime_type, data)) => Part::Image { mime_type: mime_type.to_owned(), data: data.into() },
        None => Part::Text(part["text"].as_str().unwrap_or_default().to_owned()),
    };
    parts.iter().map(part).collect()
}

fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

fn calls(answer: &Answer) -> Vec<Value> {
    let call = |(index, call): (usize, &ToolCall)| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "index": index, "id": call.id, "type": "function", "function": function })
    };
    answer.tool_calls.iter().enumerate().map(call).collect()
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage.unwrap_or_default();
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

fn message(answer: &Answer) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if let Some(thought) = &answer.reasoning {
        message["reasoning_content"] = json!(thought);
    }
    if !answer.tool_calls.is_empty() {
        message["tool_calls"] = calls(answer).into();
    }
    message
}

fn whole(answer: &Answer, model: &str) -> Value {
    let choice = json!({ "index": 0, "message": message(answer), "finish_reason": answer.finish.as_str() });
    json!({
        "id": "replay", "object": "chat.completion", "created": 0, "model": model,
        "choices": [choice], "usage": usage(answer),
    })
}

/// The answer as a stream: word by word, so that whoever is tested gets pieces.
fn streamed(answer: &Answer, model: &str) -> Response {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        json!({ "id": "replay", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice] })
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if let Some(thought) = &answer.reasoning {
        chunks.push(chunk(json!({ "reasoning_content": thought }), Value::Null));
    }
    let words = answer.text.split_inclusive(' ');
    chunks.extend(words.map(|word| chunk(json!({ "content": word }), Value::Null)));
    if !answer.tool_calls.is_empty() {
        chunks.push(chunk(json!({ "tool_calls": calls(answer) }), Value::Null));
    }
    let mut last = chunk(json!({}), answer.finish.as_str().into());
    last["usage"] = usage(answer);
    chunks.push(last);
    let events = chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n"));
    let events: Vec<Result<String, Infallible>> =
        events.chain(["data: [DONE]\n\n".to_owned()]).map(Ok).collect();
    let body = axum::body::Body::from_stream(stream::iter(events));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
