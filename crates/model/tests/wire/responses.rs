//! The Responses API over real HTTP: behaviour specific to it.

use std::sync::Arc;

use baton_model::endpoint::{Auth, Endpoint};
use baton_model::{Delta, Finish, Message, ModelResponse};
use baton_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use crate::common::{Wire, ask, events, streamed};

async fn stream_of(data: &[Value]) -> (ModelResponse, Vec<Delta>) {
    let data: Vec<String> = data.iter().map(Value::to_string).collect();
    let reply = events(data.iter().map(String::as_str));
    let (answer, deltas) = Wire::Responses.ask_for(reply, &streamed("hi")).await;
    (answer.unwrap(), deltas)
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed"}})
}

#[tokio::test]
async fn request_matches_the_api() {
    let server = ModelServer::start().await;
    let route = format!("http://{}/openai/responses?api-version=1", server.address());
    let endpoint = Endpoint::new(&route).unwrap().with_auth(Auth::api_key("k-geheim"));
    ask(&*Wire::Responses.model(endpoint), &streamed("hi")).await.0.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/openai/responses?api-version=1");
    assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some("k-geheim"), None));
    let message =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
    let expected = json!({"model": "scripted", "input": [message], "stream": true, "store": false});
    assert_eq!(sent.body, expected);
}

#[tokio::test]
async fn encrypted_reasoning_is_sent_back_unchanged() {
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "e"});
    let (answer, deltas) = stream_of(&[
        done(0, &thought),
        done(1, &json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"})),
        completed(),
    ])
    .await;
    assert_eq!(deltas[0], Delta::Reasoning("hm".into()));
    assert_eq!((answer.reasoning.as_deref(), &answer.finish), (Some("hm"), &Finish::ToolCalls));

    let server = ModelServer::start().await;
    let mut request = streamed("go on");
    request.messages.push(Arc::new(Message::Assistant {
        text: answer.text,
        tool_calls: answer.tool_calls,
        reasoning_opaque: answer.reasoning_opaque,
    }));
    let endpoint = Endpoint::new(&server.base_url()).unwrap();
    ask(&*Wire::Responses.model(endpoint), &request).await.0.unwrap();
    let back = json!({"type": "reasoning", "summary": summary, "encrypted_content": "e"});
    assert_eq!(server.requests()[0].body["input"][1], back);
}

#[tokio::test]
async fn items_can_come_whole_or_only_at_the_end() {
    let note =
        json!({"type": "url_citation", "start_index": 0, "end_index": 3, "url": "https://e/1", "title": "T"});
    let message = |text: &str, notes: Value| json!({"type": "message", "content": [{"type": "output_text", "text": text, "annotations": notes}]});
    let (first, second) = (message("One.", json!([])), message("Two.", json!([note])));
    let added = json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}});
    let (answer, _) = stream_of(&[done(0, &first), added, done(1, &second), completed()]).await;
    assert_eq!(answer.text, "One.\n\nTwo.");
    assert_eq!(
        (answer.citations[0].span.clone(), answer.citations[0].url.as_deref()),
        (6..9, Some("https://e/1"))
    );

    let file = json!({"type": "file_citation", "index": 2, "file_id": "f", "filename": "a.pdf"});
    let parts = json!([
        {"type": "output_text", "text": "One", "annotations": []},
        {"type": "output_text", "text": "Two", "annotations": [file]},
    ]);
    let (answer, _) = stream_of(&[done(0, &json!({"type": "message", "content": parts})), completed()]).await;
    assert_eq!((answer.text.as_str(), answer.citations[0].span.clone()), ("OneTwo", 5..5));

    let response = json!({"id": "r", "status": "completed", "output": [first, second]});
    let (answer, deltas) = stream_of(&[json!({"type": "response.completed", "response": response})]).await;
    assert_eq!(answer.text, "One.\n\nTwo.");
    assert_eq!(deltas.len(), 3);
}

#[tokio::test]
async fn stop_reasons_are_parsed() {
    for (reason, expected) in [
        ("max_output_tokens", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("tired", Finish::Other("tired".into())),
    ] {
        let response = json!({"status": "incomplete", "incomplete_details": {"reason": reason}});
        let (answer, _) = stream_of(&[json!({"type": "response.incomplete", "response": response})]).await;
        assert_eq!(answer.finish, expected);
    }
    let (answer, _) = stream_of(&[
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I will not."}),
        completed(),
    ])
    .await;
    assert_eq!(answer.text, "I will not.");
}
