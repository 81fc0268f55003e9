//! The queue of a session: prompts and commands that have not started.

use axum::Json;
use axum::extract::State;
use baton_core::ask::{HoldQueue, MoveQueued, RewordQueued, SteerQueued, Withdraw};
use baton_core::{Session, Withdrawn};
use baton_protocol::PromptId;
use baton_protocol::event::SendMode;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{By, JsonBody, PathParams, session_id};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// A prompt or command that has not started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueuedItem {
    prompt_id: String,
    text: String,
    /// Whether it is a slash command.
    command: bool,
    /// Whether it joins the running turn at its next model call.
    immediate: bool,
    /// Whether it does not start before the queue is released: the turn before it was cancelled.
    held: bool,
    /// Number of attachments.
    attachments: usize,
    /// Sender.
    by: Option<String>,
}

impl QueuedItem {
    /// Returns the queue of a session.
    pub(super) fn all(session: &Session) -> Vec<Self> {
        let waits = session.durable.inbox.iter().filter(|queued| !session.has_begun(queued.id));
        waits
            .map(|queued| Self {
                prompt_id: queued.id.to_string(),
                text: queued.prompt.display.clone().unwrap_or_else(|| queued.prompt.text.clone()),
                command: matches!(queued.prompt.mode, SendMode::Command(_)),
                immediate: queued.prompt.mode == SendMode::Immediate,
                held: queued.held && queued.prompt.mode != SendMode::Immediate,
                attachments: queued.prompt.attachments.len(),
                by: queued.prompt.by.as_ref().map(ToString::to_string),
            })
            .collect()
    }
}

/// The queue of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Queue {
    queue: Vec<QueuedItem>,
}

/// List prompts and commands that have not started, in their order.
#[utoipa::path(get, path = "/api/sessions/{id}/queue", operation_id = "listQueue", tag = "prompts", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "The queue", body = Queue),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<Queue>, ApiError> {
    let view = door.service.open(&caller, &session_id(&id)?).await?.inspect().await?;
    Ok(Json(Queue { queue: QueuedItem::all(&view.session) }))
}

/// Whether the queue is paused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueuePause {
    paused: bool,
}

/// Result of pausing or releasing the queue.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueuePaused {
    /// Whether that changed anything.
    changed: bool,
}

/// Pause the queue, or release it with all items that are held.
#[utoipa::path(patch, path = "/api/sessions/{id}/queue", operation_id = "holdQueue", tag = "prompts", request_body = QueuePause,
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Paused or released", body = QueuePaused),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "The queue is paused already, or a different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn hold(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(QueuePause { paused }): JsonBody<QueuePause>,
) -> Result<Json<QueuePaused>, ApiError> {
    let changed = door.service.ask(&caller, &session_id(&id)?, HoldQueue { hold: paused }).await?;
    Ok(Json(QueuePaused { changed }))
}

/// Changes to a queued prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueueChange {
    /// New text.
    #[schema(pattern = "\\S")]
    text: Option<String>,
    /// New index in the queue; one behind the last item means the end.
    position: Option<usize>,
    /// Join the running turn at its next model call.
    #[serde(default)]
    immediate: bool,
}

/// Change the text or place of a queued prompt, or make it steer the running turn.
#[utoipa::path(patch, path = "/api/sessions/{id}/queue/{prompt}", operation_id = "changeQueuedPrompt", tag = "prompts", request_body = QueueChange,
    params(("id" = String, Path, description = "Session id"), ("prompt" = String, Path, description = "Prompt id")),
    responses((status = 204, description = "Changed"),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "The prompt is not in the queue, or a different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn change(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, prompt)): PathParams<(String, String)>,
    JsonBody(change): JsonBody<QueueChange>,
) -> Result<StatusCode, ApiError> {
    let (id, prompt) = (session_id(&id)?, prompt_id(&prompt)?);
    door.service.open(&caller, &id).await?;
    if let Some(text) = change.text {
        if text.trim().is_empty() {
            return Err(ApiError::bad_request("the text of the prompt is empty"));
        }
        door.service.ask(&caller, &id, RewordQueued { prompt, text, display: None }).await?;
    }
    if let Some(position) = change.position {
        door.service.ask(&caller, &id, MoveQueued { prompt, position }).await?;
    }
    if change.immediate {
        door.service.ask(&caller, &id, SteerQueued { prompt }).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Withdraw a queued prompt or command.
#[utoipa::path(delete, path = "/api/sessions/{id}/queue/{prompt}", operation_id = "withdrawPrompt", tag = "prompts",
    params(("id" = String, Path, description = "Session id"), ("prompt" = String, Path, description = "Prompt id")),
    responses((status = 204, description = "Withdrawn"),
        (status = 404, description = "No such session, or the prompt is not in the queue", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn withdraw(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, prompt)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (id, prompt) = (session_id(&id)?, prompt_id(&prompt)?);
    match door.service.ask(&caller, &id, Withdraw { which: Withdrawn::One(prompt) }).await? {
        0 => Err(not_queued(&prompt.to_string())),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

fn prompt_id(text: &str) -> Result<PromptId, ApiError> {
    text.parse().map_err(|_| not_queued(text))
}

fn not_queued(prompt: &str) -> ApiError {
    ApiError::not_found(format!("the prompt is not in the queue: {prompt}"))
}
