//! Grants of sessions and locations: listing and revoking them.

use axum::Json;
use axum::extract::State;
use baton_core::Change;
use baton_core::ask::Amend;
use baton_files::locations::LocationGrant;
use baton_protocol::EventId;
use baton_service::grants::{ListLocations, RevokeAllGrants, RevokeLocationGrants};
use http::StatusCode;

use super::extract::{By, PathParams, QueryParams, session_id};
use super::types::{GrantView, LocationGrantView, LocationList, LocationView, RevokeQuery, SessionGrants};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// List the grants and rules of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/grants", operation_id = "listGrants", tag = "grants", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Grants and rules", body = SessionGrants),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionGrants>, ApiError> {
    let handle = door.service.open(&caller, &session_id(&id)?).await?;
    let durable = handle.inspect().await?.session.durable;
    let grants = durable.grants.iter().map(|grant| GrantView {
        id: grant.id.map(|id| id.to_string()),
        grant: grant.approval.clone(),
        by: grant.by.as_ref().map(ToString::to_string),
        at: grant.at,
    });
    Ok(Json(SessionGrants { grants: grants.collect(), rules: (*durable.rules).clone() }))
}

/// Revoke a grant of a session.
#[utoipa::path(delete, path = "/api/sessions/{id}/grants/{grant}", operation_id = "revokeGrant", tag = "grants",
    params(("id" = String, Path, description = "Session id"), ("grant" = String, Path, description = "Grant id")),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "No such session or grant", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn revoke(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, grant)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = session_id(&id)?;
    let Ok(id) = grant.parse().map(EventId) else {
        door.service.open(&caller, &session).await?;
        return Err(no_such_grant(&grant));
    };
    let change = Change::Revoke { grant: Some(id), by: caller.author() };
    match door.service.ask(&caller, &session, Amend::by(caller.author(), change)).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(no_such_grant(&grant)),
    }
}

/// Revoke all grants and allow rules of a session.
///
/// Deny rules stay.
#[utoipa::path(delete, path = "/api/sessions/{id}/grants", operation_id = "revokeAllGrants", tag = "grants", params(("id" = String, Path, description = "Session id")),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn revoke_all(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, RevokeAllGrants { session: session_id(&id)? }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the grants of all locations.
#[utoipa::path(get, path = "/api/locations", operation_id = "listLocations", tag = "grants",
    responses((status = 200, description = "Grants", body = LocationList)))]
pub(super) async fn locations(
    State(door): State<Shared>,
    By(caller): By,
) -> Result<Json<LocationList>, ApiError> {
    let all = door.service.perform(&caller, ListLocations).await?;
    let view = |grant: LocationGrant| LocationGrantView {
        kind: grant.rule.kind,
        argument: grant.rule.argument,
        by: grant.by.map(|by| by.to_string()),
        at: grant.at,
    };
    let locations = all
        .into_iter()
        .map(|(location, grants)| LocationView { location, grants: grants.into_iter().map(view).collect() })
        .collect();
    Ok(Json(LocationList { locations }))
}

/// Revoke grants of a location.
///
/// Sessions that have applied the location's grants keep them until they apply them again.
#[utoipa::path(delete, path = "/api/locations", operation_id = "revokeLocationGrants", tag = "grants", params(RevokeQuery),
    responses((status = 204, description = "Revoked"),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such grant", body = ErrorBody)))]
pub(super) async fn revoke_at_location(
    State(door): State<Shared>,
    By(caller): By,
    QueryParams(query): QueryParams<RevokeQuery>,
) -> Result<StatusCode, ApiError> {
    let RevokeQuery { location, kind, argument } = query;
    door.service.perform(&caller, RevokeLocationGrants { location, kind, argument }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn no_such_grant(grant: &str) -> ApiError {
    ApiError::not_found(format!("no such grant in this session: {grant}"))
}
