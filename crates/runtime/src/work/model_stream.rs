//! Streaming of a model's response to clients.

use std::time::Instant;

use baton_model::Delta;
use baton_protocol::event::{MessageDelta, MessageStart, ReasoningDelta, StreamingDelta, ToolCallDelta};
use baton_protocol::{Body, ToolCallId};

use super::WorkScope;

/// Shows a response to clients while it arrives.
pub(super) struct ResponseStream<'a> {
    pub(super) scope: &'a WorkScope,
    pub(super) message_id: String,
    reasoning_id: String,
    started: bool,
    pub(super) first_token: Option<Instant>,
    /// Deltas that arrived together, and are shown together.
    deltas: Vec<Body>,
}

impl<'a> ResponseStream<'a> {
    pub(super) fn new(scope: &'a WorkScope) -> Self {
        let id = || uuid::Uuid::new_v4().to_string();
        Self {
            scope,
            message_id: id(),
            reasoning_id: id(),
            started: false,
            first_token: None,
            deltas: Vec::new(),
        }
    }

    /// Adds a delta, and shows the gathered ones when the model reports progress.
    pub(super) fn push(&mut self, delta: Delta) {
        self.first_token.get_or_insert_with(Instant::now);
        if !self.scope.settings.streaming {
            return;
        }
        match delta {
            Delta::Text(delta_content) => {
                if !std::mem::replace(&mut self.started, true) {
                    self.gather(MessageStart { message_id: self.message_id.clone() });
                }
                self.gather(MessageDelta { message_id: self.message_id.clone(), delta_content });
            }
            Delta::Reasoning(delta_content) => {
                self.gather(ReasoningDelta { reasoning_id: self.reasoning_id.clone(), delta_content });
            }
            Delta::ToolCall { id, name, arguments } => self.gather(ToolCallDelta {
                tool_call_id: ToolCallId(id),
                tool_name: Some(name),
                tool_type: Some("function".into()),
                input_delta: arguments,
            }),
            Delta::Progress { bytes } => {
                self.gather(StreamingDelta { total_response_size_bytes: bytes });
                self.show();
            }
            // A retry: a new message id, so that clients do not join the parts of two attempts.
            Delta::Restart => {
                self.show();
                *self = Self::new(self.scope);
            }
        }
    }

    fn gather(&mut self, delta: impl Into<Body>) {
        self.deltas.push(delta.into());
    }

    /// Shows the gathered deltas.
    pub(super) fn show(&mut self) {
        if !self.deltas.is_empty() {
            self.scope.show_all(self.deltas.drain(..));
        }
    }
}
