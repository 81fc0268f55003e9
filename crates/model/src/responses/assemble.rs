//! A response, put together item by item.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::wire::{self, Event, Item, Part, Response};
use crate::calls::{self, Calls};
use crate::endpoint::Endpoint;
use crate::exchange::{self, Assemble};
use crate::{Answer, Citation, Delta, ModelError, Request, Sink, failure, opaque, sse};

/// What there is of an answer.
pub(super) struct Assembler<'a> {
    endpoint: &'a Endpoint,
    model: &'a str,
    answer: Answer,
    calls: Calls,
    /// Thoughts, to be given back.
    thoughts: Vec<Value>,
    /// Items that came in pieces: what they are in the end says nothing new.
    in_pieces: HashSet<u64>,
    /// Where in the answer's text the current message begins, in characters.
    message_begin: usize,
    has_items: bool,
    end: Option<End>,
}

/// How the response ended.
struct End {
    incomplete: Option<String>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        Self {
            endpoint,
            model: &request.model,
            answer: Answer::default(),
            calls: Calls::after(request),
            thoughts: Vec::new(),
            in_pieces: HashSet::new(),
            message_begin: 0,
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

    /// An item begins.
    fn begin_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        self.has_items = true;
        match item.kind.as_str() {
            "message" => self.begin_message(sink),
            "function_call" => {
                if !item.arguments.is_empty() {
                    self.in_pieces.insert(index);
                }
                self.take_call(index, item, sink)?;
            }
            "reasoning" if self.answer.reasoning.is_some() => self.think("\n\n".to_owned(), sink),
            _ => {}
        }
        Ok(())
    }

    /// An item is as it will be. What has not come in pieces comes now.
    fn end_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        let is_new = self.in_pieces.insert(index);
        match item.kind.as_str() {
            "message" => {
                let mut begin = self.message_begin;
                for part in item.content {
                    begin = self.take_part(begin, part, is_new, sink);
                }
            }
            "function_call" if is_new => self.take_call(index, item, sink)?,
            "reasoning" => {
                if is_new {
                    self.think(item.thought(), sink);
                }
                self.keep_thought(&item);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_whole_item(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        self.has_items = true;
        if item.kind == "message" {
            self.begin_message(sink);
        }
        self.end_item(index, item, sink)
    }

    /// Messages of one answer are paragraphs.
    fn begin_message(&mut self, sink: Sink<'_>) {
        if !self.answer.text.is_empty() {
            self.say("\n\n".to_owned(), sink);
        }
        self.message_begin = self.answer.text.chars().count();
    }

    /// Takes a part of a message that begins at this character of the answer; returns where it ends.
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
            self.say(part.text, sink);
            self.say(part.refusal, sink);
        }
        end
    }

    fn take_call(&mut self, index: u64, item: Item, sink: Sink<'_>) -> Result<(), ModelError> {
        let id = item.call_id().to_owned();
        let piece = calls::Piece { index: Some(index), id, name: item.name, arguments: item.arguments };
        sink(self.calls.take(piece, self.answer.id.as_deref()));
        self.calls.check_number(self.endpoint)
    }

    fn say(&mut self, text: String, sink: Sink<'_>) {
        if !text.is_empty() {
            self.answer.text.push_str(&text);
            sink(Delta::Text(text));
        }
    }

    fn think(&mut self, thought: String, sink: Sink<'_>) {
        if !thought.is_empty() {
            self.answer.reasoning.get_or_insert_default().push_str(&thought);
            sink(Delta::Reasoning(thought));
        }
    }

    /// A thought that is not encrypted is only known to a provider that stores it, which we do not ask for.
    fn keep_thought(&mut self, item: &Item) {
        if let Some(encrypted) = &item.encrypted_content {
            let summary: Vec<Value> =
                item.summary.iter().map(|part| json!({"type": "summary_text", "text": part.text})).collect();
            self.thoughts.push(json!({
                "type": "reasoning", "summary": summary, "encrypted_content": encrypted,
            }));
        }
    }

    fn take_end(&mut self, mut response: Response, sink: Sink<'_>) -> Result<(), ModelError> {
        self.take_head(&response);
        // Some send nothing but the end.
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
        match event.response.as_ref().and_then(Response::complaint) {
            Some(complaint) => failure::in_answer(self.endpoint, complaint),
            // The event itself is the complaint.
            None => failure::in_answer(self.endpoint, &serde_json::from_str(data).unwrap_or_default()),
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

    fn take_event(&mut self, event: &sse::Event, sink: Sink<'_>) -> Result<(), ModelError> {
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
            "response.output_item.added" => self.begin_item(index, event.item.unwrap_or_default(), sink)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.in_pieces.insert(index);
                self.say(event.delta, sink);
            }
            "response.reasoning_summary_part.added" if event.summary_index > 0 => {
                self.think("\n\n".to_owned(), sink);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.in_pieces.insert(index);
                self.think(event.delta, sink);
            }
            "response.function_call_arguments.delta" => {
                self.in_pieces.insert(index);
                let more = calls::Piece { index: Some(index), arguments: event.delta, ..Default::default() };
                sink(self.calls.take(more, self.answer.id.as_deref()));
            }
            "response.output_item.done" => self.end_item(index, event.item.unwrap_or_default(), sink)?,
            "response.completed" | "response.incomplete" | "response.done" => {
                self.take_end(event.response.unwrap_or_default(), sink)?;
            }
            "response.failed" | "error" => return Err(self.failed(&event, data)),
            // Echoes of what has been said, and what may come in later versions.
            _ => {}
        }
        Ok(())
    }

    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError> {
        let response: Response = exchange::read_json(self.endpoint, body)?;
        if let Some(complaint) = response.complaint() {
            return Err(failure::in_answer(self.endpoint, complaint));
        }
        if response.output.is_none() {
            return Err(failure::nonsense(self.endpoint, "sent an answer in which nothing is said"));
        }
        self.take_end(response, sink)
    }

    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        let Some(end) = self.end else { return Err(failure::broke_off(self.endpoint)) };
        let says_something = self.has_items || !self.answer.text.is_empty() || !self.calls.is_empty();
        if !says_something && end.incomplete.is_none() {
            return Err(failure::nonsense(self.endpoint, "sent an answer in which nothing is said"));
        }
        Ok(Answer {
            finish: wire::finish(end.incomplete.as_deref(), !self.calls.is_empty()),
            tool_calls: self.calls.finish(),
            reasoning_opaque: opaque::tag(super::WIRE, self.model, &self.thoughts),
            ..self.answer
        })
    }
}
