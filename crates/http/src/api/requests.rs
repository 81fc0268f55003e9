//! Pending requests: listing and answering them, also after a restart.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use baton_ask::mcp::{ApproveMcpSampling, McpLogin};
use baton_core::ask::AnswerRequest;
use baton_core::{self as core, AnswerOutcome, Elicited};
use baton_protocol::event::{Body as EventBody, Event, PlanAnswer, RequestClosed, SwitchAnswer};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::tool::ToolResult;
use baton_protocol::{RequestId, SessionId};
use baton_runtime::session::Failure;
use baton_service::requests::{LinkRequest, ListRequests, PasteLogin};
use baton_service::sessions::ShowSession;
use baton_service::{Caller, LiveSession, OperationError, Service};
use http::HeaderMap;

use super::extract::{By, JsonBody, PathParams, session_id};
use super::prompts::read_before;
use super::types::{
    Counted, Decision, LoginLink, RequestAnswer, RequestList, RequestOverview, RequestView, SessionRequest,
    SwitchResponse,
};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};
use crate::oauth::callback_address;

/// Number of events that are searched for the first answer to a request.
const SEARCHED: usize = 500;

/// What is known of a closed request if the history does not say who answered it.
const ANSWERED: &str = "the request was already answered or withdrawn";

/// List the pending requests of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/requests", operation_id = "listSessionRequests", tag = "requests", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Pending requests", body = RequestList),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<RequestList>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    let requests = RequestView::all(&session.inspect().await?.session);
    Ok(Json(RequestList { requests }))
}

/// List the pending requests of all sessions, including those of a stopped server.
#[utoipa::path(get, path = "/api/requests", operation_id = "listRequests", tag = "requests",
    responses((status = 200, description = "Pending requests", body = RequestOverview)))]
pub(super) async fn overview(
    State(door): State<Shared>,
    By(caller): By,
) -> Result<Json<RequestOverview>, ApiError> {
    let mut overview = RequestOverview { requests: Vec::new(), heads: BTreeMap::new() };
    for view in door.service.perform(&caller, ListRequests).await? {
        let found = RequestView::all(&view.session);
        let session = view.session.id.to_string();
        overview
            .requests
            .extend(found.into_iter().map(|request| SessionRequest { session_id: session.clone(), request }));
        overview.heads.insert(session, view.session.durable.seq);
    }
    Ok(Json(overview))
}

/// Answer a request.
///
/// The first answer counts; a later one gets 409.
#[utoipa::path(post, path = "/api/sessions/{id}/requests/{request}", operation_id = "answerRequest", tag = "requests", request_body = RequestAnswer,
    params(("id" = String, Path, description = "Session id"), ("request" = String, Path, description = "Request id")),
    responses((status = 200, description = "The answer counts", body = Counted),
        (status = 400, description = "The answer is of a different kind than the request", body = ErrorBody),
        (status = 404, description = "No such session or request", body = ErrorBody),
        (status = 409, description = "Already answered", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema, or the grant was not offered; the request stays pending",
            body = ErrorBody)))]
pub(super) async fn answer(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, request)): PathParams<(String, String)>,
    JsonBody(answer): JsonBody<RequestAnswer>,
) -> Result<Json<Counted>, ApiError> {
    let session = session_id(&id)?;
    let request = RequestId(request);
    match &answer {
        RequestAnswer::Login { pasted: Some(pasted), decline: false } => {
            let paste = PasteLogin { session, request, pasted: pasted.clone() };
            door.service.perform(&caller, paste).await?;
            return Ok(Json(Counted { counted: true }));
        }
        RequestAnswer::Sampling { approve: true } => {
            return sample(&door.service.open(&caller, &session).await?, request).await;
        }
        _ => {}
    }
    let (named, by) = (request.clone(), Some(caller.author()));
    let answer = Box::new(core_answer(answer, &caller));
    match door.service.ask(&caller, &session, AnswerRequest { request, answer, by }).await? {
        AnswerOutcome::Counted => Ok(Json(Counted { counted: true })),
        outcome @ (AnswerOutcome::TooLate | AnswerOutcome::NoSuchRequest) => {
            // Sessions forget closed requests when the server stops; their history does not.
            match first_answer(&door.service, &caller, &session, &named).await? {
                Some(answered) => Err(ApiError::conflict("already_answered", answered)),
                None if outcome == AnswerOutcome::TooLate => {
                    Err(ApiError::conflict("already_answered", ANSWERED.to_owned()))
                }
                None => Err(ApiError::not_found(format!("no such request in session {id}: {named}"))),
            }
        }
        AnswerOutcome::Mismatch => {
            Err(ApiError::bad_request("the answer is of a different kind than the request"))
        }
        AnswerOutcome::NotOffered(why) | AnswerOutcome::Refused(why) => {
            Err(ApiError::unprocessable("not_offered", why))
        }
    }
}

/// Says who answered a request first; none if the recent history does not tell.
async fn first_answer(
    service: &Service,
    caller: &Caller,
    session: &SessionId,
    request: &RequestId,
) -> Result<Option<String>, ApiError> {
    let head = service.perform(caller, ShowSession { id: session.clone() }).await?.head;
    for record in read_before(service, caller, session, head.plus(1), SEARCHED).await?.iter().rev() {
        if !matches!(&*record.kind, "permission.completed" | "baton.request_closed") {
            continue;
        }
        let Ok(event) = Event::parse(&String::from_utf8_lossy(&record.body)) else { continue };
        if let EventBody::RequestClosed(RequestClosed { request_id, by, .. }) = &event.body
            && request_id == request
        {
            let by = by.as_ref().map(|by| format!("the request was already answered by {}", by.0));
            return Ok(Some(by.unwrap_or_else(|| ANSWERED.to_owned())));
        }
        let EventBody::PermissionCompleted(completed) = event.body else { continue };
        if completed.request_id != *request {
            continue;
        }
        if completed.by.is_none() && matches!(completed.result, PermissionOutcome::Cancelled { .. }) {
            return Ok(Some("the request was withdrawn, because its turn has ended".to_owned()));
        }
        let by = completed.by.map_or_else(|| "a rule".to_owned(), |by| by.0);
        let what = match completed.result {
            PermissionOutcome::Approved {}
            | PermissionOutcome::ApprovedForSession { .. }
            | PermissionOutcome::ApprovedForLocation { .. } => "approved",
            PermissionOutcome::Cancelled { .. } => "withdrawn",
            _ => "denied",
        };
        return Ok(Some(format!("the request was already {what} by {by}")));
    }
    Ok(None)
}

/// Return a fresh link for a pending login.
///
/// Open it in any browser. The browser returns to this server; if it cannot reach the server, answer the request with the
/// address in its address bar.
#[utoipa::path(post, path = "/api/sessions/{id}/requests/{request}/link", operation_id = "linkRequest", tag = "requests",
    params(("id" = String, Path, description = "Session id"), ("request" = String, Path, description = "Request id")),
    responses((status = 200, description = "Link for the login", body = LoginLink),
        (status = 404, description = "No such session or pending login", body = ErrorBody),
        (status = 422, description = "The authorization server cannot be used", body = ErrorBody)))]
pub(super) async fn link(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, request)): PathParams<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<LoginLink>, ApiError> {
    let redirect = callback_address(&door, &headers);
    let link = LinkRequest { session: session_id(&id)?, request: RequestId(request), redirect };
    let McpLogin { authorization_url, redirect_uri, request_id } =
        door.service.perform(&caller, link).await?;
    Ok(Json(LoginLink { authorization_url, redirect_uri, request_id }))
}

/// Lets the session's model answer an MCP server.
async fn sample(session: &LiveSession, request: RequestId) -> Result<Json<Counted>, ApiError> {
    match session.ask(ApproveMcpSampling { request: request.to_string() }).await {
        Ok(()) => Ok(Json(Counted { counted: true })),
        // Not "not found" if the model failed: clients take that for the end of the request.
        Err(OperationError::Failed(Failure::Refused(why))) => {
            let is_pending = session.inspect().await?.session.live.asks.contains_key(&request);
            Err(if is_pending { ApiError::unprocessable("refused", why) } else { ApiError::not_found(why) })
        }
        Err(other) => Err(other.into()),
    }
}

fn core_answer(answer: RequestAnswer, caller: &Caller) -> core::RequestAnswer {
    match answer {
        RequestAnswer::Permission { decision: Decision::ApproveUnattended, .. } => {
            core::RequestAnswer::ApproveUnattended(caller.author().approving_everything())
        }
        RequestAnswer::Permission { decision, grant, feedback } => {
            let verdict = match decision {
                Decision::Approve | Decision::ApproveUnattended => Verdict::ApproveOnce,
                Decision::ApproveForSession => Verdict::ApproveForSession(grant),
                Decision::ApproveForLocation => {
                    Verdict::ApproveForLocation { approval: grant, location_key: String::new() }
                }
                Decision::Reject => Verdict::Reject { feedback },
                Decision::UserNotAvailable => Verdict::UserNotAvailable,
            };
            core::RequestAnswer::Permission(verdict, caller.author())
        }
        RequestAnswer::Command { handled } => core::RequestAnswer::QueuedCommand { handled, stop: false },
        RequestAnswer::Tool { text, failed: true } => core::RequestAnswer::Tool(ToolResult::failure(text)),
        RequestAnswer::Tool { text, failed: false } => core::RequestAnswer::Tool(ToolResult::success(text)),
        RequestAnswer::Switch { response } => core::RequestAnswer::Switch(match response {
            SwitchResponse::Yes => SwitchAnswer::Yes,
            SwitchResponse::YesAlways => SwitchAnswer::YesAlways,
            SwitchResponse::No => SwitchAnswer::No,
        }),
        RequestAnswer::Plan { response, feedback } => {
            let answer = match response.action() {
                Some(action) => {
                    PlanAnswer::Approved { action, approves_edits: false, defers: false, feedback }
                }
                None => PlanAnswer::Refused { feedback },
            };
            core::RequestAnswer::Plan(answer)
        }
        RequestAnswer::Login { .. } => core::RequestAnswer::NoLogin,
        RequestAnswer::Elicitation { action, content } => core::RequestAnswer::Elicitation(Elicited {
            action: action.as_str().to_owned(),
            content: content.map(baton_protocol::Json::from),
        }),
        // An approval was served before: it needs the model.
        RequestAnswer::Sampling { .. } => core::RequestAnswer::Sampling(None),
        RequestAnswer::Question { answer, chosen } => {
            core::RequestAnswer::UserInput { answer, was_freeform: !chosen }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_people::{Digest, Identity, Proof, Role};
    use baton_protocol::Author;

    #[test]
    fn answers_name_the_person_who_gives_them() {
        let proof = Proof::Token(Digest::of("t"));
        let ada = Identity::Person { name: "ada".parse().unwrap(), role: Role::Approver, proof };
        let at_terminal = |identity| Caller::new(identity, Author::terminal("root"));
        let ada = at_terminal(ada);
        let by = Author("ada".into());
        let approve = |decision| RequestAnswer::Permission { decision, grant: None, feedback: None };
        let unattended = core_answer(approve(Decision::ApproveUnattended), &ada);
        let by_client = Author("ada, approves everything".into());
        assert_eq!(unattended, core::RequestAnswer::ApproveUnattended(by_client));
        let attended = core_answer(approve(Decision::Approve), &ada);
        assert_eq!(attended, core::RequestAnswer::Permission(Verdict::ApproveOnce, by));
        let owner = at_terminal(Identity::Owner);
        let attended = core_answer(approve(Decision::Approve), &owner);
        let by = Author("terminal (root)".into());
        assert_eq!(attended, core::RequestAnswer::Permission(Verdict::ApproveOnce, by));
        let unattended = core_answer(approve(Decision::ApproveUnattended), &owner);
        let by_client = Author("terminal (root), approves everything".into());
        assert_eq!(unattended, core::RequestAnswer::ApproveUnattended(by_client));
    }
}
