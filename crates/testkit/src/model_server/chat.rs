//! Chat completions.

use serde_json::{Value, json};

use super::answer::{Api, halves, new_id};

/// An answer in the format of chat completions.
pub(super) struct Chat {
    id: String,
    model: Value,
    wants_usage: bool,
    text: String,
    reasoning: String,
    calls: Vec<Value>,
}

impl Chat {
    pub(super) fn new(request: &Value) -> Self {
        Self {
            id: new_id("chatcmpl-"),
            model: request["model"].clone(),
            wants_usage: request["stream_options"]["include_usage"] == true,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
        }
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        json!({"id": self.id, "object": object, "created": 0, "model": self.model, "choices": choices})
    }

    fn event(&self, choices: &Value) -> String {
        format!("data: {}\n\n", self.envelope("chat.completion.chunk", choices))
    }

    fn piece(&self, delta: &Value) -> String {
        self.event(&json!([{"index": 0, "delta": delta, "finish_reason": null}]))
    }

    fn finish<'a>(&self, reason: Option<&'a str>) -> &'a str {
        reason.unwrap_or(if self.calls.is_empty() { "stop" } else { "tool_calls" })
    }
}

impl Api for Chat {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&mut self, text: &str) -> String {
        self.text.push_str(text);
        self.piece(&json!({"content": text}))
    }

    fn reasoning(&mut self, reasoning: &str) -> String {
        self.reasoning.push_str(reasoning);
        self.piece(&json!({"reasoning_content": reasoning}))
    }

    fn call(&mut self, name: &str, arguments: &str) -> String {
        let index = self.calls.len();
        let id = new_id("call_");
        let function = json!({"name": name, "arguments": arguments});
        self.calls.push(json!({"id": id, "type": "function", "function": function}));
        let first = json!({"name": name, "arguments": ""});
        let mut events = self.piece(
            &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": first}]}),
        );
        for part in halves(arguments) {
            let delta = json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]});
            events += &self.piece(&delta);
        }
        events
    }

    fn end(&mut self, reason: Option<&str>) -> String {
        let reason = self.finish(reason);
        let mut events = self.event(&json!([{"index": 0, "delta": {}, "finish_reason": reason}]));
        if self.wants_usage {
            let mut event = self.envelope("chat.completion.chunk", &json!([]));
            event["usage"] = usage();
            events += &format!("data: {event}\n\n");
        }
        events + "data: [DONE]\n\n"
    }

    fn whole(&mut self, reason: Option<&str>) -> Value {
        let content = if self.text.is_empty() { Value::Null } else { Value::from(self.text.as_str()) };
        let mut message = json!({"role": "assistant", "content": content});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = Value::from(self.reasoning.as_str());
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = Value::from(self.calls.clone());
        }
        let choices = json!([{"index": 0, "message": message, "finish_reason": self.finish(reason)}]);
        let mut whole = self.envelope("chat.completion", &choices);
        whole["usage"] = usage();
        whole
    }
}

/// Constant, so that tests can expect it.
fn usage() -> Value {
    json!({
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 5},
    })
}
