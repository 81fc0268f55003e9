//! A response of the model, during and after streaming.

use baton_protocol::event::AssistantMessage;
use baton_protocol::{SessionId, Timestamp, ToolCallId};

use super::PROVIDER;
use crate::tools::Call;
use crate::wire::{Finish, FinishReason, Message, MessageRole, Part, seconds};

/// A response of the model, as an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelResponse {
    pub(super) id: String,
    session: SessionId,
    pub(super) model: String,
    created: Timestamp,
    updated: Timestamp,
    thinking: String,
    pub(super) text: String,
    calls: Vec<ResponseCall>,
    finish: Option<Finish>,
    /// Message id of its deltas. A different one means that the model call was repeated.
    stream: Option<String>,
    /// Whether the complete text has been received, and is in the history.
    pub(super) is_complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ResponseCall {
    id: ToolCallId,
    name: String,
    input: String,
    finished: bool,
}

/// Streamed part of a response that the history does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partial {
    thinking: String,
    text: String,
}

impl ModelResponse {
    pub(super) fn new(id: String, session: SessionId, model: String, at: Timestamp) -> Self {
        Self {
            id,
            session,
            model,
            created: at,
            updated: at,
            thinking: String::new(),
            text: String::new(),
            calls: Vec::new(),
            finish: None,
            stream: None,
            is_complete: false,
        }
    }

    pub(super) fn message(&self) -> Message {
        Message {
            id: self.id.clone(),
            role: MessageRole::Assistant,
            session_id: self.session.clone(),
            parts: self.parts(),
            model: self.model.clone(),
            provider: PROVIDER.into(),
            created_at: seconds(self.created),
            updated_at: seconds(self.updated),
        }
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        if !self.thinking.is_empty() {
            let is_finished = self.is_complete || !self.text.is_empty() || self.finish.is_some();
            parts.push(Part::Reasoning {
                thinking: self.thinking.clone(),
                signature: String::new(),
                started_at: Some(seconds(self.created)),
                finished_at: is_finished.then(|| seconds(self.updated)),
            });
        }
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text.clone() });
        }
        parts.extend(self.calls.iter().cloned().map(|call| Part::ToolCall {
            id: call.id.to_string(),
            name: call.name,
            input: call.input,
            finished: call.finished,
        }));
        parts.extend(self.finish.clone().map(Part::Finish));
        parts
    }

    /// Replaces the streamed text with the complete one.
    pub(super) fn complete(&mut self, message: &AssistantMessage, at: Timestamp) {
        self.is_complete = true;
        self.updated = at;
        self.thinking = message.reasoning_text.clone().unwrap_or_default();
        self.text.clone_from(&message.content);
        self.calls.clear();
        if let Some(model) = &message.model {
            self.model.clone_from(model);
        }
    }

    /// Adds or replaces a tool call with complete arguments.
    pub(super) fn put_call(&mut self, id: &ToolCallId, call: &Call) {
        let complete = ResponseCall {
            id: id.clone(),
            name: call.name().to_owned(),
            input: call.input(),
            finished: true,
        };
        match self.calls.iter_mut().find(|known| known.id == *id) {
            Some(known) => *known = complete,
            None => self.calls.push(complete),
        }
    }

    pub(super) fn has_call(&self, id: &ToolCallId) -> bool {
        self.calls.iter().any(|call| call.id == *id && call.finished)
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether any of its calls has complete arguments.
    pub(super) fn has_complete_calls(&self) -> bool {
        self.calls.iter().any(|call| call.finished)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn finish(&mut self, finish: Finish, at: Timestamp) {
        self.updated = at;
        // A call with incomplete arguments was never made.
        self.calls.retain(|call| call.finished);
        self.finish = Some(finish);
    }

    pub(super) fn finish_plainly(&mut self, reason: FinishReason, at: Timestamp) {
        self.finish(Finish::plain(reason, seconds(at)), at);
    }

    /// Adds a delta of the text.
    pub(super) fn add_text(&mut self, stream: &str, delta: &str) {
        self.set_stream(stream);
        self.text.push_str(delta);
    }

    /// Adds a delta of the reasoning. Its id differs from that of the text, but reasoning comes before text: if there is text,
    /// the model call was repeated.
    pub(super) fn add_reasoning(&mut self, delta: &str) {
        if !self.text.is_empty() {
            self.restart();
        }
        self.thinking.push_str(delta);
    }

    /// Adds a call whose arguments are still streamed. Returns whether it is new.
    pub(super) fn announce_call(&mut self, id: &ToolCallId, tool: &str) -> bool {
        if self.calls.iter().any(|call| call.id == *id) {
            return false;
        }
        let call = Call { tool: tool.to_owned(), arguments: None, started: 0 };
        let name = call.name().to_owned();
        self.calls.push(ResponseCall { id: id.clone(), name, input: String::new(), finished: false });
        true
    }

    fn set_stream(&mut self, stream: &str) {
        if self.stream.as_deref().is_some_and(|known| known != stream) {
            self.restart();
        }
        self.stream = Some(stream.to_owned());
    }

    /// Drops the content of a model call that is repeated.
    fn restart(&mut self) {
        self.text.clear();
        self.thinking.clear();
        self.calls.clear();
        self.stream = None;
    }

    pub(super) fn partial(&self) -> Option<Partial> {
        let streamed = !self.text.is_empty() || !self.thinking.is_empty();
        (!self.is_complete && streamed)
            .then(|| Partial { thinking: self.thinking.clone(), text: self.text.clone() })
    }

    pub(super) fn add_partial(&mut self, partial: Partial) {
        if !self.is_complete && self.text.is_empty() {
            self.text = partial.text;
            self.thinking = partial.thinking;
        }
    }
}
