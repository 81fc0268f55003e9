//! Answers to permission requests and questions. The first answer counts, whichever door it comes through.

use axum::Json;
use baton_core::ask::AnswerRequest;
use baton_core::{AnswerOutcome, RequestAnswer};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::{RequestId, SessionId};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{CrushError, CrushResult};
use super::extract::{JsonBody, WorkspaceScope};
use super::fold::PendingRequest;
use super::lock;
use super::wire::QuestionBatch;

/// Whether an outcome lets the tool run.
pub(super) fn is_granted(outcome: &PermissionOutcome) -> bool {
    match outcome {
        PermissionOutcome::Approved {}
        | PermissionOutcome::ApprovedForSession { .. }
        | PermissionOutcome::ApprovedForLocation { .. } => true,
        PermissionOutcome::Cancelled { .. }
        | PermissionOutcome::DeniedByRules { .. }
        | PermissionOutcome::DeniedNoApprovalRuleAndCouldNotRequestFromUser {}
        | PermissionOutcome::DeniedInteractivelyByUser { .. }
        | PermissionOutcome::DeniedByPermissionRequestHook { .. } => false,
    }
}

/// Answer to a permission request.
#[derive(Deserialize)]
pub(super) struct Grant {
    permission: AnsweredPermission,
    #[serde(default)]
    action: String,
}

/// The permission request, as the client received it. Only its id is read.
#[derive(Deserialize)]
struct AnsweredPermission {
    #[serde(default)]
    id: String,
}

pub(super) async fn grant(
    scope: WorkspaceScope,
    JsonBody(grant): JsonBody<Grant>,
) -> CrushResult<Json<Value>> {
    let verdict = match grant.action.as_str() {
        "allow" => Verdict::ApproveOnce,
        "allow_session" => Verdict::ApproveForSession(None),
        "deny" => Verdict::Reject { feedback: None },
        other => {
            return Err(CrushError::bad_request(format!(
                "action must be allow, allow_session or deny, not {other:?}"
            )));
        }
    };
    let session = match lock(&scope.workspace.dialogs).find(&grant.permission.id) {
        Some(PendingRequest::Permission(request)) => Some(request.session_id.clone()),
        _ => None,
    };
    let Some(session) = session else { return Ok(resolved(false)) };
    let answered = RequestAnswer::Permission(verdict, scope.author());
    answer(&scope, &session, grant.permission.id, answered).await
}

async fn answer(
    scope: &WorkspaceScope,
    session: &SessionId,
    request: String,
    answer: RequestAnswer,
) -> CrushResult<Json<Value>> {
    match send_answer(scope, session, &request, answer).await? {
        AnswerOutcome::Counted => Ok(resolved(true)),
        // The client's dialog offers a grant for every request. Where none can be given, the approval covers this request
        // only.
        AnswerOutcome::NotOffered(_) => {
            let once = RequestAnswer::Permission(Verdict::ApproveOnce, scope.author());
            let counted = send_answer(scope, session, &request, once).await? == AnswerOutcome::Counted;
            Ok(resolved(counted))
        }
        AnswerOutcome::TooLate | AnswerOutcome::NoSuchRequest => Ok(resolved(false)),
        AnswerOutcome::Mismatch => {
            Err(CrushError::bad_request("the answer is of a different kind than the request"))
        }
        AnswerOutcome::Refused(why) => Err(CrushError::bad_request(why)),
    }
}

async fn send_answer(
    scope: &WorkspaceScope,
    session: &SessionId,
    request: &str,
    answer: RequestAnswer,
) -> CrushResult<AnswerOutcome> {
    let handle = scope.open(session);
    let (request, answer) = (RequestId(request.to_owned()), Box::new(answer));
    Ok(handle.ask(AnswerRequest { request, answer, by: Some(scope.author()) }).await?)
}

fn resolved(resolved: bool) -> Json<Value> {
    Json(json!({ "resolved": resolved }))
}

pub(super) async fn skips(scope: WorkspaceScope) -> Json<Value> {
    Json(json!({ "skip": scope.workspace.skips_permissions() }))
}

#[derive(Deserialize)]
pub(super) struct Skip {
    #[serde(default)]
    skip: bool,
}

pub(super) async fn set_skip(scope: WorkspaceScope, JsonBody(Skip { skip }): JsonBody<Skip>) -> StatusCode {
    scope.workspace.skip_permissions(skip);
    StatusCode::OK
}

/// Answers to a batch of questions.
#[derive(Deserialize)]
pub(super) struct QuestionAnswers {
    #[serde(default)]
    batch_request_id: String,
    responses: Option<Vec<QuestionAnswer>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct QuestionAnswer {
    selected_ids: Option<Vec<String>>,
    fill_in_text: String,
    yes: Option<bool>,
}

impl QuestionAnswer {
    /// Returns the text of the answer, and whether the user typed it instead of choosing it.
    fn read(self, batch: &QuestionBatch) -> (String, bool) {
        if !self.fill_in_text.trim().is_empty() {
            return (self.fill_in_text, true);
        }
        let choices = batch.questions.iter().flat_map(|question| &question.choices);
        let selected = self.selected_ids.unwrap_or_default();
        let labels: Vec<&str> = choices
            .filter(|choice| selected.contains(&choice.id))
            .map(|choice| choice.label.as_str())
            .collect();
        match (labels.is_empty(), self.yes) {
            (false, _) => (labels.join(", "), false),
            (true, Some(yes)) => (if yes { "yes" } else { "no" }.to_owned(), false),
            (true, None) => (String::new(), true),
        }
    }
}

pub(super) async fn answer_question(
    scope: WorkspaceScope,
    JsonBody(given): JsonBody<QuestionAnswers>,
) -> CrushResult<Json<Value>> {
    let Some(batch) = question(&scope, Some(&given.batch_request_id)) else { return Ok(resolved(false)) };
    let answered = given.responses.into_iter().flatten().next().unwrap_or_default();
    let (text, was_freeform) = answered.read(&batch);
    answer(&scope, &batch.session_id, batch.id, RequestAnswer::UserInput { answer: text, was_freeform }).await
}

/// Answers a question that the user closed: the model continues without an answer.
pub(super) async fn cancel_question(scope: WorkspaceScope) -> CrushResult<Json<Value>> {
    let Some(batch) = question(&scope, None) else { return Ok(resolved(false)) };
    let answered = RequestAnswer::UserInput {
        answer: "(the user closed the question without an answer)".into(),
        was_freeform: true,
    };
    answer(&scope, &batch.session_id, batch.id, answered).await
}

/// Returns the pending question with this id, or the oldest one: clients do not always send an id.
fn question(scope: &WorkspaceScope, id: Option<&str>) -> Option<QuestionBatch> {
    let dialogs = lock(&scope.workspace.dialogs);
    let named = id.filter(|id| !id.is_empty());
    let pending = named.map_or_else(|| dialogs.question(), |id| dialogs.find(id));
    match pending? {
        PendingRequest::Question(batch) => Some(batch.clone()),
        PendingRequest::Permission(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Choice, Question};

    #[test]
    fn answer_is_a_choice_a_text_or_yes_or_no() {
        let choice = |id: &str, label: &str| Choice { id: id.into(), label: label.into() };
        let question = Question {
            id: "q".into(),
            kind: "single_choice",
            question: "?".into(),
            choices: vec![choice("choice-0", "red"), choice("choice-1", "blue")],
        };
        let batch = QuestionBatch {
            id: "b".into(),
            session_id: "s".parse().unwrap(),
            tool_call_id: String::new(),
            questions: vec![question],
        };
        let read = |answer: Value| baton_json::from_value::<QuestionAnswer>(&answer).unwrap().read(&batch);
        assert_eq!(read(json!({"selected_ids": ["choice-1"]})), ("blue".into(), false));
        assert_eq!(read(json!({"selected_ids": null, "fill_in_text": "green"})), ("green".into(), true));
        assert_eq!(read(json!({"yes": false})), ("no".into(), false));
        assert_eq!(read(json!({"selected_ids": ["other"]})), (String::new(), true));
    }
}
