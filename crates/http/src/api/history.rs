//! Copies of a session, and rewinding it.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_ask::Rewind;
use baton_ask::RewindOutcome;
use baton_files::rewind::Undone;
use baton_history::fork::Fork;
use baton_protocol::SessionId;
use baton_service::sessions::{ExportSession, ForkSession, PreviewRewind, ShowSession};
use baton_service::{Caller, OperationError, Service};
use baton_store::{Seq, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{By, JsonBody, PathParams, QueryParams, session_id};
use super::sessions::view;
use super::types::SessionView;
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// Size of a page of an export, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// Which part of a session to copy.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewFork {
    /// Id of the first event that is not copied; default: copy everything.
    until: Option<String>,
    /// Name of the copy.
    name: Option<String>,
}

/// Copy a session, whole or up to an event.
#[utoipa::path(post, path = "/api/sessions/{id}/fork", operation_id = "forkSession", tag = "sessions", request_body = NewFork,
    params(("id" = String, Path, description = "Session id")),
    responses((status = 201, description = "The copy", body = SessionView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session or event", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn fork(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(NewFork { until, name }): JsonBody<NewFork>,
) -> Result<(StatusCode, Json<SessionView>), ApiError> {
    let source = session_id(&id)?;
    door.service.perform(&caller, ShowSession { id: source.clone() }).await?;
    let fork = ForkSession(Fork { source, until, name });
    let (copy, _) = door.service.perform(&caller, fork).await?;
    Ok((StatusCode::CREATED, Json(view(&door, &caller, copy).await?)))
}

/// Export a session, one event per line, as `baton sessions export` does.
#[utoipa::path(get, path = "/api/sessions/{id}/export", operation_id = "exportSession", tag = "sessions",
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Events, one a line", body = String, content_type = "application/x-ndjson"),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 503, description = "Other responses are not read", body = ErrorBody)))]
pub(super) async fn export(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let id = session_id(&id)?;
    let room = door.unread.room(caller.person(), 2 * PAGE_BYTES as u64).await?;
    let head = door.service.perform(&caller, ShowSession { id: id.clone() }).await?.head;
    let name = format!("attachment; filename=\"{id}.jsonl\"");
    let mut pages = Box::pin(futures_util::stream::try_unfold(Seq::ZERO, move |after| {
        let (service, caller, id) = (door.service.clone(), caller.clone(), id.clone());
        async move {
            if after < head { export_page(&service, &caller, id, after).await.map(Some) } else { Ok(None) }
        }
    }));
    // Read before the response begins: a session that was deleted since it was found is a 404 and not a cut download.
    let first = pages.try_next().await?;
    let pages = futures_util::stream::iter(first.map(Ok)).chain(pages);
    let headers =
        [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, room.body(pages)).into_response())
}

/// Reads a page of an export. Returns its lines, and the position of the last one.
async fn export_page(
    service: &Service,
    caller: &Caller,
    id: SessionId,
    after: Seq,
) -> Result<(Bytes, Seq), OperationError<StoreError>> {
    let export = ExportSession { id: id.clone(), after, max_bytes: PAGE_BYTES };
    let page = service.perform(caller, export).await?.records;
    // Before the head, an empty page means that the session was deleted: the export must not look complete.
    let last = page.last().ok_or(OperationError::Failed(StoreError::NotFound(id)))?.seq;
    let lines = page.iter().flat_map(|record| [record.body.clone(), Bytes::from_static(b"\n")]);
    let lines: Vec<Bytes> = lines.collect();
    Ok((Bytes::from(lines.concat()), last))
}

/// Where to rewind to.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RewindQuery {
    /// Id of the event of a prompt (`user.message`); the conversation is rewound to before it.
    event: String,
}

/// What a rewind would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RewindPreview {
    /// Why the session cannot be rewound now, if so: `session-busy`.
    obstacle: Option<String>,
    /// Whether files can be restored, too.
    can_restore_files: bool,
    /// Files that would be restored, and the changes that would be undone.
    #[schema(value_type = Vec<Object>)]
    files: Vec<Undone>,
}

/// Show what a rewind would do, without doing it.
#[utoipa::path(get, path = "/api/sessions/{id}/rewind", operation_id = "previewRewind", tag = "sessions",
    params(("id" = String, Path, description = "Session id"), RewindQuery),
    responses((status = 200, description = "Files that would be restored", body = RewindPreview),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such session or prompt", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn preview(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    QueryParams(RewindQuery { event }): QueryParams<RewindQuery>,
) -> Result<Json<RewindPreview>, ApiError> {
    let preview = door.service.perform(&caller, PreviewRewind { id: session_id(&id)?, event }).await?;
    Ok(Json(RewindPreview {
        obstacle: preview.obstacle.map(name_of),
        can_restore_files: preview.can_restore_files,
        files: preview.files,
    }))
}

fn name_of(outcome: RewindOutcome) -> String {
    let name = serde_json::to_value(outcome).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A rewind to carry out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRewind {
    /// Id of the event of a prompt (`user.message`); the conversation is rewound to before it.
    event: String,
    /// Whether to restore files, too.
    #[serde(default)]
    files: bool,
}

/// Result of a rewind.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RewindResult {
    /// `success`, or why nothing or not everything was rewound.
    outcome: String,
    /// Files that were restored.
    restored: Vec<String>,
    /// Error message, if it failed.
    error: Option<String>,
}

/// Rewind a session to before a prompt, with or without files.
#[utoipa::path(post, path = "/api/sessions/{id}/rewind", operation_id = "rewindSession", tag = "sessions", request_body = NewRewind,
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Result", body = RewindResult),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "The prompt does not exist, or a different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn rewind(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(NewRewind { event, files }): JsonBody<NewRewind>,
) -> Result<Json<RewindResult>, ApiError> {
    let rewind = Rewind { event, with_files: files, by: Some(caller.author()) };
    let rewound = door.service.ask(&caller, &session_id(&id)?, rewind).await?;
    Ok(Json(RewindResult {
        outcome: name_of(rewound.outcome),
        restored: rewound.restored.iter().map(|path| path.display().to_string()).collect(),
        error: rewound.error,
    }))
}
