//! Chat completions over real HTTP: requests as the server receives them, answers in all variants.

use std::sync::Arc;

use crate::common::{ask, ask_for, events, model, request, streamed, whole};
use baton_model::chat::{ChatModel, ChatVariant};
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::HttpClient;
use baton_model::{Delta, Finish, Message, ModelResponse, Request, ToolCall, Usage};
use baton_testkit::model_server::{ModelServer, ReplyAction, ScriptedReply};
use serde_json::{Value, json};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

/// The answer to a reply that consists of one JSON text.
async fn whole_answer(body: Value) -> ModelResponse {
    let (answer, deltas) =
        ask_for(ScriptedReply::raw("application/json", [body.to_string()]), &whole("hi")).await;
    assert!(deltas.is_empty(), "no deltas without a stream");
    answer.unwrap()
}

/// The answer to a stream of these deltas, and the deltas passed on.
async fn stream_of(deltas: &[Value], finish: Value) -> (ModelResponse, Vec<Delta>) {
    let event = |delta: &Value, finish: &Value| {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).to_string()
    };
    let mut all: Vec<String> = deltas.iter().map(|delta| event(delta, &Value::Null)).collect();
    all.push(event(&json!({}), &finish));
    all.push("[DONE]".to_owned());
    let (answer, deltas) = ask_for(events(all.iter().map(String::as_str)), &streamed("hi")).await;
    (answer.unwrap(), deltas)
}

#[tokio::test]
async fn request_matches_the_api() {
    let server = ModelServer::start().await;
    let mut endpoint =
        Endpoint::new(&format!("{}/", server.base_url())).unwrap().with_auth(Auth::bearer("sk-geheim"));
    endpoint.user_agent = "Copilot test/1".to_owned();
    endpoint.headers = vec![("X-Gateway".to_owned(), "g".to_owned())];
    let model = ChatModel::new(endpoint, ChatVariant::Copilot, Arc::new(HttpClient::new()));
    let headers = vec![("X-Interaction-Id".to_owned(), "7".to_owned())];
    ask(&model, &Request { headers, ..streamed("hi") }).await.0.unwrap();

    let sent = &server.requests()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/chat/completions"));
    let expected =
        json!({"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": true});
    assert_eq!(sent.body, expected);
    for (name, value) in [
        ("authorization", "Bearer sk-geheim"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("user-agent", "Copilot test/1"),
        ("x-gateway", "g"),
        ("x-interaction-id", "7"),
    ] {
        assert_eq!(sent.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn azure_route_keeps_its_query_and_uses_its_key() {
    let server = ModelServer::start().await;
    let route = format!("http://{}/openai/deployments/d/chat/completions?api-version=1", server.address());
    let endpoint = Endpoint::new(&route).unwrap().with_auth(Auth::api_key("k-geheim"));
    ask(&crate::common::chat_model(endpoint), &whole("hi")).await.0.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/openai/deployments/d/chat/completions?api-version=1");
    assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some("k-geheim"), None));
    assert_eq!(sent.body.get("stream"), None);
}

#[tokio::test]
async fn answer_is_the_same_streamed_or_whole() {
    let server = ModelServer::start().await;
    let prompt = r#"[[think:hm]][[text:I look. ]][[tools:bash {"a":"ä"};;view {}]]"#;
    let mut answers = Vec::new();
    for stream in [true, false] {
        let (answer, deltas) = ask(&model(&server), &request(prompt, stream)).await;
        assert_eq!(deltas.is_empty(), !stream);
        let mut answer = answer.unwrap();
        assert!(answer.id.take().is_some_and(|id| id.starts_with("chatcmpl-")));
        assert!(answer.request_id.take().is_some_and(|id| id.starts_with("req-chatcmpl-")));
        let ids: Vec<String> =
            answer.tool_calls.iter_mut().map(|call| std::mem::take(&mut call.id)).collect();
        assert_ne!(ids[0], ids[1]);
        answers.push(answer);
    }
    let usage = Usage { input: 100, output: 20, cache_read: 40, cache_write: 0, reasoning: 5 };
    let expected = ModelResponse {
        text: "I look. ".into(),
        reasoning: Some("hm".into()),
        tool_calls: vec![call("", "bash", r#"{"a":"ä"}"#), call("", "view", "{}")],
        finish: Finish::ToolCalls,
        usage: Some(usage),
        model: Some("scripted".into()),
        ..ModelResponse::default()
    };
    assert_eq!(answers, [expected.clone(), expected]);
}

#[tokio::test]
async fn deltas_arrive_in_order_with_progress() {
    let server = ModelServer::start().await;
    let mut all = Vec::new();
    let prompt = r#"[[think:hm]][[text:a b]]"#;
    model_ask_all(&server, prompt, &mut all).await;
    let pieces: Vec<_> =
        all.iter().filter(|delta| !matches!(delta, Delta::Progress { .. })).cloned().collect();
    assert_eq!(pieces, [Delta::Reasoning("hm".into()), text("a "), text("b")]);
    let progress: Vec<u64> = all
        .iter()
        .filter_map(|d| if let Delta::Progress { bytes } = d { Some(*bytes) } else { None })
        .collect();
    assert!(!progress.is_empty() && progress.is_sorted(), "{progress:?}");
}

async fn model_ask_all(server: &ModelServer, prompt: &str, all: &mut Vec<Delta>) {
    use baton_model::Model;
    model(server).respond(&streamed(prompt), &mut |delta| all.push(delta)).await.unwrap();
}

#[tokio::test]
async fn choices_of_a_whole_reply_are_joined() {
    let calls =
        |id: &str| json!([{"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}]);
    let answer = whole_answer(json!({"choices": [
        {"index": 0, "message": {"content": "First."}, "finish_reason": "stop"},
        {"index": 1, "message": {"content": null, "tool_calls": calls("a")}, "finish_reason": "tool_calls"},
        {"index": 2, "message": {"content": "Then.", "tool_calls": calls("b")}, "finish_reason": "tool_calls"},
    ], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}))
    .await;
    assert_eq!(answer.text, "First.\n\nThen.");
    assert_eq!(answer.tool_calls, [call("a", "bash", "{}"), call("b", "bash", "{}")]);
    assert_eq!((answer.finish, answer.usage), (Finish::ToolCalls, None), "zero usage is no usage");
}

#[tokio::test]
async fn only_the_first_choice_of_a_stream_counts() {
    let all = [
        r#"{"choices":[{"index":0,"delta":{"content":"yes"}},{"index":1,"delta":{"content":"no"}}]}"#,
        r#"{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ];
    let (answer, _) = ask_for(events(all), &streamed("hi")).await;
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("yes", Finish::Stop));
}

#[tokio::test]
async fn reasoning_is_read_under_all_its_names() {
    for field in ["reasoning_content", "reasoning_text", "reasoning"] {
        let (answer, deltas) =
            stream_of(&[json!({field: "h"}), json!({field: "m"}), json!({"content": "x"})], "stop".into())
                .await;
        assert_eq!(answer.reasoning.as_deref(), Some("hm"), "{field}");
        assert_eq!(deltas, [Delta::Reasoning("h".into()), Delta::Reasoning("m".into()), text("x")]);
    }
    let twice = json!({"reasoning": "once", "reasoning_content": "once", "reasoning_opaque": "state"});
    let (answer, _) = stream_of(&[twice], "stop".into()).await;
    assert_eq!(
        (answer.reasoning.as_deref(), answer.reasoning_opaque.as_deref()),
        (Some("once"), Some("state"))
    );
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]});
    let parts = json!([thinking, {"type": "text", "text": "x"}]);
    let answer = whole_answer(json!({"choices": [{"message": {"content": parts}}]})).await;
    assert_eq!((answer.reasoning.as_deref(), answer.text.as_str()), (Some("hm"), "x"));
    let answer =
        whole_answer(json!({"choices": [{"message": {"content": null, "refusal": "I will not."}}]})).await;
    assert_eq!(answer.text, "I will not.");
}

#[tokio::test]
async fn tool_calls_are_assembled_from_parts() {
    let piece = |index: Value, id: Value, name: Value, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "function": function}]})
    };
    let (answer, deltas) = stream_of(
        &[
            piece(json!(0), json!("a"), json!("bash"), "{\"x\":"),
            piece(json!(0), json!("a"), json!(""), "1"),
            piece(json!(0), Value::Null, Value::Null, "}"),
            piece(json!(1), json!("a"), json!("view"), "{}"),
        ],
        "tool_calls".into(),
    )
    .await;
    assert_eq!(answer.tool_calls, [call("a", "bash", "{\"x\":1}"), call("a_2", "view", "{}")]);
    let delta = |id: &str, name: &str, arguments: &str| Delta::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    let expected = [
        delta("a", "bash", "{\"x\":"),
        delta("a", "bash", "1"),
        delta("a", "bash", "}"),
        delta("a_2", "view", "{}"),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn finish_reasons_are_parsed() {
    let calls = json!({"tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": "{}"}}]});
    for (reason, delta, expected) in [
        (json!("stop"), json!({"content": "x"}), Finish::Stop),
        (json!(null), json!({"content": "x"}), Finish::Stop),
        (json!("length"), json!({"content": "x"}), Finish::Length),
        (json!("content_filter"), json!({"content": "x"}), Finish::ContentFilter),
        (json!("eos"), json!({"content": "x"}), Finish::Other("eos".into())),
        (json!("tool_calls"), calls.clone(), Finish::ToolCalls),
        (json!("stop"), calls.clone(), Finish::ToolCalls),
        (json!(null), calls, Finish::ToolCalls),
    ] {
        assert_eq!(stream_of(&[delta], reason.clone()).await.0.finish, expected, "{reason}");
    }
}

#[tokio::test]
async fn unusual_streams_are_parsed() {
    let check = async |pieces: &[&[u8]], expected: &str| {
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let (answer, _) =
            ask_for(ScriptedReply::raw("text/event-stream; charset=utf-8", pieces), &streamed("hi")).await;
        assert_eq!(answer.unwrap().text, expected);
    };
    let end = b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    // No end mark, and no end of the last line.
    check(&[b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", end], "a").await;
    check(&[b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}"], "a").await;
    // Comments, other line ends, empty choices, nulls, and an end mark without a finish reason.
    check(
        &[
            b": keep-alive\r\n\r\ndata: {\"choices\":[],\"prompt_filter_results\":[]}\r\n\r\n",
            b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}],\"usage\":null}\r\n\r\n",
            b"data:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
        ],
        "a",
    )
    .await;
    // A character split between two chunks.
    check(&[b"data: {\"choices\":[{\"delta\":{\"content\":\"\xE4\xB8", b"\x96\"}}]}\n\n", end], "世").await;
}

#[tokio::test]
async fn usage_can_come_last_or_with_every_chunk() {
    let all = [
        r#"{"id":"1","model":"m","choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":7}}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_cache_hit_tokens":3}}"#,
        "[DONE]",
    ];
    let (answer, _) = ask_for(events(all), &streamed("hi")).await;
    let answer = answer.unwrap();
    assert_eq!(answer.usage, Some(Usage { input: 7, output: 2, cache_read: 3, ..Usage::default() }));
    assert_eq!((answer.id.as_deref(), answer.model.as_deref()), (Some("1"), Some("m")));
}

#[tokio::test]
async fn server_can_answer_in_the_other_form() {
    let reply = json!({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]});
    let (answer, deltas) =
        ask_for(ScriptedReply::raw("application/json", [reply.to_string()]), &streamed("hi")).await;
    assert_eq!((answer.unwrap().text.as_str(), deltas.as_slice()), ("whole", &[text("whole")][..]));
    let piece = r#"{"choices":[{"delta":{"content":"piece"},"finish_reason":"stop"}]}"#;
    let (answer, deltas) = ask_for(events([piece]), &whole("hi")).await;
    assert_eq!((answer.unwrap().text.as_str(), deltas.len()), ("piece", 0));
}

#[tokio::test]
async fn complete_answer_survives_a_missing_end_mark() {
    let complete = ReplyAction::Raw(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n".into(),
    );
    let reply = ScriptedReply::new([complete, ReplyAction::Drop]);
    assert_eq!(ask_for(reply, &streamed("hi")).await.0.unwrap().text, "a");
}

#[tokio::test]
async fn call_ids_are_unique_in_a_conversation() {
    let answered = Message::Assistant {
        text: String::new(),
        tool_calls: vec![call("a", "x", "{}")],
        reasoning_opaque: None,
    };
    let mut request = whole("hi");
    request.messages.push(Arc::new(answered));
    let reply = json!({"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "x"}}]}}]});
    let (answer, _) = ask_for(ScriptedReply::raw("application/json", [reply.to_string()]), &request).await;
    assert_eq!(answer.unwrap().tool_calls, [call("a_2", "x", "{}")]);
}

#[tokio::test]
async fn connections_are_reused() {
    let server = ModelServer::start().await;
    let model = model(&server);
    for _ in 0..8 {
        ask(&model, &streamed("hi")).await.0.unwrap();
    }
    // Usually one; but on a busy machine the end of a body may arrive too late for the connection to be
    // reused.
    assert!(server.connections() <= 4, "{} connections", server.connections());
}

#[tokio::test]
async fn dropping_the_future_cancels_the_request() {
    let server = ModelServer::start().await;
    let model = model(&server);
    for (index, prompt) in ["[[hold:x]]", "[[text:a]][[hold:y]]", "[[hang]]"].into_iter().enumerate() {
        let request = streamed(prompt);
        let asking = ask(&model, &request);
        tokio::select! {
            _ = asking => panic!("there is no answer"),
            _ = server.wait_for_requests(index + 1) => {}
        }
        assert_eq!(server.wait_for_end(index).await, baton_testkit::model_server::End::ClientLeft);
    }
}
