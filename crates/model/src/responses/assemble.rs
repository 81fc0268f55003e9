//! Assembles a response item by item.

use std::collections::HashSet;

use baton_protocol::sse;
use serde_json::{Value, json};

use super::wire::{self, Event, Item, Part, Response};
use crate::calls::{self, Calls};
use crate::endpoint::Endpoint;
use crate::exchange::{self, Assemble};
use crate::{Citation, ModelError, ModelResponse, Request, Sink, failure, opaque};

/// The state of an answer that is being assembled.
pub(super) struct Assembler<'a> {
    endpoint: &'a Endpoint,
    model: &'a str,
    answer: ModelResponse,
    calls: Calls,
    /// Reasoning items to send back.
    reasoning_items: Vec<Value>,
    /// Indexes of items whose parts were streamed; their final form contains nothing new.
    streamed: HashSet<u64>,
    /// Start of the current message in the answer's text, in characters.
    message_start: usize,
    has_items: bool,
    end: Option<End>,
}

/// The end of the response.
struct End {
    incomplete: Option<String>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        Self {
            endpoint,
            model: &request.model,
            answer: ModelResponse::default(),
            calls: Calls::after(request),
            reasoning_items: Vec::new(),
            streamed: HashSet::new(),
            message_start: 0,
            has_items: false,
            end: None,
        }
    }

    fn take_head(&mut self, response: &Response) {
        let answer = &mut self.answer;
        answer.id = response.id.clone().or_else(|| answer.id.take());
        answer.model = response.model.clone().or_else(|| answer.model.take());
        answer.usage = response.usage.counted().or(answer.usage);
    }

    /// Starts an item.
    fn start_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        self.has_items = true;
        match item.kind.as_str() {
            "message" => self.start_message(sink),
            "function_call" => {
                if !item.arguments.is_empty() {
                    self.streamed.insert(index);
                }
                self.take_call(index, item, sink)?;
            }
            "reasoning" if self.answer.reasoning.is_some() => {
                self.answer.push_reasoning("\n\n".to_owned(), sink);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends an item; takes its content if it was not streamed.
    fn end_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        let is_new = self.streamed.insert(index);
        match item.kind.as_str() {
            "message" => {
                let mut begin = self.message_start;
                for part in item.content {
                    begin = self.take_part(begin, part, is_new, sink);
                }
            }
            "function_call" if is_new => self.take_call(index, item, sink)?,
            "reasoning" => {
                if is_new {
                    self.answer.push_reasoning(item.reasoning(), sink);
                }
                self.store_reasoning(&item);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_whole_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        self.has_items = true;
        if item.kind == "message" {
            self.start_message(sink);
        }
        self.end_item(index, item, sink)
    }

    /// Starts a message. Messages of one answer become paragraphs.
    fn start_message(&mut self, sink: Sink<'_>) {
        if !self.answer.text.is_empty() {
            self.answer.push_text("\n\n".to_owned(), sink);
        }
        self.message_start = self.answer.text.chars().count();
    }

    /// Takes a part of a message that starts at this character of the answer. Returns the position of its
    /// end.
    fn take_part(&mut self, begin: usize, part: Part, is_new: bool, sink: Sink<'_>) -> usize {
        let end = begin + part.text.chars().count() + part.refusal.chars().count();
        for annotation in part.annotations {
            self.answer.citations.push(Citation {
                span: begin.saturating_add(annotation.start)..begin.saturating_add(annotation.end),
                title: annotation.title,
                url: annotation.url,
                quote: None,
                place: None,
                raw: annotation.raw,
            });
        }
        if is_new {
            self.answer.push_text(part.text, sink);
            self.answer.push_text(part.refusal, sink);
        }
        end
    }

    fn take_call(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        let id = item.call_id().to_owned();
        let delta = calls::CallDelta { index: Some(index), id, name: item.name, arguments: item.arguments };
        sink(self.calls.take(delta, self.answer.id.as_deref()));
        self.calls.check(self.endpoint)
    }

    /// Stores a reasoning item to send back. Without encrypted content it would only be known to a provider
    /// that stores it, which we do not request.
    fn store_reasoning(&mut self, item: &Item) {
        if let Some(encrypted) = &item.encrypted_content {
            let summary: Vec<Value> =
                item.summary.iter().map(|part| json!({"type": "summary_text", "text": part.text})).collect();
            self.reasoning_items.push(json!({
                "type": "reasoning", "summary": summary, "encrypted_content": encrypted,
            }));
        }
    }

    fn take_end(&mut self, mut response: Response, sink: Sink<'_>) -> Result<(), ModelError> {
        self.take_head(&response);
        // Some providers send only the end event.
        if !self.has_items && self.answer.text.is_empty() && self.calls.is_empty() {
            for (index, item) in (0..).zip(response.output.take().unwrap_or_default()) {
                self.take_whole_item(index, item, sink)?;
            }
        }
        let reason = response.incomplete_details.reason;
        let incomplete = (response.status.as_deref() == Some("incomplete"))
            .then(|| reason.unwrap_or_else(|| "incomplete".to_owned()));
        self.end = Some(End { incomplete });
        Ok(())
    }

    fn failed(&self, event: &Event, data: &str) -> ModelError {
        match event.response.as_ref().and_then(Response::error) {
            Some(error) => failure::in_answer(self.endpoint, error),
            // The event itself is the error.
            None => failure::in_answer(self.endpoint, &baton_json::from_str(data).unwrap_or_default()),
        }
    }
}

impl Assemble for Assembler<'_> {
    fn text(&self) -> &str {
        &self.answer.text
    }

    fn has_end_mark(&self) -> bool {
        self.end.is_some()
    }

    fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    fn take_event(&mut self, event: &sse::SseEvent, sink: Sink<'_>) -> Result<(), ModelError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let event: Event = exchange::read_json(self.endpoint, data.as_bytes())?;
        let index = event.output_index;
        match event.kind.as_str() {
            "response.created" | "response.in_progress" => {
                event.response.iter().for_each(|response| self.take_head(response));
            }
            "response.output_item.added" => self.start_item(index, event.item.unwrap_or_default(), sink)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.streamed.insert(index);
                self.answer.push_text(event.delta, sink);
            }
            "response.reasoning_summary_part.added" if event.summary_index > 0 => {
                self.answer.push_reasoning("\n\n".to_owned(), sink);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.streamed.insert(index);
                self.answer.push_reasoning(event.delta, sink);
            }
            "response.function_call_arguments.delta" => {
                self.streamed.insert(index);
                let more =
                    calls::CallDelta { index: Some(index), arguments: event.delta, ..Default::default() };
                sink(self.calls.take(more, self.answer.id.as_deref()));
                self.calls.check(self.endpoint)?;
            }
            "response.output_item.done" => self.end_item(index, event.item.unwrap_or_default(), sink)?,
            "response.completed" | "response.incomplete" | "response.done" => {
                self.take_end(event.response.unwrap_or_default(), sink)?;
            }
            "response.failed" | "error" => return Err(self.failed(&event, data)),
            // Repetitions of earlier content, and events of later versions.
            _ => {}
        }
        Ok(())
    }

    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError> {
        let response: Response = exchange::read_json(self.endpoint, body)?;
        if let Some(error) = response.error() {
            return Err(failure::in_answer(self.endpoint, error));
        }
        if response.output.is_none() {
            return Err(failure::without_content(self.endpoint));
        }
        self.take_end(response, sink)
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let Some(end) = self.end else { return Err(failure::incomplete(self.endpoint)) };
        let has_content = self.has_items || !self.answer.text.is_empty() || !self.calls.is_empty();
        if !has_content && end.incomplete.is_none() {
            return Err(failure::without_content(self.endpoint));
        }
        Ok(ModelResponse {
            finish: wire::finish(end.incomplete.as_deref(), !self.calls.is_empty()),
            tool_calls: self.calls.finish(),
            reasoning_opaque: opaque::tag(super::WIRE, self.model, &self.reasoning_items),
            ..self.answer
        })
    }
}
