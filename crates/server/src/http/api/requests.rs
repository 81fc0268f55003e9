//! What waits for an answer, as resources: listed and answered by anybody who may, also after a restart.

use axum::Json;
use axum::extract::State;
use baton_core::{Answer, Reply};
use baton_protocol::event::{PlanAnswer, SwitchAnswer};
use baton_protocol::permission::Verdict;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, RequestId};

use super::extract::{Body, Place, session_id};
use super::sessions::open;
use super::types::{
    Counted, Decision, RequestAnswer, RequestList, RequestOverview, RequestView, SessionRequest,
    SwitchResponse,
};
use crate::http::Shared;
use crate::http::error::{ApiError, ErrorBody};
use crate::session::Mail;

/// List what waits for an answer in a session.
#[utoipa::path(get, path = "/api/sessions/{id}/requests", tag = "requests", params(("id" = String, Path,)),
    responses((status = 200, description = "What waits", body = RequestList),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<Json<RequestList>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    let requests = handle.look(|view| RequestView::all(view.session)).await?;
    Ok(Json(RequestList { requests }))
}

/// List what waits for an answer in any session, also in those that a stopped server has left behind.
#[utoipa::path(get, path = "/api/requests", tag = "requests",
    responses((status = 200, description = "What waits", body = RequestOverview)))]
pub(super) async fn overview(State(door): State<Shared>) -> Result<Json<RequestOverview>, ApiError> {
    let all = door.server.store.list().await?;
    let busy = all.into_iter().filter(|summary| summary.holder.as_ref().is_some_and(|holder| holder.busy));
    let mut requests = Vec::new();
    for summary in busy {
        let handle = door.server.registry.open(&door.server, &summary.session);
        // Another server may hold it: what waits there is listed there.
        let Ok(found) = handle.look(|view| RequestView::all(view.session)).await else { continue };
        let session = summary.session.to_string();
        requests
            .extend(found.into_iter().map(|request| SessionRequest { session_id: session.clone(), request }));
    }
    Ok(Json(RequestOverview { requests }))
}

/// Answer something that waits. The first answer counts; a later one is told so.
#[utoipa::path(post, path = "/api/sessions/{id}/requests/{request}", tag = "requests", request_body = RequestAnswer,
    params(("id" = String, Path,), ("request" = String, Path,)),
    responses((status = 200, description = "The answer counts", body = Counted),
        (status = 400, description = "The answer does not fit what was asked", body = ErrorBody),
        (status = 404, description = "Nothing of that name was asked lately", body = ErrorBody),
        (status = 409, description = "Somebody else was faster", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 422, description = "The body does not fit, or the grant was not offered; the request stays open",
            body = ErrorBody)))]
pub(super) async fn answer(
    State(door): State<Shared>,
    Place((id, request)): Place<(String, String)>,
    Body(answer): Body<RequestAnswer>,
) -> Result<Json<Counted>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    let request = RequestId(request);
    let (named, answer) = (request.clone(), Box::new(as_answer(answer)));
    match handle.ask(|respond| Mail::Answer(request, answer, respond)).await? {
        Reply::Counted => Ok(Json(Counted { counted: true })),
        Reply::TooLate => {
            Err(ApiError::conflict("already_answered", "somebody else has answered this, or it is over"))
        }
        Reply::NoSuchRequest => Err(ApiError::not_found(format!("nothing waits under the name {named}"))),
        Reply::Mismatch => Err(ApiError::bad_request("the answer is of another kind than what was asked")),
        Reply::NotOffered(why) | Reply::Refused(why) => Err(ApiError::unprocessable("not_offered", why)),
        other => Err(ApiError::internal(format!("unexpected answer {other:?}"))),
    }
}

fn as_answer(answer: RequestAnswer) -> Answer {
    match answer {
        RequestAnswer::Permission { decision, grant, feedback } => {
            let verdict = match decision {
                Decision::Approve => Verdict::ApproveOnce,
                Decision::ApproveForSession => Verdict::ApproveForSession(grant),
                Decision::ApproveForLocation => {
                    Verdict::ApproveForLocation { approval: grant, location_key: String::new() }
                }
                Decision::Reject => Verdict::Reject { feedback },
            };
            Answer::Permission(verdict, Author::http())
        }
        RequestAnswer::Command { handled } => Answer::QueuedCommand { handled, stop: false },
        RequestAnswer::Tool { text, failed: true } => Answer::Tool(ToolResult::failure(text)),
        RequestAnswer::Tool { text, failed: false } => Answer::Tool(ToolResult::success(text)),
        RequestAnswer::Switch { response } => Answer::Switch(match response {
            SwitchResponse::Yes => SwitchAnswer::Yes,
            SwitchResponse::YesAlways => SwitchAnswer::YesAlways,
            SwitchResponse::No => SwitchAnswer::No,
        }),
        RequestAnswer::Plan { response, feedback } => Answer::Plan(match response.action() {
            Some(action) => PlanAnswer::Approved { action, approves_edits: false, defers: false, feedback },
            None => PlanAnswer::Refused { feedback },
        }),
        RequestAnswer::Question { answer, chosen } => Answer::UserInput { answer, was_freeform: !chosen },
    }
}
