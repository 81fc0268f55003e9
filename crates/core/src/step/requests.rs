//! Requests to the outside, and their answers: the first one counts, later ones are told so (P3).

use baton_protocol::event::{
    ApprovalsChanged, Body, ExitPlanModeCompleted, ExitPlanModeRequested, ExternalToolCompleted,
    PermissionCompleted, PermissionMode, Question, RequestClosed, UserInputCompleted, UserInputRequested,
    UserQuestion,
};
use baton_protocol::permission::{Approval, PermissionOutcome, PermissionRequest, Verdict};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, Json, RequestId, ToolCallId};

use super::Step;
use super::commands::request_of;
use crate::input::{Answer, Profile};
use crate::output::{Reply, ReplyTo, Work, denial};
use crate::policy::{self, Advice, Decision};
use crate::results::Route;
use crate::state::{Call, CallKey, CallStage, Session};

/// What the model is told when its question did not reach the user.
const NO_USER: &str = "The user could not be asked. Go on without an answer, or say what you need to know.";

/// What a client must be able to do to be asked something.
type Ability = fn(&Profile) -> bool;

impl Step<'_> {
    /// Somebody answers.
    pub(super) fn answer(&mut self, reply: ReplyTo, request: &RequestId, answer: Answer) {
        if self.session.live.asks.contains_key(request) {
            return self.answer_ask(reply, request, answer);
        }
        if self.session.live.command.is_some_and(|command| request_of(command) == *request) {
            return self.answer_command(reply, &answer);
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
            (CallStage::AwaitingPermission { wants, .. }, Answer::Permission(verdict, by)) => {
                self.answer_permission(reply, request, &call, &wants, verdict, by);
            }
            (CallStage::AwaitingPermission { wants, .. }, Answer::ApproveUnattended) => {
                self.approve_unattended(reply, request, &call, &wants);
            }
            (CallStage::AwaitingClient { .. }, Answer::Tool(result)) => {
                // The caller hears that the answer counts when it is durable: after hooks and limits had their say.
                self.session.live.claimed.insert(request.clone(), reply);
                let request = Some(request.clone());
                self.start(Work::FinishCall { call: call.key(), request, result });
            }
            (CallStage::AwaitingAnswer { question, .. }, answer) => {
                self.answer_question(reply, request, &call.key(), &question, answer);
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

    /// Takes an answer to a permission request. A grant that was not offered is refused, and the request stays open; one for
    /// a location counts once it is stored.
    fn answer_permission(
        &mut self,
        reply: ReplyTo,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
        verdict: Verdict,
        by: Author,
    ) {
        let Session { durable, live, .. } = &*self.session;
        let offered = |named: &Option<Approval>| {
            policy::grant_of(wants, &durable.territory(live, None), named.as_ref())
        };
        let given = match &verdict {
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. }
                if policy::is_denied(wants, &durable.rules) =>
            {
                self.decide(request, call, wants, Verdict::DeniedByRules, None);
                return self.reply_after_records(reply);
            }
            Verdict::ApproveForSession(named) => offered(named).map(Some),
            Verdict::ApproveForLocation { approval, .. } => offered(approval).map(Some),
            _ => Ok(None),
        };
        match (given, verdict) {
            (Err(refused), _) => self.reply(reply, Reply::NotOffered(refused.to_string())),
            (Ok(Some(approval)), Verdict::ApproveForLocation { location_key, .. }) => {
                self.session.live.claimed.insert(request.clone(), reply);
                self.start(Work::SaveGrant { request: request.clone(), location_key, approval, by });
            }
            (Ok(given), verdict) => {
                let given = given.map(|approval| Given { approval, location_key: None, by });
                self.decide(request, call, wants, verdict, given);
                self.reply_after_records(reply);
            }
        }
    }

    /// A grant for a location is stored, or could not be: then the request is open again.
    pub(super) fn grant_saved(
        &mut self,
        request: &RequestId,
        location_key: String,
        approval: Approval,
        by: Author,
        saved: Result<(), String>,
    ) {
        let Some(reply) = self.session.live.claimed.remove(request) else { return };
        let Some(call) = self.call_waiting_for(request).cloned() else {
            return self.reply(reply, Reply::TooLate);
        };
        match (saved, call.stage.clone()) {
            (Err(why), _) => self.reply(reply, Reply::Refused(why)),
            // A rule that came while the grant was being stored.
            (Ok(()), CallStage::AwaitingPermission { wants, .. })
                if policy::is_denied(&wants, &self.session.durable.rules) =>
            {
                self.decide(request, &call, &wants, Verdict::DeniedByRules, None);
                self.reply_after_records(reply);
            }
            (Ok(()), CallStage::AwaitingPermission { wants, .. }) => {
                let named = Some(approval.clone());
                let verdict =
                    Verdict::ApproveForLocation { approval: named, location_key: location_key.clone() };
                let given = Given { approval, location_key: Some(location_key), by };
                self.decide(request, &call, &wants, verdict, Some(given));
                self.reply_after_records(reply);
            }
            (Ok(()), _) => self.reply(reply, Reply::Mismatch),
        }
    }

    /// A client that approves whatever comes has no person behind it: what allow-all would not allow stays open for one.
    fn approve_unattended(
        &mut self,
        reply: ReplyTo,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
    ) {
        match self.judge_in(PermissionMode::AllowAll, wants, Advice::None, None) {
            Decision::Allow(_) => self.decide(request, call, wants, Verdict::ApproveOnce, None),
            Decision::Deny(_) => self.decide(request, call, wants, Verdict::DeniedByRules, None),
            Decision::Ask(reason) => return self.reply(reply, Reply::Refused(reason.to_string())),
        }
        self.reply_after_records(reply);
    }

    /// Records a decision and carries it out.
    fn decide(
        &mut self,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
        verdict: Verdict,
        given: Option<Given>,
    ) {
        let completed = PermissionCompleted {
            request_id: request.clone(),
            tool_call_id: Some(call.id.clone()),
            result: outcome_of(&verdict, given.as_ref()),
        };
        self.record_for(call.agent.as_ref(), completed);
        self.settled(request);
        if let Some(Given { approval, location_key, by }) = given {
            let approval = Some(approval);
            self.record(ApprovalsChanged { approval, location_key, revoked: None, by: Some(by) });
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

    fn answer_question(
        &mut self,
        reply: ReplyTo,
        request: &RequestId,
        call: &CallKey,
        question: &Question,
        answer: Answer,
    ) {
        match (question, answer) {
            (Question::UserInput(_), Answer::UserInput { answer, was_freeform }) => {
                self.user_answered(request, call, answer, was_freeform);
            }
            (Question::UserInput(_), Answer::NoUser) => {
                self.tell_answer(request, NO_USER, true);
                self.question_is_over(request, call, None, ToolResult::failure(NO_USER));
            }
            (Question::Plan(_), Answer::Plan(answer)) => self.plan_answered(request, call, Some(&answer)),
            (Question::Plan(_), Answer::NoUser) => self.plan_answered(request, call, None),
            _ => return self.reply(reply, Reply::Mismatch),
        }
        self.reply_after_records(reply);
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
        self.question_closed(request, record.map(Json::from));
        let (answer, was_freeform) = said.unzip();
        self.show(UserInputCompleted { request_id: request.clone(), answer, was_freeform });
        self.tool_finished(call, result);
    }

    /// Records what was answered, if anything was, and lets go of the question.
    pub(super) fn question_closed(&mut self, request: &RequestId, answer: Option<Json>) {
        self.record(RequestClosed { request_id: request.clone(), answer });
        self.stop_where(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request));
        self.settled(request);
    }

    /// Tells clients of a question.
    pub(super) fn show_question(&mut self, request: &RequestId, call: &ToolCallId, question: &Question) {
        let (request_id, tool_call_id) = (request.clone(), Some(call.clone()));
        match question.clone() {
            Question::UserInput(UserQuestion { question, choices, allow_freeform }) => {
                self.show(UserInputRequested { request_id, question, choices, allow_freeform, tool_call_id });
            }
            Question::Plan(plan) => {
                let model = self.session.durable.facts.model.clone();
                self.show(ExitPlanModeRequested { request_id, tool_call_id, model, plan });
            }
        }
    }

    /// Puts every question that nobody is looking at to the newest client that can answer it.
    pub(super) fn deliver_questions(&mut self) {
        let live = &self.session.live;
        let is_delivered = |request: &RequestId| {
            let mut work = live.work.values();
            work.any(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request))
        };
        let able =
            |can: Ability| live.clients.iter().rev().find(|(_, profile)| can(profile)).map(|(id, _)| *id);
        let open = self.open_questions().into_iter().filter(|(request, _)| !is_delivered(request));
        let ready: Vec<Work> = open
            .filter_map(|(request, can)| Some(Work::DeliverQuestion { client: able(can)?, request }))
            .collect();
        for work in ready {
            self.start(work);
        }
    }

    /// What can be put to a client directly, with what the client must be able to do.
    fn open_questions(&self) -> Vec<(RequestId, Ability)> {
        let calls = self.turn().into_iter().flat_map(|turn| &turn.calls);
        let questions = calls.filter_map(|call| match &call.stage {
            CallStage::AwaitingAnswer { request, question } => {
                let can: Ability = match question {
                    Question::UserInput(_) => |profile| profile.user_input,
                    Question::Plan(_) => |profile| profile.plan_approval,
                };
                Some((request.clone(), can))
            }
            _ => None,
        });
        let can: Ability = |profile| profile.model_switch;
        let offer = self.offer().filter(|_| self.session.live.listeners.is_empty());
        questions.chain(offer.map(|offer| (offer.request_id.clone(), can))).collect()
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

/// A grant that an answer gives.
struct Given {
    approval: Approval,
    /// The location that it is stored for.
    location_key: Option<String>,
    by: Author,
}

/// What everybody is told of a decision.
fn outcome_of(verdict: &Verdict, given: Option<&Given>) -> PermissionOutcome {
    match (verdict, given) {
        (Verdict::Reject { feedback }, _) => {
            PermissionOutcome::DeniedInteractivelyByUser { feedback: feedback.clone(), force_reject: None }
        }
        (Verdict::UserNotAvailable, _) => {
            PermissionOutcome::DeniedNoApprovalRuleAndCouldNotRequestFromUser {}
        }
        (Verdict::DeniedByRules, _) => PermissionOutcome::DeniedByRules { rules: Vec::new() },
        // Grants of origins are newer than the wire's list of grants; clients are told of a plain approval.
        (_, None | Some(Given { approval: Approval::Url { .. }, .. })) => PermissionOutcome::Approved {},
        (_, Some(Given { approval, location_key: None, .. })) => {
            PermissionOutcome::ApprovedForSession { approval: approval.clone() }
        }
        (_, Some(Given { approval, location_key: Some(key), .. })) => {
            PermissionOutcome::ApprovedForLocation { approval: approval.clone(), location_key: key.clone() }
        }
    }
}

/// Who runs what a permission was asked for. Durable with the request, so that an answer after a restart still knows.
fn route_of(wants: &PermissionRequest) -> Route {
    match wants {
        PermissionRequest::CustomTool { .. } => Route::Client,
        _ => Route::BuiltIn,
    }
}
