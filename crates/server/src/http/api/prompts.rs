//! Prompts: accepted for good, then run, whoever sent them and whether or not they are still there.

use axum::Json;
use axum::extract::State;
use baton_core::Reply;
use baton_protocol::PromptId;
use baton_protocol::attachment::Attachment;
use baton_protocol::event::{AbortReason, Body as EventBody, Event, Prompt, SendMode};
use baton_store::Span;
use http::{HeaderMap, StatusCode};

use super::extract::{Body, Place, session_id};
use super::sessions::open;
use super::types::{AcceptedPrompt, Cancelled, NewPrompt, PromptView};
use crate::http::Shared;
use crate::http::error::{ApiError, ErrorBody};
use crate::session::Mail;

const LONGEST_KEY: usize = 256;

/// Send a prompt. Answered as soon as it is accepted for good; what comes of it is told by events.
///
/// With an `Idempotency-Key` the same prompt can be sent again after a connection broke: it is accepted once.
#[utoipa::path(post, path = "/api/sessions/{id}/prompts", tag = "prompts", request_body = NewPrompt,
    params(("id" = String, Path,), ("Idempotency-Key" = Option<String>, Header, description = "Your own name for this sending", pattern = "^[ -~]{1,256}$")),
    responses((status = 202, description = "It is accepted", body = AcceptedPrompt),
        (status = 400, description = "The body makes no sense", body = ErrorBody),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 422, description = "The body does not fit", body = ErrorBody)))]
pub(super) async fn send(
    State(door): State<Shared>,
    Place(id): Place<String>,
    headers: HeaderMap,
    Body(prompt): Body<NewPrompt>,
) -> Result<(StatusCode, Json<AcceptedPrompt>), ApiError> {
    if prompt.text.trim().is_empty() {
        return Err(ApiError::bad_request("the text of a prompt must not be empty"));
    }
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > LONGEST_KEY) {
        return Err(ApiError::bad_request(format!(
            "an Idempotency-Key has 1 to {LONGEST_KEY} visible characters"
        )));
    }
    let handle = open(&door, &session_id(&id)?).await?;
    let prompt = Prompt {
        text: prompt.text,
        attachments: prompt.attachments.into_iter().map(attachment).collect(),
        mode: if prompt.immediate { SendMode::Immediate } else { SendMode::Enqueue },
        key,
        ..Prompt::default()
    };
    match handle.ask(|respond| Mail::Prompt(Box::new(prompt), respond)).await? {
        Reply::Accepted(id) => Ok((StatusCode::ACCEPTED, Json(AcceptedPrompt { prompt_id: id.to_string() }))),
        other => Err(ApiError::internal(format!("unexpected answer {other:?}"))),
    }
}

fn attachment(object: serde_json::Map<String, serde_json::Value>) -> Attachment {
    baton_protocol::Json::from(serde_json::Value::Object(object)).into()
}

/// Show where a prompt stands.
#[utoipa::path(get, path = "/api/sessions/{id}/prompts/{prompt}", tag = "prompts",
    params(("id" = String, Path,), ("prompt" = String, Path,)),
    responses((status = 200, description = "The prompt", body = PromptView), (status = 404, description = "There is none", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    Place((id, prompt)): Place<(String, String)>,
) -> Result<Json<PromptView>, ApiError> {
    let id = session_id(&id)?;
    let unknown = || ApiError::not_found(format!("no such prompt in session {id}: {prompt}"));
    let wanted: PromptId = prompt.parse().map_err(|_| unknown())?;
    let summary = door.server.store.summary(&id).await?;
    let summary = summary.ok_or_else(|| ApiError::not_found(format!("Session not found: {id}")))?;
    // From the end, because people ask about recent prompts: what was said of one last is how it stands.
    let mut before = summary.head.plus(1);
    loop {
        let page = door.server.store.read(&id, Span::Before { before, limit: 500 }).await?;
        let Some(first) = page.first() else { return Err(unknown()) };
        before = first.seq;
        let said = page.iter().rev().filter(|record| concerns_prompts(&record.kind)).find_map(|record| {
            let text = String::from_utf8_lossy(&record.body);
            state_after(&Event::parse(&text).ok()?.body, wanted)
        });
        if let Some((state, reason)) = said {
            return Ok(Json(PromptView { prompt_id: wanted.to_string(), state, reason }));
        }
    }
}

fn concerns_prompts(kind: &str) -> bool {
    matches!(kind, "baton.prompt_accepted" | "user.message" | "baton.turn_settled")
}

fn state_after(body: &EventBody, wanted: PromptId) -> Option<(&'static str, Option<String>)> {
    match body {
        EventBody::PromptAccepted(accepted) if accepted.prompt_id == wanted => Some(("queued", None)),
        EventBody::UserMessage(message) if message.message_id == Some(wanted) => Some(("running", None)),
        EventBody::TurnSettled(settled) if settled.prompt_ids.contains(&wanted) => {
            Some((PromptView::state_of(settled.outcome), Some(settled.reason.clone())))
        }
        _ => None,
    }
}

/// Cancel the running turn and every prompt accepted before. An idle session is left alone.
#[utoipa::path(post, path = "/api/sessions/{id}/cancel", tag = "prompts", params(("id" = String, Path,)),
    responses((status = 200, description = "It is cancelled", body = Cancelled),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody)))]
pub(super) async fn cancel(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<Json<Cancelled>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    match handle.ask(|respond| Mail::Abort(AbortReason::UserInitiated, respond)).await? {
        Reply::Aborted { had_work } => Ok(Json(Cancelled { had_work })),
        other => Err(ApiError::internal(format!("unexpected answer {other:?}"))),
    }
}
