//! What happens while an agent works: chunks of messages and thoughts, calls, plans.

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, MessageId, Plan, PlanEntryStatus, SessionUpdate,
};
use baton_protocol::event::AssistantUsage;
use serde_json::Value;

use super::calls::Calls;
use crate::Report;
use crate::dialect::{Ending, Steps};
use crate::json::{number, text};

#[derive(Debug, Default)]
pub(super) struct Updates {
    pub(super) calls: Calls,
    pub(super) model: Option<String>,
    /// The message that grows, and its name.
    said: String,
    message: Option<MessageId>,
    thought: String,
}

impl Updates {
    /// A prompt begins.
    pub(super) fn begin(&mut self) {
        *self = Self { model: self.model.take(), ..Self::default() };
    }

    pub(super) fn hear(&mut self, update: SessionUpdate, steps: &mut Steps) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.more(chunk, steps),
            SessionUpdate::AgentThoughtChunk(chunk) => {
                let more = words(chunk.content);
                self.thought.push_str(&more);
                steps.report(Report::ReasoningDelta(more));
            }
            SessionUpdate::ToolCall(call) => {
                self.flush(steps);
                self.calls.begun(call, steps);
            }
            SessionUpdate::ToolCallUpdate(update) => self.calls.updated(&update, steps),
            SessionUpdate::Plan(plan) => steps.note(todo(&plan)),
            _ => {}
        }
    }

    fn more(&mut self, chunk: ContentChunk, steps: &mut Steps) {
        if self.message != chunk.message_id {
            self.flush(steps);
            self.message = chunk.message_id;
        }
        let more = words(chunk.content);
        self.said.push_str(&more);
        steps.report(Report::TextDelta(more));
    }

    /// What was said so far is a message.
    pub(super) fn flush(&mut self, steps: &mut Steps) {
        let text = std::mem::take(&mut self.said);
        if !text.is_empty() {
            let thought = std::mem::take(&mut self.thought);
            let reasoning = (!thought.is_empty()).then_some(thought);
            steps.report(Report::Message { text, reasoning });
        }
    }

    /// The prompt is done.
    pub(super) fn end(&mut self, result: &Value, steps: &mut Steps) -> Ending {
        self.flush(steps);
        self.calls.end(steps);
        self.count(result, steps);
        super::ending(text(result, "/stopReason"), steps)
    }

    /// Tokens are not in the protocol yet; these are the places where agents put them.
    fn count(&self, result: &Value, steps: &mut Steps) {
        let count = |path: &str| number(result, path);
        let cached = |path: &str| count(path).unwrap_or(0);
        let (read, written) = (cached("/usage/cachedReadTokens"), cached("/usage/cachedWriteTokens"));
        let plain = count("/usage/inputTokens").map(|input| input + read + written);
        let input = plain.or_else(|| count("/_meta/quota/token_count/input_tokens"));
        let output = count("/usage/outputTokens").or_else(|| count("/_meta/quota/token_count/output_tokens"));
        if input.unwrap_or(0) + output.unwrap_or(0) > 0 {
            steps.report(Report::Usage(Box::new(AssistantUsage {
                model: self.model.clone().unwrap_or_default(),
                input_tokens: input,
                output_tokens: output,
                cache_read_tokens: count("/usage/cachedReadTokens"),
                cache_write_tokens: count("/usage/cachedWriteTokens"),
                reasoning_tokens: count("/usage/thoughtTokens"),
                ..AssistantUsage::default()
            })));
        }
    }
}

/// The text of a piece of content.
pub(super) fn words(content: ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text,
        ContentBlock::ResourceLink(link) => link.uri,
        _ => String::new(),
    }
}

/// A plan, for people.
fn todo(plan: &Plan) -> String {
    let lines = plan.entries.iter().map(|entry| {
        let done = if entry.status == PlanEntryStatus::Completed { 'x' } else { ' ' };
        format!("[{done}] {}", entry.content)
    });
    format!("Plan:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
