//! Updates of an agent during a prompt: chunks of messages and thoughts, calls, plans.

use baton_protocol::event::AssistantUsage;
use serde_json::Value;

use super::calls::Calls;
use super::schema::{PlanEntry, Update};
use crate::Report;
use crate::adapter::{RunEnding, Steps};
use crate::json::{number, text};

/// Longer messages are cut: an agent may stream without end. What is left out was shown while it was streamed.
const LONGEST_MESSAGE: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Updates {
    pub(super) calls: Calls,
    pub(super) model: Option<String>,
    /// The message that is being streamed, its id, and the thoughts before it.
    text: String,
    message: Option<String>,
    thoughts: String,
}

impl Updates {
    /// Resets the state for a new prompt.
    pub(super) fn reset(&mut self) {
        *self = Self { model: self.model.take(), ..Self::default() };
    }

    pub(super) fn receive(&mut self, update: Update, steps: &mut Steps) {
        match update {
            Update::Message { text, message } => self.append(text, message, steps),
            Update::Thought(delta) => {
                if self.thoughts.len() < LONGEST_MESSAGE {
                    self.thoughts.push_str(&delta);
                }
                steps.report(Report::ReasoningDelta(delta));
            }
            Update::ToolCall(call) => {
                self.flush(steps);
                self.calls.announced(call, steps);
            }
            Update::ToolCallUpdate(update) => self.calls.updated(update, steps),
            Update::Plan(entries) => steps.note(todo(&entries)),
        }
    }

    fn append(&mut self, delta: String, message: Option<String>, steps: &mut Steps) {
        if self.message != message {
            self.flush(steps);
            self.message = message;
        }
        if self.text.len() < LONGEST_MESSAGE {
            self.text.push_str(&delta);
            if self.text.len() >= LONGEST_MESSAGE {
                steps.warn("The agent's message is very long. Only its beginning is recorded.");
            }
        }
        steps.report(Report::TextDelta(delta));
    }

    /// Reports the streamed text as a message.
    pub(super) fn flush(&mut self, steps: &mut Steps) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            let thoughts = std::mem::take(&mut self.thoughts);
            let reasoning = (!thoughts.is_empty()).then_some(thoughts);
            steps.report(Report::Message { text, reasoning });
        }
    }

    /// Ends the prompt.
    pub(super) fn end(&mut self, result: &Value, steps: &mut Steps) -> RunEnding {
        self.flush(steps);
        self.calls.end(steps);
        self.report_usage(result, steps);
        super::ending(text(result, "/stopReason"), steps)
    }

    /// Reports token counts. The protocol does not define them yet; agents put them into these fields.
    fn report_usage(&self, result: &Value, steps: &mut Steps) {
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

/// Renders a plan.
fn todo(entries: &[PlanEntry]) -> String {
    let lines = entries.iter().map(|entry| {
        let done = if entry.is_completed { 'x' } else { ' ' };
        format!("[{done}] {}", entry.content)
    });
    format!("Plan:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Step;

    #[test]
    fn endless_message_is_cut() {
        let (mut updates, mut steps) = (Updates::default(), Steps::default());
        let delta = "x".repeat(1024 * 1024);
        for _ in 0..10 {
            updates.receive(Update::Thought(delta.clone()), &mut steps);
            updates.receive(Update::Message { text: delta.clone(), message: None }, &mut steps);
        }
        updates.flush(&mut steps);
        let reports: Vec<Report> = std::iter::from_fn(|| steps.pop())
            .filter_map(|step| if let Step::Report(report) = step { Some(report) } else { None })
            .collect();
        let streamed = reports.iter().filter(|report| matches!(report, Report::TextDelta(_))).count();
        let warned =
            reports.iter().filter(|report| matches!(report, Report::Note { warning: true, .. })).count();
        assert_eq!((streamed, warned), (10, 1));
        let Some(Report::Message { text, reasoning }) = reports.last() else { panic!("no message") };
        assert_eq!((text.len(), reasoning.as_ref().unwrap().len()), (LONGEST_MESSAGE, LONGEST_MESSAGE));
    }
}
