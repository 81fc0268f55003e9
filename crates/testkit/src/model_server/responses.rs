//! The Responses API, as used by codex.

use serde_json::{Value, json};

use super::answer::{Api, halves, new_id};

/// An answer in the format of Responses: a list of items, each added, filled and done.
pub(super) struct Responses {
    id: String,
    model: Value,
    items: Vec<Value>,
    /// The message that is being written; it is the last item.
    message: Option<String>,
    /// Its annotations.
    annotations: Vec<Value>,
}

impl Responses {
    pub(super) fn new(request: &Value) -> Self {
        Self {
            id: new_id("resp_"),
            model: request["model"].clone(),
            items: Vec::new(),
            message: None,
            annotations: Vec::new(),
        }
    }

    /// Returns the first event.
    fn begin(&self) -> String {
        let is_first = self.items.is_empty();
        if is_first {
            event(&json!({"type": "response.created", "response": self.response("in_progress")}))
        } else {
            String::new()
        }
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": self.id, "object": "response", "created_at": 0, "status": status, "model": self.model,
            "output": self.items,
        })
    }

    /// Adds an item in its initial form.
    fn add(&mut self, item: Value) -> String {
        let begin = self.begin();
        let index = self.items.len();
        let added =
            event(&json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        self.items.push(item);
        begin + &added
    }

    /// Completes the last item.
    fn done(&mut self, item: Value) -> String {
        let index = self.items.len() - 1;
        self.items[index] = item;
        let item = &self.items[index];
        event(&json!({"type": "response.output_item.done", "output_index": index, "item": item}))
    }

    fn delta(&self, kind: &str, more: &[(&str, Value)]) -> String {
        let index = self.items.len() - 1;
        let mut delta = json!({"type": kind, "item_id": self.items[index]["id"], "output_index": index});
        for (name, value) in more {
            delta[*name] = value.clone();
        }
        event(&delta)
    }

    fn end_message(&mut self) -> String {
        let Some(text) = self.message.take() else { return String::new() };
        let id = self.items.last().map(|item| item["id"].clone());
        let annotations = std::mem::take(&mut self.annotations);
        self.done(json!({
            "type": "message", "id": id, "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": annotations}],
        }))
    }
}

impl Api for Responses {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&mut self, text: &str) -> String {
        let mut events = String::new();
        if self.message.is_none() {
            events = self.add(json!({
                "type": "message", "id": new_id("msg_"), "role": "assistant", "status": "in_progress", "content": [],
            }));
        }
        self.message.get_or_insert_default().push_str(text);
        let more = [("content_index", json!(0)), ("delta", json!(text))];
        events + &self.delta("response.output_text.delta", &more)
    }

    fn cited(&mut self, text: &str) -> String {
        let start = self.message.as_deref().unwrap_or_default().chars().count();
        let events = self.text(text);
        let annotation = json!({
            "type": "url_citation", "start_index": start, "end_index": start + text.chars().count(),
            "url": "https://source.example", "title": "The source",
        });
        let more = [("annotation_index", json!(self.annotations.len())), ("annotation", annotation.clone())];
        self.annotations.push(annotation);
        events + &self.delta("response.output_text.annotation.added", &more)
    }

    fn reasoning(&mut self, reasoning: &str) -> String {
        let mut events = self.end_message();
        let item = json!({
            "type": "reasoning", "id": new_id("rs_"), "content": [], "encrypted_content": null,
            "summary": [{"type": "summary_text", "text": reasoning}],
        });
        events += &self.add(item.clone());
        let more = [("summary_index", json!(0)), ("delta", json!(reasoning))];
        events += &self.delta("response.reasoning_summary_text.delta", &more);
        events + &self.done(item)
    }

    fn call(&mut self, name: &str, arguments: &str) -> String {
        let mut events = self.end_message();
        let item = json!({
            "type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"), "name": name,
            "arguments": arguments, "status": "completed",
        });
        let mut unfinished = item.clone();
        unfinished["arguments"] = "".into();
        events += &self.add(unfinished);
        for part in halves(arguments) {
            events += &self.delta("response.function_call_arguments.delta", &[("delta", json!(part))]);
        }
        events + &self.done(item)
    }

    fn end(&mut self, reason: Option<&str>) -> String {
        let mut events = self.end_message() + &self.begin();
        let mut response = self.response(if reason.is_some() { "incomplete" } else { "completed" });
        response["usage"] = usage();
        let kind = match reason {
            Some(reason) => {
                response["incomplete_details"] = json!({"reason": reason});
                "response.incomplete"
            }
            None => "response.completed",
        };
        events += &event(&json!({"type": kind, "response": response}));
        events
    }

    fn whole(&mut self, _reason: Option<&str>) -> Value {
        self.end_message();
        let mut response = self.response("completed");
        response["usage"] = usage();
        response
    }
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// The same numbers as in the other APIs, under other names.
fn usage() -> Value {
    json!({
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    })
}
