//! Fallback models: when a model has reached its rate limit, a turn can continue with another one if a client agrees.
//!
//! Whether a fallback model continues is a request like any other: durable under its id, delivered to a capable client, closed
//! by the first answer. The round stays open meanwhile; it ends with the response of the fallback model, or with the error.

use baton_protocol::event::{
    AssistantMessage, AutoModeSwitchCompleted, AutoModeSwitchRequested, ModelChange, SessionError,
    SwitchAnswer, SwitchOffered,
};
use baton_protocol::{Author, Json, RequestId};

use super::Step;
use crate::ask::{
    AnswerOutcome, AnswerRequest, ListenForSwitch, ReplyTo, RequestAnswer, Serve, StopListening,
};
use crate::fold::AUTO_SWITCH;
use crate::output::Work;
use crate::results::{FailedModelCall, FallbackModel};

impl Serve<ListenForSwitch> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<ListenForSwitch>, ask: ListenForSwitch) {
        let listener = self.stamp.text_id();
        self.session.live.listeners.insert(listener.clone(), ask.client);
        self.reply(to, listener);
    }
}

impl Serve<StopListening> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<StopListening>, ask: StopListening) {
        let existed = self.session.live.listeners.remove(&ask.listener).is_some();
        self.reply(to, existed);
        self.deliver_questions();
    }
}

impl Step<'_> {
    /// Handles the failure of a model call: continues with the fallback model, asks clients about it, or fails the turn.
    pub(super) fn model_failed(&mut self, failed: FailedModelCall) {
        let FailedModelCall { error, partial, fallback } = failed;
        let tried = self.turn().is_some_and(|turn| turn.switched);
        match fallback.filter(|_| !tried) {
            Some(fallback) if self.session.durable.facts.switches_always => {
                self.continue_with(fallback.model, None);
            }
            Some(fallback) if self.session.live.can_agree_to_switch() => {
                self.request_fallback(fallback, error);
            }
            _ => {
                self.record_partial(partial);
                self.fail_turn(error);
            }
        }
    }

    /// Returns the pending request whether a fallback model continues the turn.
    pub(super) fn fallback_request(&self) -> Option<&SwitchOffered> {
        self.turn()?.fallback_request.as_ref()
    }

    /// Asks clients whether the fallback model continues the turn.
    fn request_fallback(&mut self, fallback: FallbackModel, error: SessionError) {
        let request_id = RequestId(self.stamp.text_id());
        let (error_code, retry_after_seconds) = (error.error_code.clone(), fallback.retry_after_seconds);
        self.record(SwitchOffered {
            request_id: request_id.clone(),
            model: fallback.model,
            retry_after_seconds,
            error,
        });
        self.show(AutoModeSwitchRequested { request_id, error_code, retry_after_seconds });
        self.deliver_questions();
    }

    /// Handles an answer to the request.
    pub(super) fn answer_fallback_request(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        answer: &RequestAnswer,
        by: Option<Author>,
    ) {
        let answer = match answer {
            RequestAnswer::Switch(answer) => *answer,
            RequestAnswer::NoUser => SwitchAnswer::No,
            _ => return self.reply(to, AnswerOutcome::Mismatch),
        };
        let Some(request) = self.close_fallback_request(answer, by.clone()) else { return };
        match answer {
            SwitchAnswer::Yes | SwitchAnswer::YesAlways => self.continue_with(request.model, by),
            SwitchAnswer::No => self.fail_turn(request.error),
        }
        self.reply_after_records(to);
    }

    /// Closes the pending request, if there is one.
    pub(super) fn close_fallback_request(
        &mut self,
        answer: SwitchAnswer,
        by: Option<Author>,
    ) -> Option<SwitchOffered> {
        let request = self.fallback_request()?.clone();
        let request_id = request.request_id.clone();
        let response = serde_json::to_value(answer).ok().map(Json::from);
        self.close_question(&request_id, response, by);
        self.show(AutoModeSwitchCompleted { request_id, response: answer });
        Some(request)
    }

    /// Changes the model, and repeats the model call.
    fn continue_with(&mut self, new_model: String, by: Option<Author>) {
        let facts = &self.session.durable.facts;
        self.record(ModelChange {
            previous_model: facts.model.clone(),
            new_model,
            previous_reasoning_effort: facts.reasoning_effort.clone(),
            reasoning_effort: facts.reasoning_effort.clone(),
            reasoning_summary: None,
            source: None,
            cause: Some(AUTO_SWITCH.into()),
            by,
        });
        self.start(Work::CallModel { agent: None });
    }

    /// Records the message that was streamed before the failure: people have read it.
    fn record_partial(&mut self, partial: Option<(String, String)>) {
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
