//! Assembles an answer from the chunks of a stream, or from a whole reply.

use baton_protocol::sse::SseEvent;
use serde_json::Value;

use super::wire::{self, ChatCompletion, Choice};
use crate::calls::{CallDelta, Calls};
use crate::endpoint::Endpoint;
use crate::exchange::{self, Assemble};
use crate::usage::OpenAiUsage;
use crate::{Delta, ModelError, ModelResponse, Request, Sink, failure};

/// The way to combine choices.
struct Combination {
    /// Separator between the texts of two choices.
    separator: &'static str,
    take_call: fn(&mut Calls, CallDelta, Option<&str>) -> Delta,
}

/// In a stream each choice continues the previous one.
const STREAMED: Combination = Combination { separator: "", take_call: Calls::take };

/// In a whole reply each choice is a separate message.
const WHOLE: Combination = Combination { separator: "\n\n", take_call: Calls::take_whole };

/// The state of an answer that is being assembled.
pub(super) struct Assembler<'a> {
    endpoint: &'a Endpoint,
    answer: ModelResponse,
    calls: Calls,
    finish_reason: Option<String>,
    has_choice: bool,
    has_end_mark: bool,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, request: &Request) -> Self {
        Self {
            endpoint,
            answer: ModelResponse::default(),
            calls: Calls::after(request),
            finish_reason: None,
            has_choice: false,
            has_end_mark: false,
        }
    }

    fn read(&self, json: &[u8]) -> Result<ChatCompletion, ModelError> {
        let reply: ChatCompletion = exchange::read_json(self.endpoint, json)?;
        match &reply.error {
            Some(error) if !error.is_null() => Err(failure::in_answer(self.endpoint, error)),
            _ if reply.is_error() => {
                let error = baton_json::from_slice(json).unwrap_or_default();
                Err(failure::in_answer(self.endpoint, &error))
            }
            _ => Ok(reply),
        }
    }

    /// Takes the fields beside the choices. Later chunks replace earlier ones where they have a value.
    fn take_head(&mut self, reply: &ChatCompletion) {
        let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let answer = &mut self.answer;
        answer.id = present(&reply.id).or_else(|| answer.id.take());
        answer.model = present(&reply.model).or_else(|| answer.model.take());
        answer.usage = reply.usage.as_ref().and_then(OpenAiUsage::counted).or(answer.usage);
    }

    fn take_choice(
        &mut self,
        mut choice: Choice,
        combination: &Combination,
        sink: Sink<'_>,
    ) -> Result<(), ModelError> {
        self.has_choice = true;
        let mut message = choice.message();
        self.take_reasoning(message.reasoning(), message.reasoning_opaque.take(), sink);
        let mut text = message.text();
        if !text.is_empty() && !self.answer.text.is_empty() {
            text.insert_str(0, combination.separator);
        }
        self.answer.push_text(text, sink);
        for call in message.tool_calls.into_iter().flatten() {
            sink((combination.take_call)(&mut self.calls, call.into(), self.answer.id.as_deref()));
            self.calls.check(self.endpoint)?;
        }
        self.finish_reason =
            choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish_reason.take());
        Ok(())
    }

    fn take_reasoning(&mut self, reasoning: String, opaque: Option<String>, sink: Sink<'_>) {
        self.answer.push_reasoning(reasoning, sink);
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

    fn take_event(&mut self, event: &SseEvent, sink: Sink<'_>) -> Result<(), ModelError> {
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
            let error = baton_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_answer(self.endpoint, &error));
        }
        let reply = self.read(data.as_bytes())?;
        self.take_head(&reply);
        // Further choices in a stream are alternatives, which were not requested.
        let choices = reply.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0);
        for choice in choices {
            self.take_choice(choice, &STREAMED, sink)?;
        }
        Ok(())
    }

    /// Takes a reply that is not streamed. Its choices together are one message: GitHub's API returns text
    /// and calls as separate choices; all other providers send one choice.
    fn take_whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), ModelError> {
        let reply = self.read(body)?;
        self.take_head(&reply);
        for choice in reply.choices.into_iter().flatten() {
            self.take_choice(choice, &WHOLE, sink)?;
        }
        if !self.has_choice {
            return Err(failure::without_content(self.endpoint));
        }
        self.has_end_mark = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        if !self.is_complete() {
            return Err(failure::incomplete(self.endpoint));
        }
        if !self.has_choice {
            return Err(failure::without_content(self.endpoint));
        }
        let finish = wire::finish(self.finish_reason.as_deref(), !self.calls.is_empty());
        Ok(ModelResponse { tool_calls: self.calls.finish(), finish, ..self.answer })
    }
}
