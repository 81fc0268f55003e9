//! Answers to what waits: permissions and questions. The first one counts, whichever door it comes through.

use axum::Json;
use baton_core::{Answer as Answers, Reply};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::{Author, RequestId, SessionId};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{Answer, V1Error};
use super::extract::{Body, Here};
use super::fold::Pending;
use super::wire::QuestionBatch;
use super::workspace::lock;
use crate::session::Mail;

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

#[derive(Deserialize)]
pub(super) struct Grant {
    permission: Granted,
    #[serde(default)]
    action: String,
}

/// The permission, as the client was told of it. Only its name counts.
#[derive(Deserialize)]
struct Granted {
    #[serde(default)]
    id: String,
}

pub(super) async fn grant(here: Here, Body(grant): Body<Grant>) -> Answer<Json<Value>> {
    let verdict = match grant.action.as_str() {
        "allow" => Verdict::ApproveOnce,
        "allow_session" => Verdict::ApproveForSession(None),
        "deny" => Verdict::Reject { feedback: None },
        other => {
            return Err(V1Error::bad_request(format!(
                "action must be allow, allow_session or deny, not {other:?}"
            )));
        }
    };
    let session = match lock(&here.workspace.desk).find(&grant.permission.id) {
        Some(Pending::Permission(request)) => Some(request.session_id.clone()),
        _ => None,
    };
    let Some(session) = session else { return Ok(resolved(false)) };
    let answered = Answers::Permission(verdict, Author::crush());
    answer(&here, &session, grant.permission.id, answered).await
}

async fn answer(here: &Here, session: &SessionId, request: String, answer: Answers) -> Answer<Json<Value>> {
    match ask(here, session, &request, answer).await? {
        Reply::Counted => Ok(resolved(true)),
        // Its dialog offers a grant for whatever is asked. Where none can be given, a person who would have allowed it for
        // the session allows it once.
        Reply::NotOffered(_) => {
            let once = Answers::Permission(Verdict::ApproveOnce, Author::crush());
            let counted = ask(here, session, &request, once).await? == Reply::Counted;
            Ok(resolved(counted))
        }
        Reply::TooLate | Reply::NoSuchRequest => Ok(resolved(false)),
        other => Err(V1Error::unexpected(&other)),
    }
}

async fn ask(here: &Here, session: &SessionId, request: &str, answer: Answers) -> Answer<Reply> {
    let handle = here.door.server.registry.open(&here.door.server, session);
    let (request, answer) = (RequestId(request.to_owned()), Box::new(answer));
    Ok(handle.ask(|respond| Mail::Answer(request, answer, respond)).await?)
}

fn resolved(resolved: bool) -> Json<Value> {
    Json(json!({ "resolved": resolved }))
}

pub(super) async fn skips(here: Here) -> Json<Value> {
    Json(json!({ "skip": here.workspace.skips_permissions() }))
}

#[derive(Deserialize)]
pub(super) struct Skip {
    #[serde(default)]
    skip: bool,
}

pub(super) async fn set_skip(here: Here, Body(Skip { skip }): Body<Skip>) -> StatusCode {
    here.workspace.skip_permissions(skip);
    StatusCode::OK
}

#[derive(Deserialize)]
pub(super) struct Responses {
    #[serde(default)]
    batch_request_id: String,
    responses: Option<Vec<Response>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Response {
    selected_ids: Option<Vec<String>>,
    fill_in_text: String,
    yes: Option<bool>,
}

impl Response {
    /// What the user said, and whether they typed it rather than chose it.
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

pub(super) async fn answer_question(here: Here, Body(given): Body<Responses>) -> Answer<Json<Value>> {
    let Some(batch) = question(&here, Some(&given.batch_request_id)) else { return Ok(resolved(false)) };
    let response = given.responses.into_iter().flatten().next().unwrap_or_default();
    let (text, was_freeform) = response.read(&batch);
    answer(&here, &batch.session_id, batch.id, Answers::UserInput { answer: text, was_freeform }).await
}

/// The user closes the question. The model is told, and goes on without an answer.
pub(super) async fn cancel_question(here: Here) -> Answer<Json<Value>> {
    let Some(batch) = question(&here, None) else { return Ok(resolved(false)) };
    let answered = Answers::UserInput {
        answer: "(the user closed the question without an answer)".into(),
        was_freeform: true,
    };
    answer(&here, &batch.session_id, batch.id, answered).await
}

/// The question of that name, or the one that is shown: clients do not always say which.
fn question(here: &Here, id: Option<&str>) -> Option<QuestionBatch> {
    let desk = lock(&here.workspace.desk);
    let named = id.filter(|id| !id.is_empty());
    let pending = named.map_or_else(|| desk.question(), |id| desk.find(id));
    match pending? {
        Pending::Question(batch) => Some(batch.clone()),
        Pending::Permission(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::v1::wire::{Choice, Question};

    #[test]
    fn an_answer_is_chosen_typed_or_a_yes() {
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
        let read = |response: Value| serde_json::from_value::<Response>(response).unwrap().read(&batch);
        assert_eq!(read(json!({"selected_ids": ["choice-1"]})), ("blue".into(), false));
        assert_eq!(read(json!({"selected_ids": null, "fill_in_text": "green"})), ("green".into(), true));
        assert_eq!(read(json!({"yes": false})), ("no".into(), false));
        assert_eq!(read(json!({"selected_ids": ["other"]})), (String::new(), true));
    }
}
