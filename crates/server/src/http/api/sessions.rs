//! Sessions as resources.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use baton_core::{Change, Profile};
use baton_protocol::SessionId;
use baton_protocol::event::PermissionMode;
use baton_protocol::params::{SessionParams, SystemMessageConfig, SystemMessageMode};
use http::StatusCode;

use super::extract::{Body, Params, Place, session_id};
use super::types::{Limit, ListQuery, NewSession, SessionChange, SessionList, SessionView};
use crate::http::Shared;
use crate::http::ear::Deaf;
use crate::http::error::{ApiError, ErrorBody};
use crate::metadata;
use crate::session::{Handle, How, Joining, Mail};

/// List sessions, last changed first.
#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(ListQuery),
    responses((status = 200, description = "The sessions", body = SessionList), (status = 400, description = "The query makes no sense", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    Params(query): Params<ListQuery>,
) -> Result<Json<SessionList>, ApiError> {
    let all = door.server.store.list().await?;
    let wanted = |summary: &&baton_store::Summary| {
        query.cwd.as_ref().is_none_or(|cwd| metadata::decode(&summary.meta).context.cwd == *cwd)
    };
    let shown = all.iter().filter(wanted).take(query.limit.map_or(1000, Limit::get));
    Ok(Json(SessionList { sessions: shown.map(|s| SessionView::of(s, &door.server.owner)).collect() }))
}

/// Make a session.
#[utoipa::path(post, path = "/api/sessions", tag = "sessions", request_body = NewSession,
    responses((status = 201, description = "It is made", body = SessionView),
        (status = 400, description = "The body makes no sense", body = ErrorBody),
        (status = 409, description = "There is one of that name, or there is no such directory", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 422, description = "The body does not fit", body = ErrorBody)))]
pub(super) async fn create(
    State(door): State<Shared>,
    Body(new): Body<NewSession>,
) -> Result<(StatusCode, Json<SessionView>), ApiError> {
    let id = match &new.id {
        Some(id) => id.parse::<SessionId>().map_err(|error| ApiError::bad_request(error.to_string()))?,
        None => SessionId::random(),
    };
    if let Some(cwd) = &new.cwd
        && !crate::context::is_directory(cwd.into()).await
    {
        let message = format!("{cwd:?} is not a directory of the server's machine");
        return Err(ApiError::conflict("no_such_directory", message));
    }
    let allow_all = new.allow_all_tools;
    let joining = joining(&door, new);
    let client = joining.client;
    let (handle, _) = door.server.registry.create(&door.server, &id, joining).await?;
    handle.send(Mail::Leave(client))?;
    if allow_all {
        let change = Box::new(Change::Permissions(PermissionMode::AllowAll));
        handle.ask(|respond| Mail::Change(change, respond)).await?;
    }
    Ok((StatusCode::CREATED, Json(view(&door, &id).await?)))
}

/// An HTTP client is attached to nothing: it makes the session and is gone.
fn joining(door: &Shared, new: NewSession) -> Joining {
    let system_message = new.instructions.map(|content| SystemMessageConfig {
        mode: SystemMessageMode::Append,
        content: Some(content),
        ..SystemMessageConfig::default()
    });
    let params = SessionParams {
        model: new.model,
        reasoning_effort: new.reasoning_effort,
        working_directory: new.cwd,
        available_tools: new.available_tools,
        excluded_tools: new.excluded_tools,
        system_message,
        request_user_input: Some(new.questions),
        keep: true,
        ..passing_by()
    };
    visit(door, params, How::Made)
}

/// What every visitor of this door says.
fn passing_by() -> SessionParams {
    SessionParams { streaming: Some(true), client_name: Some("http".into()), ..SessionParams::default() }
}

fn visit(door: &Shared, params: SessionParams, how: How) -> Joining {
    Joining {
        client: door.server.new_client(),
        port: Arc::new(Deaf),
        profile: Profile::default(),
        params: Box::new(params),
        legacy: false,
        how,
    }
}

/// Go on with what a stopped server has left in the middle: waiting prompts run, requests wait for their answers again.
/// A session that is in the middle of nothing, or that goes on already, is left alone.
#[utoipa::path(post, path = "/api/sessions/{id}/resume", tag = "sessions", params(("id" = String, Path,)),
    responses((status = 200, description = "It goes on", body = SessionView),
        (status = 404, description = "There is none", body = ErrorBody),
        (status = 409, description = "Another server holds it", body = ErrorBody)))]
pub(super) async fn resume(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<Json<SessionView>, ApiError> {
    let id = session_id(&id)?;
    let handle = open(&door, &id).await?;
    let params =
        SessionParams { continue_pending_work: Some(true), disable_resume: Some(true), ..passing_by() };
    let joining = visit(&door, params, How::Resumed);
    let client = joining.client;
    handle.join(joining).await?;
    handle.send(Mail::Leave(client))?;
    Ok(Json(view(&door, &id).await?))
}

/// Show a session.
#[utoipa::path(get, path = "/api/sessions/{id}", tag = "sessions", params(("id" = String, Path,)),
    responses((status = 200, description = "The session", body = SessionView), (status = 404, description = "There is none", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<Json<SessionView>, ApiError> {
    Ok(Json(view(&door, &session_id(&id)?).await?))
}

async fn view(door: &Shared, id: &SessionId) -> Result<SessionView, ApiError> {
    let summary = door.server.store.summary(id).await?;
    let summary = summary.ok_or_else(|| ApiError::not_found(format!("Session not found: {id}")))?;
    Ok(SessionView::of(&summary, &door.server.owner))
}

/// Change a session's name, model, mode or permissions.
#[utoipa::path(patch, path = "/api/sessions/{id}", tag = "sessions", params(("id" = String, Path,)), request_body = SessionChange,
    responses((status = 200, description = "It is changed", body = SessionView),
        (status = 400, description = "The body makes no sense", body = ErrorBody),
        (status = 404, description = "There is none", body = ErrorBody),
        (status = 409, description = "Another server holds it", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 422, description = "The body does not fit", body = ErrorBody)))]
pub(super) async fn change(
    State(door): State<Shared>,
    Place(id): Place<String>,
    Body(change): Body<SessionChange>,
) -> Result<Json<SessionView>, ApiError> {
    let id = session_id(&id)?;
    let handle = open(&door, &id).await?;
    let mut changes = Vec::new();
    if let Some(name) = change.name {
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(ApiError::bad_request("the name must not be empty"));
        }
        changes.push(Change::Name { name, by_user: true });
    }
    if let Some(model) = change.model {
        changes.push(Change::Model { model, reasoning_effort: change.reasoning_effort });
    }
    changes.extend(change.mode.map(Change::Mode));
    changes.extend(change.permissions.map(Change::Permissions));
    for change in changes {
        handle.ask(|respond| Mail::Change(Box::new(change), respond)).await?;
    }
    Ok(Json(view(&door, &id).await?))
}

/// Delete a session for everybody, with its files.
#[utoipa::path(delete, path = "/api/sessions/{id}", tag = "sessions", params(("id" = String, Path,)),
    responses((status = 204, description = "It is gone"), (status = 404, description = "There is none", body = ErrorBody),
        (status = 409, description = "Another server works on it; the message names its process", body = ErrorBody),
        (status = 507, description = "The store cannot be written", body = ErrorBody)))]
pub(super) async fn delete(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&id)?;
    match door.server.delete(&id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found(format!("Session not found: {id}"))),
    }
}

/// The session, brought into memory if need be.
pub(super) async fn open(door: &Shared, id: &SessionId) -> Result<Handle, ApiError> {
    // Looked up first: opening what is not there would go through the registry for nothing.
    if door.server.registry.get(id).is_none() && door.server.store.summary(id).await?.is_none() {
        return Err(ApiError::not_found(format!("Session not found: {id}")));
    }
    Ok(door.server.registry.open(&door.server, id))
}
