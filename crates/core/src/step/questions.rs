//! Questions to the user: delivered to a client that can show them, closed by the first answer.

use baton_protocol::event::{
    ExitPlanModeRequested, Question, RequestClosed, UserInputCompleted, UserInputRequested, UserQuestion,
};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, Json, RequestId, ToolCallId};

use super::Step;
use crate::ask::{AnswerOutcome, AnswerRequest, ReplyTo, RequestAnswer};
use crate::input::Profile;
use crate::output::Work;
use crate::state::{CallKey, CallStage};

/// Result of a question that did not reach the user, for the model.
const NO_USER: &str =
    "The user could not be asked. Continue without an answer, or say what you need to know.";

/// Test whether a client can show a question.
type Ability = fn(&Profile) -> bool;

impl Step<'_> {
    /// Handles an answer to a question or plan.
    pub(super) fn answer_question(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        call: &CallKey,
        question: &Question,
        answer: RequestAnswer,
        by: Option<Author>,
    ) {
        match (question, answer) {
            (Question::UserInput(_), RequestAnswer::UserInput { answer, was_freeform }) => {
                self.user_answered(request, call, (answer, was_freeform), by);
            }
            (Question::UserInput(_), RequestAnswer::NoUser) => {
                self.tell_answer(request, NO_USER, true);
                self.finish_question(request, call, None, ToolResult::failure(NO_USER), None);
            }
            (Question::Plan(_), RequestAnswer::Plan(answer)) => {
                self.plan_answered(request, call, Some(&answer), by);
            }
            (Question::Plan(_), RequestAnswer::NoUser) => self.plan_answered(request, call, None, None),
            _ => return self.reply(to, AnswerOutcome::Mismatch),
        }
        self.reply_after_records(to);
    }

    fn user_answered(
        &mut self,
        request: &RequestId,
        call: &CallKey,
        (answer, was_freeform): (String, bool),
        by: Option<Author>,
    ) {
        self.tell_answer(request, &answer, was_freeform);
        let verb = if was_freeform { "responded" } else { "selected" };
        let result = ToolResult::success(format!("User {verb}: {answer}"));
        self.finish_question(request, call, Some((answer, was_freeform)), result, by);
    }

    /// Ends a question to the user, with its call.
    fn finish_question(
        &mut self,
        request: &RequestId,
        call: &CallKey,
        said: Option<(String, bool)>,
        result: ToolResult,
        by: Option<Author>,
    ) {
        let record = said.as_ref().map(
            |(answer, was_freeform)| serde_json::json!({ "answer": answer, "wasFreeform": was_freeform }),
        );
        self.close_question(request, record.map(Json::from), by);
        let (answer, was_freeform) = said.unzip();
        self.show(UserInputCompleted { request_id: request.clone(), answer, was_freeform });
        self.tool_finished(call, result);
    }

    /// Records the end of a question, with its answer and its author if it has one.
    pub(super) fn close_question(&mut self, request: &RequestId, answer: Option<Json>, by: Option<Author>) {
        self.record(RequestClosed { request_id: request.clone(), answer, by });
        self.stop_where(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request));
        self.remember_closed(request);
    }

    /// Shows a question to all clients.
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

    /// Delivers every open question that is not being shown to the newest client that can show it.
    pub(super) fn deliver_questions(&mut self) {
        let live = &self.session.live;
        let is_delivered = |request: &RequestId| {
            let mut work = live.work.values();
            work.any(|work| matches!(work, Work::DeliverQuestion { request: r, .. } if r == request))
        };
        let newest =
            |can: Ability| live.clients.iter().rev().find(|(_, profile)| can(profile)).map(|(id, _)| *id);
        let open = self.open_questions().into_iter().filter(|(request, _)| !is_delivered(request));
        let ready: Vec<Work> = open
            .filter_map(|(request, can)| Some(Work::DeliverQuestion { client: newest(can)?, request }))
            .collect();
        for work in ready {
            self.start(work);
        }
    }

    /// Returns the open questions, each with the ability that a client needs to show it.
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
        let fallback = self.fallback_request().filter(|_| self.session.live.listeners.is_empty());
        questions.chain(fallback.map(|request| (request.request_id.clone(), can))).collect()
    }
}
