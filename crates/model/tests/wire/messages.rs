//! The Messages API over real HTTP: behaviour specific to it.

use baton_model::endpoint::{Auth, Endpoint};
use baton_model::{Citation, Delta, Finish, Message, ModelResponse, Request, SourceRange, Usage};
use baton_testkit::model_server::{ModelServer, ScriptedReply};
use serde_json::{Value, json};

use crate::common::{Wire, ask, events, streamed, whole};

async fn stream_of(data: &[Value]) -> (ModelResponse, Vec<Delta>) {
    let data: Vec<String> = data.iter().map(Value::to_string).collect();
    let reply = events(data.iter().map(String::as_str));
    let (answer, deltas) = Wire::Messages.ask_for(reply, &streamed("hi")).await;
    (answer.unwrap(), deltas)
}

#[tokio::test]
async fn request_matches_the_api() {
    let server = ModelServer::start().await;
    let endpoint = Endpoint::new(&server.base_url()).unwrap().with_auth(Auth::x_api_key("sk-geheim"));
    ask(&*Wire::Messages.model(endpoint), &streamed("hi")).await.0.unwrap();
    let sent = &server.requests()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/messages"));
    for (name, value) in [
        ("x-api-key", Some("sk-geheim")),
        ("authorization", None),
        ("anthropic-version", Some("2023-06-01")),
        ("accept", Some("text/event-stream")),
    ] {
        assert_eq!(sent.header(name), value, "{name}");
    }
    let mark = json!({"type": "ephemeral"});
    let content = json!([{"type": "text", "text": "hi", "cache_control": mark}]);
    assert_eq!(sent.body["messages"], json!([{"role": "user", "content": content}]));
}

#[tokio::test]
async fn reasoning_is_sent_back_unchanged() {
    let server = ModelServer::start().await;
    let endpoint = Endpoint::new(&server.base_url()).unwrap();
    let model = Wire::Messages.model(endpoint);
    let first = streamed("[[think:hm]][[tool:f {}]]");
    let answer = ask(&*model, &first).await.0.unwrap();
    let mut again = first.clone();
    again.messages.push(std::sync::Arc::new(Message::Assistant {
        text: answer.text,
        tool_calls: answer.tool_calls,
        reasoning_opaque: answer.reasoning_opaque,
    }));
    ask(&*model, &again).await.0.unwrap();
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    assert_eq!(server.requests()[1].body["messages"][1]["content"][0], thought);
    // Another model cannot use it.
    ask(&*model, &Request { model: "another".into(), ..again }).await.0.unwrap();
    assert_eq!(server.requests()[2].body["messages"][1]["content"][0]["type"], "tool_use");
}

#[tokio::test]
async fn citations_cover_their_block() {
    let block = |index: u64, text: &str| json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": text}});
    let citation = json!({
        "type": "page_location", "cited_text": "Grün", "document_title": "a.pdf", "start_page_number": 1,
        "end_page_number": 2,
    });
    let (answer, _) = stream_of(&[
        block(0, "Größe: "),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, ""),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": citation}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "grün"}}),
        json!({"type": "content_block_stop", "index": 1}),
        block(2, "."),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ])
    .await;
    let Citation { span, title, quote, place, raw, .. } = answer.citations[0].clone();
    assert_eq!((answer.text.as_str(), span), ("Größe: grün.", 7..11));
    assert_eq!((title.as_deref(), quote.as_deref()), (Some("a.pdf"), Some("Grün")));
    assert_eq!(place, Some(SourceRange::Pages(1..=1)), "the end is exclusive on the wire");
    assert_eq!(raw.parse::<Value>().unwrap(), citation);
}

#[tokio::test]
async fn stop_reasons_and_usage_are_parsed() {
    for (reason, expected) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::ContentFilter),
        ("pause_turn", Finish::Other("pause_turn".into())),
    ] {
        let usage = json!({"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4,
                           "output_tokens": 1});
        let (answer, _) = stream_of(&[
            json!({"type": "message_start", "message": {"id": "m", "model": "x", "usage": usage}}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ])
        .await;
        let usage = Usage { input: 7, output: 9, cache_read: 2, cache_write: 4, reasoning: 0 };
        assert_eq!((answer.finish, answer.usage), (expected, Some(usage)), "{reason}");
    }
}

#[tokio::test]
async fn arguments_of_a_whole_reply_are_preserved() {
    let body = r#"{"content":[{"type":"tool_use","id":"a","name":"f","input":{"z":1.0,"a":[2]}}],"stop_reason":"tool_use"}"#;
    let (answer, _) =
        Wire::Messages.ask_for(ScriptedReply::raw("application/json", [body]), &whole("hi")).await;
    assert_eq!(answer.unwrap().tool_calls[0].arguments, r#"{"z":1.0,"a":[2]}"#);
}
