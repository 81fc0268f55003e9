//! Serves a recording as a chat completions endpoint, so that programs can be tested offline.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use baton_model::replay::{Recording, ReplayModel};
use baton_model::{Message, Model, ModelResponse, Part, Request, ToolCall};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{HttpOptions, guard};

/// Maximum size of a request, in bytes: conversations with images are large.
const MAX_REQUEST: usize = 64 << 20;

/// Serves a recording until the process ends.
///
/// # Errors
/// When the listener fails permanently.
pub async fn serve_recording(listener: TcpListener, recording: Recording) -> std::io::Result<()> {
    axum::serve(listener, routes(recording)).await
}

fn routes(recording: Recording) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/models", get(models))
        .route("/v1/chat/completions", post(completions))
        .route("/chat/completions", post(completions))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::from_fn(refuse_pages))
        .with_state(Arc::new(ReplayModel::new(recording)))
}

/// Refuses requests of web pages. The server has no token, and its errors quote the recording: a page whose name resolves to this
/// machine could read it.
async fn refuse_pages(request: axum::extract::Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    if guard::check_source(&HttpOptions::default(), &head).is_ok() {
        return next.run(axum::extract::Request::from_parts(head, body)).await;
    }
    let message = "requests of web pages are refused; use the base URL that `baton replay` has printed";
    let error = json!({ "message": message, "type": "forbidden", "code": "forbidden" });
    (StatusCode::FORBIDDEN, Json(json!({ "error": error }))).into_response()
}

async fn models() -> Json<Value> {
    Json(json!({ "object": "list", "data": [{ "id": "replay", "object": "model" }] }))
}

async fn completions(State(model): State<Arc<ReplayModel>>, Json(body): Json<Value>) -> Response {
    let wants_stream = body["stream"] == true;
    let request = read(&body);
    match model.respond(&request, &mut |_| {}).await {
        Ok(completion) if wants_stream => chunked(&completion, &request.model),
        Ok(completion) => Json(complete(&completion, &request.model)).into_response(),
        Err(error) => {
            let error = json!({ "message": error.message, "type": "replay_miss", "code": "replay_miss" });
            (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
        }
    }
}

/// Reads the fields of a chat completions request by which a recording is searched.
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

fn calls(completion: &ModelResponse) -> Vec<Value> {
    let call = |(index, call): (usize, &ToolCall)| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "index": index, "id": call.id, "type": "function", "function": function })
    };
    completion.tool_calls.iter().enumerate().map(call).collect()
}

fn usage(completion: &ModelResponse) -> Value {
    let usage = completion.usage.unwrap_or_default();
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

fn message(completion: &ModelResponse) -> Value {
    let mut message = json!({ "role": "assistant", "content": completion.text });
    if let Some(reasoning) = &completion.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !completion.tool_calls.is_empty() {
        message["tool_calls"] = calls(completion).into();
    }
    message
}

fn complete(completion: &ModelResponse, model: &str) -> Value {
    let finish = completion.finish.as_str();
    let choice = json!({ "index": 0, "message": message(completion), "finish_reason": finish });
    json!({
        "id": "replay", "object": "chat.completion", "created": 0, "model": model,
        "choices": [choice], "usage": usage(completion),
    })
}

/// Returns a completion as a stream with a chunk for each word, so that the tested program gets several deltas.
fn chunked(completion: &ModelResponse, model: &str) -> Response {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        json!({ "id": "replay", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice] })
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if let Some(reasoning) = &completion.reasoning {
        chunks.push(chunk(json!({ "reasoning_content": reasoning }), Value::Null));
    }
    let words = completion.text.split_inclusive(' ');
    chunks.extend(words.map(|word| chunk(json!({ "content": word }), Value::Null)));
    if !completion.tool_calls.is_empty() {
        chunks.push(chunk(json!({ "tool_calls": calls(completion) }), Value::Null));
    }
    let mut last = chunk(json!({}), completion.finish.as_str().into());
    last["usage"] = usage(completion);
    chunks.push(last);
    let events = chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n"));
    let events: Vec<Result<String, Infallible>> =
        events.chain(["data: [DONE]\n\n".to_owned()]).map(Ok).collect();
    let body = axum::body::Body::from_stream(stream::iter(events));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    async fn status(headers: &[(&str, &str)]) -> StatusCode {
        let mut request = http::Request::builder().uri("/v1/models");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        routes(Recording::default()).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn web_pages_cannot_read_a_recording() {
        assert_eq!(status(&[("host", "127.0.0.1:8500")]).await, StatusCode::OK);
        let own = [("host", "localhost:8500"), ("origin", "http://localhost:8500")];
        assert_eq!(status(&own).await, StatusCode::OK);
        for page in [
            [("host", "evil.example:8500"), ("origin", "http://evil.example:8500")],
            [("host", "127.0.0.1:8500"), ("origin", "http://evil.example")],
        ] {
            assert_eq!(status(&page).await, StatusCode::FORBIDDEN, "{page:?}");
        }
    }
}
