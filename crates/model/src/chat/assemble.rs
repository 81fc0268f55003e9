//! An answer, put together from what arrives: pieces of a stream, or one whole reply.

use serde_json::Value;

use super::wire::{self, Choice, Reply};
use crate::calls::{Calls, Piece};
use crate::endpoint::Endpoint;
use crate::exchange::{self, Assemble};
use crate::sse::Event;
use crate::tokens::WireUsage;
use crate::{Answer, Delta, ModelError, Request, Sink, failure};

/// How choices are taken.
struct Manner {
    /// Between the texts of two choices.
    separator: &'static str,
    take_call: fn(&mut Calls, Piece, Option<&str>) -> Delta,
}

/// In a stream a choice is a piece.
const IN_PIECES: Manner = Manner { separator: "", take_call: Calls::take };

/// Otherwise each was meant as a message of its own.
const WHOLE: Manner = Manner { separator: "\n\n", take_call: Calls::take_whole };

/// What there is of an answer.
pub(super) struct Assembler<'a> {
    endpoint: &'a Endpoint,
    answer: Answer,
    calls: Calls,
    finish_reason: Option<String>,
    has_choice: bool,
    has_end_mark: bool,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &Request) -> Self {
        Self {
            endpoint,
            answer: Answer::default(),
            calls: Calls::after(request),
            finish_reason: None,
            has_choice: false,
            has_end_mark: false,
        }
    }

    fn read(&self, json: &[u8]) -> Result<Reply, ModelError> {
        let reply: Reply = exchange::read_json(self.endpoint, json)?;
        match &reply.error {
            Some(error) if !error.is_null() => Err(failure::in_answer(self.endpoint, error)),
            _ if reply.is_complaint() => {
                let complaint = serde_json::from_slice(json).unwrap_or_default();
                Err(failure::in_answer(self.endpoint, &complaint))
            }
            _ => Ok(reply),
        }
    }

    /// Takes what stands beside the choices. Later pieces win where they say something.
    fn take_head(&mut self, reply: &Reply) {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let answer = &mut self.answer;
        answer.id = said(&reply.id).or_else(|| answer.id.take());
        answer.model = said(&reply.model).or_else(|| answer.model.take());
        answer.usage = reply.usage.as_ref().and_then(WireUsage::counted).or(answer.usage);
    }

    fn take_choice(&mut self, mut choice: Choice, manner: &Manner, sink: Sink<'_>) -> Result<(), ModelError> {
        self.has_choice = true;
        let mut said = choice.said();
        self.take_reasoning(said.reasoning(), said.reasoning_opaque.take(), sink);
        let mut text = said.text();
        if !text.is_empty() {
            if !self.answer.text.is_empty() {
                text.insert_str(0, manner.separator);
            }
            self.answer.text.push_str(&text);
            sink(Delta::Text(text));
        }
        for call in said.tool_calls.into_iter().flatten() {
            sink((manner.take_call)(&mut self.calls, call.into(), self.answer.id.as_deref()));
            self.calls.check_number(self.endpoint)?;
        }
        self.finish_reason =
            choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish_reason.take());
        Ok(())
    }

    fn take_reasoning(&mut self, thought: String, opaque: Option<String>, sink: Sink<'_>) {
        if !thought.is_empty() {
            self.answer.reasoning.get_or_insert_default().push_str(&thought);
            sink(Delta::Reasoning(thought));
        }
        if let Some(opaque) = opaque {
            self.answer.reasoning_opaque.get_or_insert_default().push_str(&opaque);
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
        self.has_end_mark || self.finish_reason.is_some()
    }

    fn take_event(&mut self, event: &Event, sink: Sink<'_>) -> Result<(), ModelError> {
        let data = event.data.trim();
        match data {
            "" => return Ok(()),
            "[DONE]" => {
                self.has_end_mark = true;
                return Ok(());
            }
            _ => {}
        }
        if event.name == "error" {
            let complaint = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_answer(self.endpoint, &complaint));
        }
        let reply = self.read(data.as_bytes())?;
        self.take_head(&reply);
        // Choices beyond the first are alternatives in a stream, and nobody asked for any.
        let choices = reply.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0);
        for choice in choices {
            self.take_choice(choice, &IN_PIECES, sink)?;
        }
        Ok(())
    }

    /// Takes a reply that is not streamed. Its choices together are one message: this is how GitHub's API
    /// answers with a text and calls at once, and everybody else sends just one.
    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError> {
        let reply = self.read(body)?;
        self.take_head(&reply);
        for choice in reply.choices.into_iter().flatten() {
            self.take_choice(choice, &WHOLE, sink)?;
        }
        if !self.has_choice {
            return Err(failure::nonsense(self.endpoint, "sent an answer in which nothing is said"));
        }
        self.has_end_mark = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        if !self.is_complete() {
            return Err(failure::broke_off(self.endpoint));
        }
        if !self.has_choice {
            return Err(failure::nonsense(self.endpoint, "sent a stream in which nothing is said"));
        }
        let finish = wire::finish(self.finish_reason.as_deref(), !self.calls.is_empty());
        Ok(Answer { tool_calls: self.calls.finish(), finish, ..self.answer })
    }
}
