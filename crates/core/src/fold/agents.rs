//! Folds events of sub-agents. In the main conversation, they change only the list of sub-agents and the usage.

use std::sync::Arc;

use baton_protocol::event::{Body, SubagentStarted};
use baton_protocol::{AgentId, Event, Timestamp};

use crate::state::{AgentEnding, AgentOutcome, Call, Durable, Stage, SubAgent, Turn};

impl Durable {
    pub(super) fn apply_to_agent(&mut self, id: &AgentId, event: &Event) {
        if let Body::AssistantMessage(message) = &event.body
            && let (Some(model), Some(tokens)) = (&message.model, message.tokens)
        {
            self.totals.count(model, tokens);
        }
        let Some(turn) = &mut self.turn else { return };
        match &event.body {
            Body::SubagentStarted(started) => turn.begin_agent(id, started, event.timestamp),
            body => turn.advance_agent(id, body, event.timestamp),
        }
    }
}

impl Turn {
    fn begin_agent(&mut self, id: &AgentId, started: &SubagentStarted, at: Timestamp) {
        if self.agent(id).is_some() {
            return;
        }
        let started = started.clone();
        self.agents.push(Arc::new(SubAgent {
            id: id.clone(),
            call: started.tool_call_id,
            kind: started.agent_name,
            name: started.agent_display_name,
            description: started.agent_description,
            prompt: String::new(),
            model: started.model,
            mode: started.execution_mode,
            rounds: 0,
            stage: Stage::Ready,
            calls_made: 0,
            answer: String::new(),
            started: at,
            ending: None,
        }));
    }

    /// Applies an event to a working sub-agent. One that has ended stays so, whatever a damaged history holds.
    fn advance_agent(&mut self, id: &AgentId, body: &Body, at: Timestamp) {
        let Some(agent) = self.agents.iter_mut().find(|agent| agent.id == *id && agent.ending.is_none())
        else {
            return;
        };
        let agent = Arc::make_mut(agent);
        match body {
            Body::UserMessage(message) if agent.rounds == 0 => agent.prompt.clone_from(&message.content),
            Body::TurnStart(_) => {
                agent.stage = Stage::CallingModel;
                agent.rounds += 1;
                self.forget_calls(Some(id));
            }
            Body::TurnEnd(_) => {
                agent.stage = Stage::Ready;
                self.forget_calls(Some(id));
            }
            Body::AssistantMessage(message) => {
                agent.stage = Stage::Acting;
                agent.calls_made = agent.calls_made.saturating_add(message.tool_requests.len() as u64);
                if !message.content.is_empty() {
                    agent.answer.clone_from(&message.content);
                }
                self.forget_calls(Some(id));
                self.calls.extend(message.tool_requests.iter().map(|request| Call::made(Some(id), request)));
            }
            Body::SubagentCompleted(completed) => {
                let cancelled = completed.cancelled == Some(true);
                let outcome = if cancelled { AgentOutcome::Cancelled } else { AgentOutcome::Completed };
                agent.ending = Some(AgentEnding { at, outcome });
            }
            Body::SubagentFailed(failed) => {
                agent.ending = Some(AgentEnding { at, outcome: AgentOutcome::Failed(failed.error.clone()) });
            }
            body => self.apply_to_call(Some(id), body),
        }
    }
}
