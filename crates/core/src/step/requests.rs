//! Requests to the outside, and their answers: the first one counts, later ones are told so (P3).

use baton_protocol::event::{
    ApprovalsChanged, Body, ExternalToolCompleted, PermissionCompleted, Question, RequestClosed,
    UserInputCompleted, UserInputRequested,
};
use baton_protocol::permission::{Approval, PermissionOutcome, PermissionRequest, Verdict};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, RequestId, ToolCallId};

use super::Step;
use crate::input::Answer;
use crate::output::{Reply, ReplyTo, Work, denial};
use crate::results::Route;
use crate::state::{Call, CallKey, CallStage};

/// What the model is told when its question did not reach the user.
const NO_USER: &str = "The user could not be asked. Go on without an answer, or say what you need to know.";

impl Step<'_> {
    /// Somebody answers.
    pub(super) fn answer(&mut self, reply: ReplyTo, request: &RequestId, answer: Answer) {
        if self.session.live.asks.contains_key(request) {
            return self.answer_ask(reply, request, answer);
        }
        if self.offer().is_some_and(|offer| offer.request_id == *request) {
            return self.answer_offer(reply, &answer);
        }
        let Some(call) = self.call_waiting_for(request).cloned() else {
            let known = self.session.live.settled.contains(request);
            return self.reply(reply, if known { Reply::TooLate } else { Reply::NoSuchRequest });
        };
        if self.session.live.claimed.contains_key(request) {
            return self.reply(reply, Reply::TooLate);
        }
        match (call.stage.clone(), answer) {
            (CallStage::AwaitingPermission { wants, .. }, Answer::Permission(verdict)) => {
                self.decide(request, &call, &wants, verdict);
                self.reply_after_records(reply);
            }
            (CallStage::AwaitingClient { .. }, Answer::Tool(result)) => {
                // The caller hears that the answer counts when it is durable: after hooks and limits had their say.
                self.session.live.claimed.insert(request.clone(), reply);
                let request = Some(request.clone());
                self.start(Work::FinishCall { call: call.key(), request, result });
            }
            (CallStage::AwaitingAnswer { .. }, Answer::UserInput { answer, was_freeform }) => {
                self.user_answered(request, &call.key(), answer, was_freeform);
                self.reply_after_records(reply);
            }
            (CallStage::AwaitingAnswer { .. }, Answer::NoUser) => {
                self.tell_answer(request, NO_USER, true);
                self.question_is_over(request, &call.key(), None, ToolResult::failure(NO_USER));
                self.reply_after_records(reply);
            }
            _ => self.reply(reply, Reply::Mismatch),
        }
    }

    /// Answers the caller before any work that follows from the answer is started, so that the reply is on its way
    /// before the first event of what comes next.
    pub(super) fn reply_after_records(&mut self, reply: ReplyTo) {
        use crate::output::Output;
        let at = self.out.iter().position(|o| matches!(o, Output::Start(..))).unwrap_or(self.out.len());
        self.out.insert(at, Output::Reply(reply, Reply::Counted));
    }

    fn call_waiting_for(&self, request: &RequestId) -> Option<&Call> {
        self.turn()?.calls.iter().find(|call| call.stage.request() == Some(request))
    }

    fn decide(&mut self, request: &RequestId, call: &Call, wants: &PermissionRequest, verdict: Verdict) {
        let (outcome, grant) = outcome_of(&verdict, wants);
        let completed = PermissionCompleted {
            request_id: request.clone(),
            tool_call_id: Some(call.id.clone()),
            result: outcome,
        };
        self.record_for(call.agent.as_ref(), completed);
        self.settled(request);
        if let Some(approval) = grant {
            self.record(ApprovalsChanged { approval: Some(approval) });
        }
        if self.is_driven() {
            return self.tell_decision(request, &call.id, verdict);
        }
        match verdict {
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => {
                self.run_call(&call.key(), route_of(wants));
            }
            refusal => self.tool_finished(&call.key(), denial(&refusal)),
        }
    }

    /// A result that was made elsewhere has passed hooks and limits, and counts: of a client that was asked for it, or
    /// of a sub-agent.
    pub(super) fn result_counts(&mut self, call: &CallKey, request: Option<&RequestId>, result: ToolResult) {
        let agent = call.agent.as_ref();
        if let Some(request) = request {
            self.record_for(agent, ExternalToolCompleted { request_id: request.clone() });
        }
        self.complete_call(call, result);
        if let Some(request) = request {
            if let Some(reply) = self.session.live.claimed.remove(request) {
                self.reply(reply, Reply::Counted);
            }
            self.settled(request);
        }
        self.end_round_if_over(agent);
    }

    fn user_answered(&mut self, request: &RequestId, call: &CallKey, answer: String, was_freeform: bool) {
        self.tell_answer(request, &answer, was_freeform);
        let verb = if was_freeform { "responded" } else { "selected" };
        let result = ToolResult::success(format!("User {verb}: {answer}"));
        self.question_is_over(request, call, Some((answer, was_freeform)), result);
    }

    fn question_is_over(
        &mut self,
        request: &RequestId,
        call: &CallKey,
        said: Option<(String, bool)>,
        result: ToolResult,
    ) {
        let record = said.as_ref().map(
            |(answer, was_freeform)| serde_json::json!({ "answer": answer, "wasFreeform": was_freeform }),
        );
        self.record(RequestClosed { request_id: request.clone(), answer: record.map(Json::from) });
        self.stop_where(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request));
        self.settled(request);
        let (answer, was_freeform) = said.unzip();
        self.show(UserInputCompleted { request_id: request.clone(), answer, was_freeform });
        self.tool_finished(call, result);
    }

    /// Tells clients of a question.
    pub(super) fn show_question(&mut self, request: &RequestId, call: &ToolCallId, question: &Question) {
        let Question::UserInput { question, choices, allow_freeform } = question.clone();
        self.show(UserInputRequested {
            request_id: request.clone(),
            question,
            choices,
            allow_freeform,
            tool_call_id: Some(call.clone()),
        });
    }

    /// Puts every question that nobody is showing to the newest client that can show questions.
    pub(super) fn deliver_questions(&mut self) {
        self.deliver_offer();
        let live = &self.session.live;
        let Some(client) = live.clients.iter().rev().find(|(_, p)| p.user_input).map(|(id, _)| *id) else {
            return;
        };
        let delivered = |request: &RequestId| {
            live.work
                .values()
                .any(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request))
        };
        let open: Vec<RequestId> = self
            .turn()
            .into_iter()
            .flat_map(|turn| &turn.calls)
            .filter_map(|call| match &call.stage {
                CallStage::AwaitingAnswer { request, .. } if !delivered(request) => Some(request.clone()),
                _ => None,
            })
            .collect();
        for request in open {
            self.start(Work::DeliverQuestion { client, request });
        }
    }

    /// Closes the request of a call that is not waited for any more, so that nobody goes on showing it.
    pub(super) fn close_request(&mut self, call: &Call, reason: &str) {
        let stage = &call.stage;
        let body: Body = match stage {
            CallStage::AwaitingPermission { request, .. } => PermissionCompleted {
                request_id: request.clone(),
                tool_call_id: Some(call.id.clone()),
                result: PermissionOutcome::Cancelled { reason: Some(reason.to_owned()) },
            }
            .into(),
            CallStage::AwaitingClient { request } => {
                ExternalToolCompleted { request_id: request.clone() }.into()
            }
            CallStage::AwaitingAnswer { request, .. } => {
                RequestClosed { request_id: request.clone(), answer: None }.into()
            }
            CallStage::Started | CallStage::Done { .. } => return,
        };
        self.record_for(call.agent.as_ref(), body);
        if let CallStage::AwaitingAnswer { request, .. } = stage {
            self.show(UserInputCompleted { request_id: request.clone(), answer: None, was_freeform: None });
        }
        if let Some(request) = stage.request() {
            if let Some(reply) = self.session.live.claimed.remove(request) {
                self.reply(reply, Reply::TooLate);
            }
            self.settled(request);
        }
    }

    /// Remembers that a request existed, for a while.
    pub(super) fn settled(&mut self, request: &RequestId) {
        const REMEMBERED: usize = 256;
        let settled = &mut self.session.live.settled;
        settled.insert(request.clone());
        // Request ids sort by time, so the first is the oldest.
        while settled.len() > REMEMBERED {
            settled.pop_first();
        }
    }
}

/// What everybody is told of a decision, and the grant that lasts.
fn outcome_of(verdict: &Verdict, wants: &PermissionRequest) -> (PermissionOutcome, Option<Approval>) {
    let lasting = |given: &Option<Approval>| given.clone().or_else(|| wants.grant());
    match verdict {
        Verdict::ApproveOnce => (PermissionOutcome::Approved {}, None),
        Verdict::ApproveForSession(given) => match lasting(given) {
            // Grants of hosts are newer than the wire's list of grants; clients are told of a plain approval.
            None | Some(Approval::Url { .. }) => (PermissionOutcome::Approved {}, lasting(given)),
            Some(approval) => {
                (PermissionOutcome::ApprovedForSession { approval: approval.clone() }, Some(approval))
            }
        },
        Verdict::ApproveForLocation { approval, location_key } => match lasting(approval) {
            None | Some(Approval::Url { .. }) => (PermissionOutcome::Approved {}, lasting(approval)),
            Some(approval) => {
                let location_key = location_key.clone();
                (
                    PermissionOutcome::ApprovedForLocation { approval: approval.clone(), location_key },
                    Some(approval),
                )
            }
        },
        Verdict::Reject { feedback } => {
            let feedback = feedback.clone();
            (PermissionOutcome::DeniedInteractivelyByUser { feedback, force_reject: None }, None)
        }
        Verdict::UserNotAvailable => {
            (PermissionOutcome::DeniedNoApprovalRuleAndCouldNotRequestFromUser {}, None)
        }
        Verdict::DeniedByRules => (PermissionOutcome::DeniedByRules { rules: Vec::new() }, None),
    }
}

/// Who runs what a permission was asked for. Durable with the request, so that an answer after a restart still knows.
fn route_of(wants: &PermissionRequest) -> Route {
    match wants {
        PermissionRequest::CustomTool { .. } => Route::Client,
        _ => Route::BuiltIn,
    }
}
