//! Assembles a message block by block.

use baton_protocol::{Json, sse};
use serde_json::{Value, json};

use super::wire::{self, Block, Delta as BlockDelta, Event, Message};
use crate::calls::{self, Calls};
use crate::endpoint::Endpoint;
use crate::exchange::{self, Assemble};
use crate::usage::AnthropicUsage;
use crate::{Citation, ModelError, ModelResponse, Request, Sink, failure, opaque};

/// The state of an answer that is being assembled.
pub(super) struct Assembler<'a> {
    endpoint: &'a Endpoint,
    model: &'a str,
    answer: ModelResponse,
    calls: Calls,
    /// Reasoning blocks to send back.
    reasoning_blocks: Vec<Value>,
    /// Start of the current block in the answer's text, in characters.
    block_start: usize,
    /// Number of citations at the start of the current block.
    block_citations: usize,
    usage: AnthropicUsage,
    stop_reason: Option<String>,
    has_content: bool,
    has_end_mark: bool,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        Self {
            endpoint,
            model: &request.model,
            answer: ModelResponse::default(),
            calls: Calls::after(request),
            reasoning_blocks: Vec::new(),
            block_start: 0,
            block_citations: 0,
            usage: AnthropicUsage::default(),
            stop_reason: None,
            has_content: false,
            has_end_mark: false,
        }
    }

    fn take_head(&mut self, message: &Message) {
        self.answer.id.clone_from(&message.id);
        self.answer.model.clone_from(&message.model);
        self.usage.update(&message.usage);
        if message.stop_reason.is_some() {
            self.stop_reason.clone_from(&message.stop_reason);
        }
    }

    /// Takes a block, or the start of one that continues in a stream.
    fn start_block(
        &mut self,
        index: u64,
        block: Block,
        streamed: bool,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        self.has_content = true;
        self.block_start = self.answer.text.chars().count();
        self.block_citations = self.answer.citations.len();
        match block.kind.as_str() {
            "tool_use" => {
                let arguments = block.arguments(streamed);
                let delta =
                    calls::CallDelta { index: Some(index), id: block.id, name: block.name, arguments };
                sink(self.calls.take(delta, self.answer.id.as_deref()));
                self.calls.check(self.endpoint)?;
            }
            "thinking" => {
                self.reasoning_blocks.push(json!({"type": "thinking", "thinking": "", "signature": ""}));
                self.take_reasoning(&block.thinking, &block.signature, sink);
            }
            "redacted_thinking" => {
                self.reasoning_blocks.push(json!({"type": "redacted_thinking", "data": block.data}));
            }
            // Server-side tools are never requested, so other kinds contain only text.
            _ => self.answer.push_text(block.text, sink),
        }
        for citation in block.citations {
            self.cite(citation);
        }
        Ok(())
    }

    fn take_delta(&mut self, index: u64, delta: BlockDelta, sink: Sink<'_>) -> Result<(), ModelError> {
        if !delta.partial_json.is_empty() {
            let delta = calls::CallDelta {
                index: Some(index),
                arguments: delta.partial_json,
                ..calls::CallDelta::default()
            };
            sink(self.calls.take(delta, self.answer.id.as_deref()));
            return self.calls.check(self.endpoint);
        }
        self.take_reasoning(&delta.thinking, &delta.signature, sink);
        self.answer.push_text(delta.text, sink);
        if let Some(citation) = delta.citation {
            self.cite(citation);
        }
        Ok(())
    }

    fn take_reasoning(&mut self, reasoning: &str, signature: &str, sink: Sink<'_>) {
        if let Some(last) = self.reasoning_blocks.last_mut() {
            for (field, more) in [("thinking", reasoning), ("signature", signature)] {
                if let Some(Value::String(text)) = last.get_mut(field) {
                    text.push_str(more);
                }
            }
        }
        self.answer.push_reasoning(reasoning.to_owned(), sink);
    }

    /// Adds a citation to the current block, whose end is not known yet.
    fn cite(&mut self, raw: Json) {
        let value: Value = raw.parse().unwrap_or_default();
        let text = |names: [&str; 2]| names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned);
        self.answer.citations.push(Citation {
            span: self.block_start..self.block_start,
            title: text(["document_title", "title"]),
            url: text(["url", "source"]),
            quote: text(["cited_text", "cited_text"]),
            place: wire::place(&value),
            raw,
        });
    }

    fn end_block(&mut self) {
        let end = self.answer.text.chars().count();
        for citation in &mut self.answer.citations[self.block_citations..] {
            citation.span.end = end;
        }
    }
}

impl Assemble for Assembler<'_> {
    fn text(&self) -> &str {
        &self.answer.text
    }

    fn has_end_mark(&self) -> bool {
        self.has_end_mark
    }

    fn is_complete(&self) -> bool {
        self.has_end_mark || self.stop_reason.is_some()
    }

    fn take_event(&mut self, event: &sse::SseEvent, sink: Sink<'_>) -> Result<(), ModelError> {
        if event.data.trim().is_empty() {
            return Ok(());
        }
        let event: Event = exchange::read_json(self.endpoint, event.data.as_bytes())?;
        match event.kind.as_str() {
            "message_start" => {
                if let Some(message) = event.message {
                    self.take_head(&message);
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.start_block(event.index, block, true, sink)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.take_delta(event.index, delta, sink)?;
                }
            }
            "content_block_stop" => self.end_block(),
            "message_delta" => {
                self.usage.update(&event.usage);
                self.stop_reason =
                    event.delta.and_then(|delta| delta.stop_reason).or(self.stop_reason.take());
            }
            "message_stop" => self.has_end_mark = true,
            "error" => return Err(failure::in_answer(self.endpoint, &event.error.unwrap_or_default())),
            // Pings, and events of later versions.
            _ => {}
        }
        Ok(())
    }

    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError> {
        let mut message: Message = exchange::read_json(self.endpoint, body)?;
        if let Some(error) = message.error.take().filter(|error| !error.is_null()) {
            return Err(failure::in_answer(self.endpoint, &error));
        }
        self.take_head(&message);
        for (index, block) in (0..).zip(message.content.take().unwrap_or_default()) {
            self.start_block(index, block, false, sink)?;
            self.end_block();
        }
        if !self.has_content && self.stop_reason.is_none() {
            return Err(failure::without_content(self.endpoint));
        }
        self.has_end_mark = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        if !self.is_complete() {
            return Err(failure::incomplete(self.endpoint));
        }
        if !self.has_content && self.stop_reason.is_none() {
            return Err(failure::without_content(self.endpoint));
        }
        let finish = wire::finish(self.stop_reason.as_deref(), !self.calls.is_empty());
        Ok(ModelResponse {
            tool_calls: self.calls.finish(),
            finish,
            usage: self.usage.counted(),
            reasoning_opaque: opaque::tag(super::WIRE, self.model, &self.reasoning_blocks),
            ..self.answer
        })
    }
}
