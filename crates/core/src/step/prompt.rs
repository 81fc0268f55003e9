//! Takes prompts from acceptance through the queue and their preparation into the conversation.

use baton_protocol::PromptId;
use baton_protocol::event::{
    ContextAdded, Delivery, Hold, PendingMessagesModified, Prompt, PromptAccepted, SendMode, SystemMessage,
    TitleChanged, UserMessage,
};

use super::Step;
use crate::ask::{Asking, ReplyTo, SendPrompt, Serve};
use crate::output::Work;
use crate::results::PreparedPrompt;
use crate::state::{Accepted, Durable};

impl Serve<SendPrompt> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<SendPrompt>, ask: SendPrompt) {
        self.continue_work();
        self.accept(to, *ask.prompt);
    }
}

impl Step<'_> {
    /// Accepts a prompt or command. Once the reply is sent, the prompt no longer depends on the sender's connection. A key
    /// that was accepted before stands for that prompt.
    pub(super) fn accept<A: Asking<Reply = PromptId>>(&mut self, to: ReplyTo<A>, prompt: Prompt) {
        let known =
            |key: &String| self.session.durable.keys.iter().find(|(k, _)| k == key).map(|(_, id)| *id);
        if let Some(id) = prompt.key.as_ref().and_then(known) {
            return self.reply(to, id);
        }
        let prompt_id = PromptId(self.stamp.uuid());
        self.record(PromptAccepted { prompt_id, prompt });
        self.show(PendingMessagesModified {});
        self.reply(to, prompt_id);
        self.continue_queue();
    }

    /// Starts the next item of the inbox, if possible, after a change to the inbox.
    pub(super) fn continue_queue(&mut self) {
        if self.is_driven() {
            // An engine decides itself when to read a further prompt.
            self.prepare_steering();
        } else {
            self.open_next_turn();
        }
    }

    /// Starts the next item, unless the session works on anything but background sub-agents. A command waits for
    /// those as well: it is run between turns.
    pub(super) fn open_next_turn(&mut self) {
        let is_working = self.turn().is_some() && !self.is_waiting_for_agents();
        if is_working || self.is_preparing_prompt() || self.session.is_running_command() {
            return;
        }
        let Some(Accepted { id, prompt, .. }) = self.next_item().cloned() else { return };
        match prompt.mode {
            SendMode::Command(_) if self.turn().is_some() => {}
            SendMode::Command(runner) => self.start_command(id, runner),
            SendMode::Enqueue | SendMode::Immediate => self.prepare_prompt(id),
        }
    }

    /// Returns the next item to start. Prompts sent as `immediate` that found no turn to join go first, even if the
    /// queue is paused. Later prompts pass items that are held since a turn was cancelled.
    pub(super) fn next_item(&self) -> Option<&Accepted> {
        let Durable { inbox, hold, .. } = &self.session.durable;
        let steering = inbox.iter().find(|p| p.prompt.mode == SendMode::Immediate);
        steering.or_else(|| inbox.iter().find(|item| !item.held).filter(|_| *hold == Hold::Open))
    }

    /// Prepares the next prompt that steers, to join the running turn before the next model call. Returns whether there is
    /// one.
    pub(super) fn prepare_steering(&mut self) -> bool {
        let inbox = &self.session.durable.inbox;
        let next = inbox.iter().find(|p| p.prompt.mode == SendMode::Immediate).map(|p| p.id);
        next.filter(|_| !self.is_preparing_prompt()).map(|id| self.prepare_prompt(id)).is_some()
    }

    /// Starts the preparation of a prompt.
    fn prepare_prompt(&mut self, prompt: PromptId) {
        let tools_gone = std::mem::take(&mut self.session.live.tools_gone).into_iter().collect();
        self.start(Work::PreparePrompt { prompt, tools_gone });
    }

    fn is_preparing_prompt(&self) -> bool {
        self.session.live.work.values().any(|work| matches!(work, Work::PreparePrompt { .. }))
    }

    /// Enters a prepared prompt into the conversation, and calls the model.
    pub(super) fn prompt_prepared(&mut self, id: PromptId, mut prepared: PreparedPrompt) {
        let Some(accepted) = self.session.durable.inbox.iter().find(|p| p.id == id).cloned() else { return };
        let first = self.session.durable.facts.title.is_none();
        let delivery = match (self.turn(), self.session.durable.inbox.len()) {
            (Some(_), _) => Delivery::Steering,
            (None, 1) => Delivery::Idle,
            (None, _) => Delivery::Queued,
        };
        self.show(PendingMessagesModified {});
        let (engine, for_engine) =
            (prepared.engine.clone(), prepared.transformed.clone().unwrap_or_default());
        let (joins, trust) = (self.turn().is_some(), prepared.trust.take());
        self.enter_conversation(&accepted.prompt, id, delivery, prepared);
        if first && let Some(title) = self.session.durable.facts.title.clone() {
            self.show(TitleChanged { title });
        }
        match engine {
            _ if self.is_driven() => self.steer_engine(for_engine),
            Some(engine) if !joins => self.start_engine(engine, for_engine),
            _ if self.prepare_steering() => {}
            _ => match trust {
                Some(question) if !joins => self.ask_for_trust(*question),
                _ => self.start_round(None),
            },
        }
    }

    /// Records the messages of a prompt.
    fn enter_conversation(
        &mut self,
        prompt: &Prompt,
        id: PromptId,
        delivery: Delivery,
        prepared: PreparedPrompt,
    ) {
        if let Some(content) = prepared.system {
            self.record(SystemMessage { role: "system".into(), content });
        }
        for (source, content) in prepared.context {
            self.record(ContextAdded { source, content });
        }
        let interaction = self.turn().map(|turn| turn.interaction.clone());
        let round = self.turn().map_or(0, |turn| turn.rounds);
        let interaction_id = Some(interaction.unwrap_or_else(|| self.stamp.text_id()));
        self.record(UserMessage {
            content: prepared.content,
            transformed_content: prepared.transformed,
            attachments: prompt.attachments.clone(),
            agent_mode: prompt.agent_mode,
            delivery: Some(delivery),
            interaction_id,
            turn_id: Some(round.to_string()),
            source: None,
            message_id: Some(id),
        });
        for (source, content) in prepared.reminders {
            self.record(ContextAdded { source, content });
        }
    }

    /// Enters a prompt that will never reach the model into the history, so that its outcome refers to a message. A command
    /// is no part of the conversation.
    pub(super) fn enter_history(&mut self, id: PromptId) {
        let Some(accepted) = self.session.durable.inbox.iter().find(|p| p.id == id).cloned() else { return };
        if matches!(accepted.prompt.mode, SendMode::Command(_)) {
            return;
        }
        let content = accepted.prompt.display.clone().unwrap_or_else(|| accepted.prompt.text.clone());
        let prepared = PreparedPrompt { content, ..PreparedPrompt::default() };
        self.enter_conversation(&accepted.prompt, id, Delivery::Queued, prepared);
    }
}
