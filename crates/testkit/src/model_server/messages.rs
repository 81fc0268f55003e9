//! The Messages API, as used by claude.

use serde_json::{Value, json};

use super::answer::{Api, halves, new_id};

/// An answer in the format of Messages: a list of blocks.
pub(super) struct Messages {
    id: String,
    model: Value,
    blocks: Vec<Value>,
    /// Whether the last block is an open text block.
    in_text: bool,
    has_begun: bool,
}

impl Messages {
    pub(super) fn new(request: &Value) -> Self {
        let model = request["model"].clone();
        Self { id: new_id("msg_"), model, blocks: Vec::new(), in_text: false, has_begun: false }
    }

    fn message(&self, content: &Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": usage(),
        })
    }

    fn begin(&mut self) -> String {
        if std::mem::replace(&mut self.has_begun, true) {
            return String::new();
        }
        event(&json!({"type": "message_start", "message": self.message(&json!([]))}))
    }

    fn start_block(&mut self, shown: &Value, block: Value) -> String {
        let begin = self.begin();
        let index = self.blocks.len();
        self.blocks.push(block);
        begin + &event(&json!({"type": "content_block_start", "index": index, "content_block": shown}))
    }

    fn delta(&self, delta: &Value) -> String {
        let index = self.blocks.len() - 1;
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    }

    fn stop_block(&mut self) -> String {
        self.in_text = false;
        event(&json!({"type": "content_block_stop", "index": self.blocks.len() - 1}))
    }

    fn stop_text(&mut self) -> String {
        if self.in_text { self.stop_block() } else { String::new() }
    }

    fn reason<'a>(&self, reason: Option<&'a str>) -> &'a str {
        let calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        reason.unwrap_or(if calls { "tool_use" } else { "end_turn" })
    }
}

impl Api for Messages {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&mut self, text: &str) -> String {
        let mut events = String::new();
        if !self.in_text {
            let empty = json!({"type": "text", "text": ""});
            events = self.start_block(&empty, empty.clone());
            self.in_text = true;
        }
        if let Some(Value::String(written)) = self.blocks.last_mut().map(|block| &mut block["text"]) {
            written.push_str(text);
        }
        events + &self.delta(&json!({"type": "text_delta", "text": text}))
    }

    fn cited(&mut self, text: &str) -> String {
        let citation = json!({
            "type": "char_location", "cited_text": text, "document_index": 0, "document_title": "The source",
            "start_char_index": 0, "end_char_index": text.chars().count(),
        });
        let mut events = self.stop_text();
        let block = json!({"type": "text", "text": text, "citations": [citation]});
        events += &self.start_block(&json!({"type": "text", "text": "", "citations": []}), block);
        events += &self.delta(&json!({"type": "text_delta", "text": text}));
        events += &self.delta(&json!({"type": "citations_delta", "citation": citation}));
        events + &self.stop_block()
    }

    fn reasoning(&mut self, reasoning: &str) -> String {
        let mut events = self.stop_text();
        let block = json!({"type": "thinking", "thinking": reasoning, "signature": "c2ln"});
        events += &self.start_block(&json!({"type": "thinking", "thinking": "", "signature": ""}), block);
        events += &self.delta(&json!({"type": "thinking_delta", "thinking": reasoning}));
        events += &self.delta(&json!({"type": "signature_delta", "signature": "c2ln"}));
        events + &self.stop_block()
    }

    fn call(&mut self, name: &str, arguments: &str) -> String {
        let mut events = self.stop_text();
        let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let mut block = json!({"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}});
        let shown = block.clone();
        block["input"] = input;
        events += &self.start_block(&shown, block);
        for part in halves(arguments) {
            events += &self.delta(&json!({"type": "input_json_delta", "partial_json": part}));
        }
        events + &self.stop_block()
    }

    fn end(&mut self, reason: Option<&str>) -> String {
        let mut events = self.begin() + &self.stop_text();
        let delta = json!({"stop_reason": self.reason(reason), "stop_sequence": null});
        events += &event(&json!({"type": "message_delta", "delta": delta, "usage": usage()}));
        events + &event(&json!({"type": "message_stop"}))
    }

    fn whole(&mut self, reason: Option<&str>) -> Value {
        let mut message = self.message(&Value::from(self.blocks.clone()));
        message["stop_reason"] = self.reason(reason).into();
        message
    }
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// The same numbers as in the other APIs, except that cached input is counted separately.
fn usage() -> Value {
    json!({
        "input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 20,
    })
}
