//! Conversations that continue on another wire format or with another model: everything is transferred,
//! except state that only its own model can read.

use std::sync::Arc;

use baton_model::{Message, ModelResponse, Part, Request};
use baton_testkit::model_server::{ModelServer, ScriptedReply};
use serde_json::{Value, json};

use crate::common::{Wire, ask, endpoint, events, whole};

/// Opaque state in an answer.
const SECRET: &str = "only-for-its-owner";

/// An answer with signed or encrypted reasoning, text, and two calls.
fn reply(wire: Wire) -> ScriptedReply {
    let function = |name: &str| json!({"name": name, "arguments": r#"{"n":1.0}"#});
    let data: Vec<Value> = match wire {
        Wire::Chat => vec![
            json!({"choices": [{"delta": {"reasoning_opaque": SECRET, "reasoning_text": "hm", "content": "I look."}}]}),
            json!({"choices": [{"delta": {"tool_calls": [
                {"index": 0, "id": "a", "function": function("f")}, {"index": 1, "id": "b", "function": function("g")},
            ]}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        ],
        Wire::Responses => {
            let done = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
            let call = |id: &str, name: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": r#"{"n":1.0}"#});
            let summary = json!([{"type": "summary_text", "text": "hm"}]);
            let answered = json!([{"type": "output_text", "text": "I look."}]);
            vec![
                done(0, json!({"type": "reasoning", "summary": summary, "encrypted_content": SECRET})),
                done(1, json!({"type": "message", "content": answered})),
                done(2, call("a", "f")),
                done(3, call("b", "g")),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ]
        }
        Wire::Messages => {
            let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let call =
                |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            let input = |index: u64| json!({"type": "content_block_delta", "index": index, "delta": {"partial_json": r#"{"n":1.0}"#}});
            vec![
                start(0, json!({"type": "thinking", "thinking": "hm", "signature": SECRET})),
                start(1, json!({"type": "text", "text": "I look."})),
                start(2, call("a", "f")),
                input(2),
                start(3, call("b", "g")),
                input(3),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ]
        }
    };
    let data: Vec<String> = data.iter().map(Value::to_string).collect();
    events(data.iter().map(String::as_str))
}

/// The conversation after this answer, with the results of its calls.
fn after(answer: ModelResponse, model: &str) -> Request {
    let result = |id: &str, content: &str| Message::Tool {
        call_id: id.to_owned(),
        content: content.to_owned(),
        failed: content == "broken",
    };
    let answered = Message::Assistant {
        text: answer.text,
        tool_calls: answer.tool_calls,
        reasoning_opaque: answer.reasoning_opaque,
    };
    let next = Message::User(vec![Part::Text("go on".to_owned())]);
    let mut request = Request { model: model.to_owned(), ..whole("hi") };
    request.messages.extend([answered, result("a", "fine"), result("b", "broken"), next].map(Arc::new));
    request
}

/// The request body when a wire format continues the conversation of another.
async fn continued(from: Wire, to: Wire, model: &str) -> String {
    let answer = from.ask_for(reply(from), &Request { stream: true, ..whole("hi") }).await.0.unwrap();
    assert_eq!(answer.tool_calls.len(), 2, "{from:?}");
    let server = ModelServer::start().await;
    ask(&*to.model(endpoint(&server)), &after(answer, model)).await.0.unwrap();
    server.requests()[0].body.to_string()
}

#[tokio::test]
async fn every_wire_continues_the_conversation_of_every_other() {
    for from in Wire::ALL {
        for to in Wire::ALL {
            let body = continued(from, to, "scripted").await;
            assert_eq!(body.contains(SECRET), from == to, "{from:?} to {to:?}: {body}");
            for word in ["I look.", "fine", "broken", "go on"] {
                assert!(body.contains(word), "{from:?} to {to:?}: {word:?} is missing in {body}");
            }
            // Both calls and both results, by their ids, and the arguments as written.
            for id in ["a", "b"] {
                assert_eq!(body.matches(&format!("\"{id}\"")).count(), 2, "{from:?} to {to:?}: {body}");
            }
            assert_eq!(
                body.replace('\\', "").matches(r#"{"n":1.0}"#).count(),
                2,
                "{from:?} to {to:?}: {body}"
            );
        }
    }
}

#[tokio::test]
async fn opaque_state_is_not_sent_to_another_model() {
    for wire in [Wire::Responses, Wire::Messages] {
        let body = continued(wire, wire, "another").await;
        assert!(!body.contains(SECRET) && body.contains("I look."), "{wire:?}: {body}");
    }
}
