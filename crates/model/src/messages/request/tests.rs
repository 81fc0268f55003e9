//! Messages requests as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn written(request: &Request) -> Value {
    baton_json::from_slice(&body(request).unwrap()).unwrap()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn assistant(text: &str, calls: &[(&str, &str)], opaque: Option<String>) -> Message {
    let call = |(id, arguments): &(&str, &str)| ToolCall {
        id: (*id).into(),
        name: "f".into(),
        arguments: (*arguments).into(),
    };
    Message::Assistant {
        text: text.into(),
        tool_calls: calls.iter().map(call).collect(),
        reasoning_opaque: opaque,
    }
}

fn conversation() -> Vec<Arc<Message>> {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let result = |id: &str, failed| Message::Tool { call_id: id.into(), content: "r".into(), failed };
    let image = Part::Image { mime_type: "image/png".into(), data: "QUJD".into() };
    let pdf = Part::Document {
        mime_type: "application/pdf".into(),
        title: Some("a.pdf".into()),
        data: "QUJD".into(),
    };
    let messages = [
        Message::System("be good".into()),
        Message::User(vec![text("hi"), text(" "), pdf]),
        assistant("", &[("a", "{\"b\" :1.0}"), ("b", "oops")], opaque::tag("messages", "m", &[thought])),
        result("a", false),
        result("b", true),
        Message::User(vec![text("look"), image]),
        assistant("", &[], None),
        assistant("done", &[], Some("of another".into())),
        Message::User(vec![text("more")]),
    ];
    messages.map(Arc::new).to_vec()
}

#[test]
fn whole_conversation_is_serialised() {
    let request = Request {
        model: "m".into(),
        messages: conversation(),
        tools: Arc::new([ToolDef {
            name: "f".into(),
            description: "runs".into(),
            parameters: Json::from_text(r#"{"type":"object"}"#).unwrap(),
        }]),
        citations: true,
        ..Request::default()
    };
    let mark = json!({"type": "ephemeral"});
    let source = |kind: &str| json!({"type": "base64", "media_type": kind, "data": "QUJD"});
    let expected = json!({
        "model": "m",
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "be good", "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "hi"},
                {"type": "document", "source": source("application/pdf"), "title": "a.pdf",
                 "citations": {"enabled": true}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1.0}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {"invalid_arguments": "oops"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "r"},
                {"type": "tool_result", "tool_use_id": "b", "content": "r", "is_error": true},
                {"type": "text", "text": "look"},
                {"type": "image", "source": source("image/png"), "cache_control": mark},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": mark}]},
        ],
        "tools": [{"name": "f", "description": "runs", "input_schema": {"type": "object"}}],
    });
    assert_eq!(written(&request), expected);
    let raw = String::from_utf8(body(&request).unwrap()).unwrap();
    assert!(raw.contains(r#""input":{"b":1.0}"#), "the spelling of numbers is preserved: {raw}");
}

#[test]
fn reasoning_and_stream_are_requested() {
    let request = Request {
        model: "claude-opus-4-8".into(),
        stream: true,
        reasoning_effort: Some("low".into()),
        max_output_tokens: Some(7),
        ..Request::default()
    };
    let expected = json!({
        "model": "claude-opus-4-8", "max_tokens": 7, "messages": [], "stream": true,
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"},
    });
    assert_eq!(written(&request), expected);
}
