//! Requests to clients, and their answers. The first valid answer counts; later ones are too late (P3).

use baton_protocol::event::{
    Body, ExitPlanModeCompleted, ExternalToolCompleted, PermissionCompleted, Question, RequestClosed,
    UserInputCompleted,
};
use baton_protocol::permission::PermissionOutcome;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, RequestId};

use super::Step;
use super::commands::request_of;
use crate::ask::{AnswerOutcome, AnswerRequest, Asking, ReplyTo, RequestAnswer, Serve};
use crate::output::Work;
use crate::policy::Advice;
use crate::state::{Call, CallKey, CallStage};

impl Serve<AnswerRequest> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<AnswerRequest>, ask: AnswerRequest) {
        self.continue_work();
        self.answer(to, &ask.request, *ask.answer, ask.by);
    }
}

impl Step<'_> {
    /// Handles an answer to a request.
    fn answer(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        answer: RequestAnswer,
        by: Option<Author>,
    ) {
        if let Some(pending) = self.session.live.asks.get(request).cloned() {
            return self.answer_ask(to, request, pending, answer);
        }
        if self.session.durable.logins.iter().any(|login| login.request_id == *request) {
            return self.answer_login(to, request, &answer, by);
        }
        if let Some(wall) = self.session.durable.wall_of(request).cloned() {
            return self.answer_wall(to, &wall, answer);
        }
        if self.session.live.client_command.is_some_and(|command| request_of(command) == *request) {
            return self.answer_command(to, &answer);
        }
        if self.fallback_request().is_some_and(|pending| pending.request_id == *request) {
            return self.answer_fallback_request(to, &answer, by);
        }
        let Some(call) = self.call_waiting_for(request).cloned() else {
            let known = self.session.live.closed_requests.contains(request);
            return self.reply(to, if known { AnswerOutcome::TooLate } else { AnswerOutcome::NoSuchRequest });
        };
        if self.session.live.claimed.contains_key(request) {
            return self.reply(to, AnswerOutcome::TooLate);
        }
        match (call.stage.clone(), answer) {
            (CallStage::AwaitingPermission { wants, .. }, RequestAnswer::Permission(verdict, by)) => {
                self.answer_permission(to, request, &call, &wants, verdict, by);
            }
            (
                CallStage::AwaitingPermission { wants, requires_user, .. },
                RequestAnswer::ApproveUnattended(by),
            ) => {
                let advice = if requires_user { Advice::Ask } else { Advice::None };
                self.approve_unattended(to, request, &call, &wants, advice, by);
            }
            (CallStage::AwaitingClient { .. }, RequestAnswer::Tool(result)) => {
                // The answer counts once it is durable, which is after hooks and limits.
                self.session.live.claimed.insert(request.clone(), to);
                let request = Some(request.clone());
                self.start(Work::FinishCall { call: call.key(), request, result });
            }
            (CallStage::AwaitingAnswer { question, .. }, answer) => {
                self.answer_question(to, request, &call.key(), &question, answer, by);
            }
            _ => self.reply(to, AnswerOutcome::Mismatch),
        }
    }

    /// Replies that an answer counts, before any work that follows from it starts: the reply is sent before the first
    /// event of that work.
    pub(super) fn reply_after_records(&mut self, to: ReplyTo<AnswerRequest>) {
        use crate::output::Output;
        let at = self.out.iter().position(|o| matches!(o, Output::Start(..))).unwrap_or(self.out.len());
        let counted = AnswerRequest::reply(AnswerOutcome::Counted);
        self.out.insert(at, Output::Reply(to.id(), Ok(counted)));
    }

    /// Returns the call that waits for a request.
    pub(super) fn call_waiting_for(&self, request: &RequestId) -> Option<&Call> {
        self.turn()?.calls.iter().find(|call| call.stage.request() == Some(request))
    }

    /// Handles the result of a client or sub-agent that has passed hooks and limits.
    pub(super) fn call_finished(&mut self, call: &CallKey, request: Option<&RequestId>, result: ToolResult) {
        let agent = call.agent.as_ref();
        if let Some(request) = request {
            self.record_for(agent, ExternalToolCompleted { request_id: request.clone() });
        }
        self.complete_call(call, result);
        if let Some(request) = request {
            if let Some(to) = self.session.live.claimed.remove(request) {
                self.reply(to, AnswerOutcome::Counted);
            }
            self.remember_closed(request);
        }
        self.end_round_if_over(agent);
    }

    /// Closes the request of a call that no longer waits for it, so that clients stop showing it.
    pub(super) fn close_request(&mut self, call: &Call, reason: &str) {
        let stage = &call.stage;
        let body: Body = match stage {
            CallStage::AwaitingPermission { request, .. } => PermissionCompleted {
                request_id: request.clone(),
                tool_call_id: Some(call.id.clone()),
                result: PermissionOutcome::Cancelled { reason: Some(reason.to_owned()) },
                by: None,
            }
            .into(),
            CallStage::AwaitingClient { request } => {
                ExternalToolCompleted { request_id: request.clone() }.into()
            }
            CallStage::AwaitingAnswer { request, .. } => {
                RequestClosed { request_id: request.clone(), answer: None, by: None }.into()
            }
            CallStage::Started | CallStage::Done { .. } => return,
        };
        self.record_for(call.agent.as_ref(), body);
        if let CallStage::AwaitingAnswer { request, question } = stage {
            let request_id = request.clone();
            match question {
                Question::UserInput(_) => {
                    self.show(UserInputCompleted { request_id, answer: None, was_freeform: None })
                }
                Question::Plan(_) => self.show(ExitPlanModeCompleted { request_id, answer: None }),
            };
        }
        if let Some(request) = stage.request() {
            if let Some(to) = self.session.live.claimed.remove(request) {
                self.reply(to, AnswerOutcome::TooLate);
            }
            self.remember_closed(request);
        }
    }

    /// Remembers a closed request for a while.
    pub(super) fn remember_closed(&mut self, request: &RequestId) {
        const REMEMBERED: usize = 256;
        let closed = &mut self.session.live.closed_requests;
        closed.insert(request.clone());
        // Request ids sort by time, so the first is the oldest.
        while closed.len() > REMEMBERED {
            closed.pop_first();
        }
    }
}
