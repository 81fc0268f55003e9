//! Sessions: creating, listing, changing, resuming and deleting them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use baton_ask::Configure;
use baton_core::ask::Amend;
use baton_core::{Change, Profile};
use baton_history::metadata;
use baton_protocol::event::PermissionMode;
use baton_protocol::params::{SessionParams, SystemMessageConfig, SystemMessageMode};
use baton_protocol::provider::ProviderConfig;
use baton_protocol::{Author, SessionId};
use baton_runtime::session::subscription::NoEvents;
use baton_runtime::session::{Failure, JoinKind, JoinRequest};
use baton_service::sessions::{CreateSession, DeleteSession, ListSessions, ShowSession};
use baton_service::{AskError, Caller, Operation, OperationError, Service};
use baton_settings::{OptionsEdit, SettingsEdit};
use baton_store::{StoreError, Summary};
use http::StatusCode;

use super::extract::{By, JsonBody, PathParams, QueryParams, session_id};
use super::sandbox::NewSandbox;
use super::types::{Limit, ListQuery, NewSession, SessionChange, SessionList, SessionView};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// List sessions, last changed first.
#[utoipa::path(get, path = "/api/sessions", operation_id = "listSessions", tag = "sessions", params(ListQuery),
    responses((status = 200, description = "The sessions", body = SessionList), (status = 400, description = "Malformed query", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<SessionList>, ApiError> {
    let all = door.service.perform(&caller, ListSessions).await?;
    let wanted = |summary: &&Summary| {
        query.cwd.as_ref().is_none_or(|cwd| metadata::decode(&summary.meta).context.cwd == *cwd)
    };
    let shown = all.iter().filter(wanted).take(query.limit.map_or(1000, Limit::get));
    Ok(Json(SessionList { sessions: shown.map(|s| SessionView::of(s, &door.service)).collect() }))
}

/// Create a session.
#[utoipa::path(post, path = "/api/sessions", operation_id = "createSession", tag = "sessions", request_body = NewSession,
    responses((status = 201, description = "Created", body = SessionView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 409, description = "The id is taken", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema, or the working directory does not exist", body = ErrorBody)))]
pub(super) async fn create(
    State(door): State<Shared>,
    By(caller): By,
    JsonBody(new): JsonBody<NewSession>,
) -> Result<(StatusCode, Json<SessionView>), ApiError> {
    let id = match &new.id {
        Some(id) => id.parse::<SessionId>().map_err(|error| ApiError::bad_request(error.to_string()))?,
        None => SessionId::random(),
    };
    if let Some(cwd) = &new.cwd
        && !baton_files::context::is_directory(cwd.into()).await
    {
        let message = format!("{cwd:?} is not a directory on the server's machine");
        return Err(ApiError::unprocessable("no_such_directory", message));
    }
    let allow_all = new.allow_all_tools;
    if new.sandbox.is_some() {
        caller.permit(Operation::SetSandbox).map_err(OperationError::<Failure>::from)?;
    }
    let joining = creating_client(&door.service, caller.author(), new)?;
    let client = joining.client;
    let create = CreateSession { id: id.clone(), joining, port: Arc::new(NoEvents) };
    let (session, _) = door.service.perform(&caller, create).await?;
    session.leave(client);
    if allow_all {
        let change = Change::Permissions(PermissionMode::AllowAll);
        session.ask(Amend::by(caller.author(), change)).await?;
    }
    Ok((StatusCode::CREATED, Json(view(&door, &caller, id).await?)))
}

/// Returns the client that creates a session. HTTP clients do not stay attached: this one leaves when the session exists.
fn creating_client(service: &Service, user: Author, new: NewSession) -> Result<JoinRequest, ApiError> {
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
        enable_file_change_tracking: Some(new.track_files),
        provider: new.provider.map(ProviderConfig::try_from).transpose()?,
        keep: true,
        environment: new.environment,
        sandbox: new.sandbox.map(NewSandbox::choice).transpose()?.map(Box::new),
        ..client_params()
    };
    Ok(temporary_client(service, Some(user), params, JoinKind::Create))
}

/// Returns the parameters that all clients of this door have in common.
fn client_params() -> SessionParams {
    SessionParams { streaming: Some(true), client_name: Some("http".into()), ..SessionParams::default() }
}

fn temporary_client(
    service: &Service,
    user: Option<Author>,
    params: SessionParams,
    kind: JoinKind,
) -> JoinRequest {
    JoinRequest {
        client: service.new_client(),
        profile: Profile { user, ..Profile::default() },
        params: Box::new(params),
        legacy: false,
        kind,
        returning: None,
    }
}

/// Continue the pending work that a stopped server left.
///
/// Queued prompts run, and requests can be answered. A session without such work stays as it is.
#[utoipa::path(post, path = "/api/sessions/{id}/resume", operation_id = "resumeSession", tag = "sessions", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Resumed", body = SessionView),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn resume(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionView>, ApiError> {
    let id = session_id(&id)?;
    // Again, if another server has used the session meanwhile and released it.
    match join_and_leave(&door.service, &caller, &id).await {
        Err(OperationError::Failed(Failure::Store(StoreError::Fenced(_)))) => {
            join_and_leave(&door.service, &caller, &id).await?;
        }
        joined => joined?,
    }
    Ok(Json(view(&door, &caller, id).await?))
}

/// Attaches a client that continues pending work, and detaches it again.
async fn join_and_leave(service: &Service, caller: &Caller, id: &SessionId) -> Result<(), AskError> {
    let session = service.open(caller, id).await?;
    let params =
        SessionParams { continue_pending_work: Some(true), disable_resume: Some(true), ..client_params() };
    let joining = temporary_client(service, None, params, JoinKind::Resume);
    let client = joining.client;
    let joined = session.join(joining, Arc::new(NoEvents)).await.map(drop);
    session.leave(client);
    joined
}

/// Show a session.
#[utoipa::path(get, path = "/api/sessions/{id}", operation_id = "showSession", tag = "sessions", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "The session", body = SessionView), (status = 404, description = "No such session", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionView>, ApiError> {
    Ok(Json(view(&door, &caller, session_id(&id)?).await?))
}

/// Shows a session as it is now.
pub(super) async fn view(door: &Shared, caller: &Caller, id: SessionId) -> Result<SessionView, ApiError> {
    let summary = door.service.perform(caller, ShowSession { id }).await?;
    Ok(SessionView::of(&summary, &door.service))
}

/// Change a session's name, model, provider, mode or permissions.
#[utoipa::path(patch, path = "/api/sessions/{id}", operation_id = "changeSession", tag = "sessions", params(("id" = String, Path, description = "Session id")), request_body = SessionChange,
    responses((status = 200, description = "Changed", body = SessionView),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn change(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(change): JsonBody<SessionChange>,
) -> Result<Json<SessionView>, ApiError> {
    let id = session_id(&id)?;
    door.service.open(&caller, &id).await?;
    let mut changes = Vec::new();
    if let Some(name) = change.name {
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(ApiError::bad_request("the name is empty"));
        }
        changes.push(Change::Name { name, by_user: true });
    }
    let provider = change.provider.map(ProviderConfig::try_from).transpose()?;
    if let Some(model) = change.model {
        changes.push(Change::Model { model, reasoning_effort: change.reasoning_effort });
    }
    changes.extend(change.mode.map(Change::Mode));
    changes.extend(change.permissions.map(Change::Permissions));
    if provider.is_some() || change.environment.is_some() {
        let provider = provider.map(|provider| (door.service.new_client(), provider));
        let options = OptionsEdit { provider, environment: change.environment, ..OptionsEdit::default() };
        let edit = SettingsEdit::Options(Box::new(options));
        door.service.ask(&caller, &id, Configure { edit: Box::new(edit) }).await?;
    }
    for change in changes {
        door.service.ask(&caller, &id, Amend::by(caller.author(), change)).await?;
    }
    Ok(Json(view(&door, &caller, id).await?))
}

/// Delete a session and its files.
#[utoipa::path(delete, path = "/api/sessions/{id}", operation_id = "deleteSession", tag = "sessions", params(("id" = String, Path, description = "Session id")),
    responses((status = 204, description = "Deleted"), (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server uses the session; the message names its process", body = ErrorBody),
        (status = 507, description = "The store cannot be written", body = ErrorBody)))]
pub(super) async fn delete(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&id)?;
    match door.service.perform(&caller, DeleteSession { id: id.clone() }).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::session_not_found(id)),
    }
}
