//! Another model in the middle of a turn: one may not be asked for a while, and somebody agrees to go on with another.
//!
//! The offer is a request like any other: durable under its id, put to a client that says it can answer, and answered by
//! whoever comes first. The round is not over meanwhile; it ends with the answer of the other model, or with the error.

use baton_protocol::event::{
    AssistantMessage, AutoModeSwitchCompleted, AutoModeSwitchRequested, ModelChange, SessionError,
    SwitchAnswer, SwitchOffered,
};
use baton_protocol::{ClientId, Json, RequestId};

use super::Step;
use crate::fold::AUTO_SWITCH;
use crate::input::Answer;
use crate::output::{Reply, ReplyTo, Work};
use crate::results::{Instead, Unanswered};

impl Step<'_> {
    /// The model was asked in vain: another is, or is offered, or the turn fails.
    pub(super) fn unanswered(&mut self, failed: Unanswered) {
        let Unanswered { error, partial, instead } = failed;
        let tried = self.turn().is_some_and(|turn| turn.switched);
        match instead.filter(|_| !tried) {
            Some(instead) if self.session.durable.facts.switches_always => self.go_on_with(instead.model),
            Some(instead) if self.session.live.can_agree_to_switch() => self.offer_switch(instead, error),
            _ => {
                self.keep_partial(partial);
                self.ask_failed(error);
            }
        }
    }

    /// What is waited for, if it is this.
    pub(super) fn offer(&self) -> Option<&SwitchOffered> {
        self.turn()?.offer.as_ref()
    }

    fn offer_switch(&mut self, instead: Instead, error: SessionError) {
        let request_id = RequestId(self.stamp.text_id());
        let (error_code, retry_after_seconds) = (error.error_code.clone(), instead.retry_after_seconds);
        self.record(SwitchOffered {
            request_id: request_id.clone(),
            model: instead.model,
            retry_after_seconds,
            error,
        });
        self.show(AutoModeSwitchRequested { request_id, error_code, retry_after_seconds });
        self.deliver_questions();
    }

    pub(super) fn answer_offer(&mut self, reply: ReplyTo, answer: &Answer) {
        let answer = match answer {
            Answer::Switch(answer) => *answer,
            Answer::NoUser => SwitchAnswer::No,
            _ => return self.reply(reply, Reply::Mismatch),
        };
        let Some(offer) = self.close_offer(answer) else { return };
        match answer {
            SwitchAnswer::Yes | SwitchAnswer::YesAlways => self.go_on_with(offer.model),
            SwitchAnswer::No => self.ask_failed(offer.error),
        }
        self.reply_after_records(reply);
    }

    /// Records what became of the offer, if there is one, and lets go of it.
    pub(super) fn close_offer(&mut self, answer: SwitchAnswer) -> Option<SwitchOffered> {
        let offer = self.offer()?.clone();
        let request_id = offer.request_id.clone();
        let said = serde_json::to_value(answer).ok().map(Json::from);
        self.question_closed(&request_id, said);
        self.show(AutoModeSwitchCompleted { request_id, response: answer });
        Some(offer)
    }

    /// A client sees to offers by itself: nobody is asked directly for as long as it is there and does not say otherwise.
    pub(super) fn listen(&mut self, reply: ReplyTo, client: ClientId) {
        let listener = self.stamp.text_id();
        self.session.live.listeners.insert(listener.clone(), client);
        self.reply(reply, Reply::Listening(listener));
    }

    pub(super) fn stop_listening(&mut self, reply: ReplyTo, listener: &str) {
        let listened = self.session.live.listeners.remove(listener).is_some();
        self.reply(reply, Reply::StoppedListening(listened));
        self.deliver_questions();
    }

    fn go_on_with(&mut self, new_model: String) {
        let facts = &self.session.durable.facts;
        self.record(ModelChange {
            previous_model: facts.model.clone(),
            new_model,
            previous_reasoning_effort: facts.reasoning_effort.clone(),
            reasoning_effort: facts.reasoning_effort.clone(),
            reasoning_summary: None,
            source: None,
            cause: Some(AUTO_SWITCH.into()),
        });
        self.start(Work::Ask { agent: None });
    }

    /// What a model had said before it failed stays in the history: people have read it.
    fn keep_partial(&mut self, partial: Option<(String, String)>) {
        let (Some(turn), Some((message_id, content))) = (self.turn(), partial) else { return };
        let (interaction_id, turn_id) = (Some(turn.interaction.clone()), Some(turn.round_name(None)));
        self.record(AssistantMessage {
            message_id,
            content,
            interaction_id,
            turn_id,
            ..AssistantMessage::default()
        });
    }
}
