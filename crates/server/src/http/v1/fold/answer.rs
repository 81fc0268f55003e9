//! One answer of a model, while it is made and after.

use baton_protocol::event::AssistantMessage;
use baton_protocol::{SessionId, Timestamp, ToolCallId};

use super::PROVIDER;
use crate::http::v1::tools::Call;
use crate::http::v1::wire::{Finish, FinishReason, Message, Part, Role, seconds};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) id: String,
    session: SessionId,
    pub(super) model: String,
    created: Timestamp,
    updated: Timestamp,
    thinking: String,
    pub(super) text: String,
    calls: Vec<AnswerCall>,
    finish: Option<Finish>,
    /// The name of the stream that its pieces come from. Another name means that the model was asked again.
    stream: Option<String>,
    /// Whether it is in the history as a whole.
    pub(super) said: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AnswerCall {
    id: ToolCallId,
    name: String,
    input: String,
    finished: bool,
}

/// What was streamed of an answer and is in no history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partial {
    thinking: String,
    text: String,
}

impl Answer {
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
            said: false,
        }
    }

    pub(super) fn message(&self) -> Message {
        Message {
            id: self.id.clone(),
            role: Role::Assistant,
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
            let over = self.said || !self.text.is_empty() || self.finish.is_some();
            parts.push(Part::Reasoning {
                thinking: self.thinking.clone(),
                signature: String::new(),
                started_at: Some(seconds(self.created)),
                finished_at: over.then(|| seconds(self.updated)),
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

    /// The whole answer has come.
    pub(super) fn say(&mut self, message: &AssistantMessage, at: Timestamp) {
        self.said = true;
        self.updated = at;
        self.thinking = message.reasoning_text.clone().unwrap_or_default();
        self.text.clone_from(&message.content);
        self.calls.clear();
        if let Some(model) = &message.model {
            self.model.clone_from(model);
        }
    }

    /// A call that it makes, whole.
    pub(super) fn put_call(&mut self, id: &ToolCallId, call: &Call) {
        let whole =
            AnswerCall { id: id.clone(), name: call.name().to_owned(), input: call.input(), finished: true };
        match self.calls.iter_mut().find(|known| known.id == *id) {
            Some(known) => *known = whole,
            None => self.calls.push(whole),
        }
    }

    pub(super) fn makes_call(&self, id: &ToolCallId) -> bool {
        self.calls.iter().any(|call| call.id == *id && call.finished)
    }

    pub(super) fn makes_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether any of its calls is more than an announcement.
    pub(super) fn has_begun_calls(&self) -> bool {
        self.calls.iter().any(|call| call.finished)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn finish(&mut self, finish: Finish, at: Timestamp) {
        self.updated = at;
        // A call whose arguments never came whole was never made.
        self.calls.retain(|call| call.finished);
        self.finish = Some(finish);
    }

    pub(super) fn finish_plainly(&mut self, reason: FinishReason, at: Timestamp) {
        self.finish(Finish::plain(reason, seconds(at)), at);
    }

    /// The next piece of its text.
    pub(super) fn add_text(&mut self, stream: &str, piece: &str) {
        self.follow(stream);
        self.text.push_str(piece);
    }

    /// The next piece of what it thinks. Its stream has a name of its own; what it thinks comes before what it says.
    pub(super) fn add_thought(&mut self, piece: &str) {
        if !self.text.is_empty() {
            self.restart();
        }
        self.thinking.push_str(piece);
    }

    /// A call begins whose arguments are still to come.
    pub(super) fn announce_call(&mut self, id: &ToolCallId, tool: &str) -> bool {
        if self.calls.iter().any(|call| call.id == *id) {
            return false;
        }
        let call = Call { tool: tool.to_owned(), arguments: None, began: 0 };
        let name = call.name().to_owned();
        self.calls.push(AnswerCall { id: id.clone(), name, input: String::new(), finished: false });
        true
    }

    fn follow(&mut self, stream: &str) {
        if self.stream.as_deref().is_some_and(|known| known != stream) {
            self.restart();
        }
        self.stream = Some(stream.to_owned());
    }

    /// The model is asked again: what it had said before does not count.
    fn restart(&mut self) {
        self.text.clear();
        self.thinking.clear();
        self.calls.clear();
        self.stream = None;
    }

    pub(super) fn partial(&self) -> Option<Partial> {
        let streamed = !self.text.is_empty() || !self.thinking.is_empty();
        (!self.said && streamed).then(|| Partial { thinking: self.thinking.clone(), text: self.text.clone() })
    }

    pub(super) fn fill_in(&mut self, partial: Partial) {
        if !self.said && self.text.is_empty() {
            self.text = partial.text;
            self.thinking = partial.thinking;
        }
    }
}
