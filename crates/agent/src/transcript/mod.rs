//! The conversation that a model is given, built from a session's events.
//!
//! Total: a history with unfinished tool calls, unknown events or missing parts gives a conversation that providers
//! accept (P7). Each tool call of an assistant message is followed by one result, in the order of the calls, whatever
//! the order of the results was.

mod item;
mod render;

use std::sync::Arc;

use baton_model::Message;
use baton_protocol::event::{Body, Event, Outcome, SkillTrigger};
use baton_protocol::{PromptId, ToolCallId};

use item::{Call, Item};

use crate::tools::skill;

/// The conversation of a session or a sub-agent up to an event.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    items: Vec<Item>,
    last_is_hook: bool,
    /// Number of items that the running compaction covers.
    compacting: usize,
}

impl Transcript {
    /// Builds the conversation after `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut transcript = Self::default();
        events.into_iter().for_each(|event| transcript.apply(event));
        transcript
    }

    /// Applies an event of the session. Events of sub-agents are skipped: they belong to other conversations.
    pub fn apply(&mut self, event: &Event) {
        if event.agent_id.is_none() {
            self.add(&event.body);
        }
    }

    /// Applies an event of this conversation, of the session or of a sub-agent.
    pub fn add(&mut self, body: &Body) {
        match body {
            Body::UserMessage(message) => {
                self.last_is_hook = message.source.as_deref() == Some("hook");
                self.items.push(Item::user(message));
            }
            Body::ContextAdded(added) => self.items.push(Item::plain(&added.content)),
            // A skill of an agent is part of the system prompt.
            Body::SkillInvoked(skill) if skill.trigger != Some(SkillTrigger::ContextLoad) => {
                self.items.push(Item::plain(&skill::context(skill)));
            }
            Body::ShellRun(run) => self.items.push(Item::shell_run(run)),
            Body::SystemNotification(notice) => self.items.push(Item::plain(&notice.content)),
            Body::AssistantMessage(message) => self.items.push(Item::assistant(message)),
            Body::CallAmended(amended) => {
                if let Some(call) = self.call_mut(&amended.tool_call_id) {
                    call.arguments = amended.arguments.as_str().to_owned();
                }
            }
            Body::ToolComplete(complete) => {
                if let Some(call) = self.call_mut(&complete.tool_call_id)
                    && call.result.is_none()
                {
                    call.result = Some(complete.into());
                }
            }
            Body::CompactionStart(_) => self.compacting = self.items.len(),
            Body::CompactionComplete(complete) => {
                if let Some(summary) = complete.summary_content.as_ref().filter(|_| complete.success) {
                    self.compact(summary);
                }
            }
            Body::TurnSettled(settled) if settled.outcome == Outcome::Cancelled => {
                self.remove_unsent(&settled.prompt_ids);
            }
            _ => {}
        }
    }

    /// Replaces the items that the compaction covers by a summary.
    fn compact(&mut self, summary: &str) {
        let until = std::mem::take(&mut self.compacting).min(self.items.len());
        let mut prompts = Vec::new();
        for item in self.items.drain(..until) {
            match item {
                Item::User { prompt, .. } => prompts.extend(prompt),
                Item::Summary { prompts: earlier, .. } => prompts.extend(earlier),
                Item::Assistant { .. } => {}
            }
        }
        self.items.insert(0, Item::Summary { prompts, summary: summary.to_owned() });
    }

    /// Returns the conversation with a summary in place of all of it.
    #[must_use]
    pub fn summarised(&self, summary: &str) -> Self {
        let mut summarised = Self { compacting: self.items.len(), ..self.clone() };
        summarised.compact(summary);
        summarised
    }

    /// Removes prompts that were cancelled before they were sent to the model: history, but not conversation.
    fn remove_unsent(&mut self, prompts: &[PromptId]) {
        while let Some(Item::User { unsent: Some(id), .. }) = self.items.last()
            && prompts.contains(id)
        {
            self.items.pop();
        }
    }

    fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        // Models reuse ids in later turns: the newest call counts.
        self.items.iter_mut().rev().find_map(|item| match item {
            Item::Assistant { calls, .. } => calls.iter_mut().find(|call| call.id == *id),
            Item::User { .. } | Item::Summary { .. } => None,
        })
    }

    /// Returns the messages, with images if the model has `vision`. Old messages are left out until the estimate fits
    /// `budget` tokens; the newest user message is always included.
    #[must_use]
    pub fn messages(&self, vision: bool, budget: u64) -> Vec<Arc<Message>> {
        render::messages(&self.items, vision, budget)
    }

    /// Whether the last user message came from a hook, to keep the model going.
    #[must_use]
    pub fn ends_with_hook(&self) -> bool {
        self.last_is_hook
    }

    /// Whether the conversation has no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests;
