//! A message, put together block by block.

use baton_protocol::Json;
use serde_json::{Value, json};

use super::wire::{self, Block, Delta as Piece, Event, Message, WireUsage};
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
    /// Where in the answer's text the current block begins, in characters.
    block_begin: usize,
    /// How many citations there were when it began.
    block_citations: usize,
    usage: WireUsage,
    stop_reason: Option<String>,
    has_content: bool,
    has_end_mark: bool,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        Self {
            endpoint,
            model: &request.model,
            answer: Answer::default(),
            calls: Calls::after(request),
            thoughts: Vec::new(),
            block_begin: 0,
            block_citations: 0,
            usage: WireUsage::default(),
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

    /// Takes a block, or the beginning of one that goes on in a stream.
    fn begin_block(
        &mut self,
        index: u64,
        block: Block,
        streamed: bool,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        self.has_content = true;
        self.block_begin = self.answer.text.chars().count();
        self.block_citations = self.answer.citations.len();
        match block.kind.as_str() {
            "tool_use" => {
                let arguments = block.arguments(streamed);
                let piece = calls::Piece { index: Some(index), id: block.id, name: block.name, arguments };
                sink(self.calls.take(piece, self.answer.id.as_deref()));
                self.calls.check_number(self.endpoint)?;
            }
            "thinking" => {
                self.thoughts.push(json!({"type": "thinking", "thinking": "", "signature": ""}));
                self.think(&block.thinking, &block.signature, sink);
            }
            "redacted_thinking" => {
                self.thoughts.push(json!({"type": "redacted_thinking", "data": block.data}));
            }
            // Tools that the provider runs itself are never asked for here; what they would say is not text.
            _ => self.say(block.text, sink),
        }
        for citation in block.citations {
            self.cite(citation);
        }
        Ok(())
    }

    fn take_piece(&mut self, index: u64, piece: Piece, sink: Sink<'_>) {
        if !piece.partial_json.is_empty() {
            let piece =
                calls::Piece { index: Some(index), arguments: piece.partial_json, ..calls::Piece::default() };
            sink(self.calls.take(piece, self.answer.id.as_deref()));
            return;
        }
        self.think(&piece.thinking, &piece.signature, sink);
        self.say(piece.text, sink);
        if let Some(citation) = piece.citation {
            self.cite(citation);
        }
    }

    fn say(&mut self, text: String, sink: Sink<'_>) {
        if !text.is_empty() {
            self.answer.text.push_str(&text);
            sink(Delta::Text(text));
        }
    }

    fn think(&mut self, thought: &str, signature: &str, sink: Sink<'_>) {
        if let Some(last) = self.thoughts.last_mut() {
            for (field, more) in [("thinking", thought), ("signature", signature)] {
                if let Some(Value::String(text)) = last.get_mut(field) {
                    text.push_str(more);
                }
            }
        }
        if !thought.is_empty() {
            self.answer.reasoning.get_or_insert_default().push_str(thought);
            sink(Delta::Reasoning(thought.to_owned()));
        }
    }

    /// Citations belong to the block that they come with, whose end is not known yet.
    fn cite(&mut self, raw: Json) {
        let value: Value = raw.parse().unwrap_or_default();
        let text = |names: [&str; 2]| names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned);
        self.answer.citations.push(Citation {
            span: self.block_begin..self.block_begin,
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

    fn take_event(&mut self, event: &sse::Event, sink: Sink<'_>) -> Result<(), ModelError> {
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
                    self.begin_block(event.index, block, true, sink)?;
                }
            }
            "content_block_delta" => {
                if let Some(piece) = event.delta {
                    self.take_piece(event.index, piece, sink);
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
            // Pings, and what may come in later versions.
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
            self.begin_block(index, block, false, sink)?;
            self.end_block();
        }
        if !self.has_content && self.stop_reason.is_none() {
            return Err(failure::nonsense(self.endpoint, "sent an answer in which nothing is said"));
        }
        self.has_end_mark = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        if !self.is_complete() {
            return Err(failure::broke_off(self.endpoint));
        }
        if !self.has_content && self.stop_reason.is_none() {
            return Err(failure::nonsense(self.endpoint, "sent a stream in which nothing is said"));
        }
        let finish = wire::finish(self.stop_reason.as_deref(), !self.calls.is_empty());
        Ok(Answer {
            tool_calls: self.calls.finish(),
            finish,
            usage: self.usage.counted(),
            reasoning_opaque: opaque::tag(super::WIRE, self.model, &self.thoughts),
            ..self.answer
        })
    }
}
