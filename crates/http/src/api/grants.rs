//! Grants of sessions and locations: listing and revoking them.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use baton_core::Change;
use baton_core::ask::Amend;
use baton_protocol::EventId;
use baton_protocol::rules::{Rule, RuleListEdit};
use http::StatusCode;

use super::extract::{Caller, PathParams, QueryParams, session_id};
use super::sessions::{ask, find, open};
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
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionGrants>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
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
    caller: Caller,
    PathParams((id, grant)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = session_id(&id)?;
    let Ok(id) = grant.parse().map(EventId) else {
        find(&door, &session).await?;
        return Err(no_such_grant(&grant));
    };
    let change = Change::Revoke { grant: Some(id), by: caller.author() };
    match ask(&door, &session, Amend::by(caller.author(), change)).await? {
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
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let session = session_id(&id)?;
    let edit = Box::new(baton_protocol::rules::RulesEdit {
        approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
        location: Some(None),
        ..Default::default()
    });
    let rules = Change::Rules { edit, by: caller.author() };
    ask(&door, &session, Amend::by(caller.author(), rules)).await?;
    let grants = Change::Revoke { grant: None, by: caller.author() };
    ask(&door, &session, Amend::by(caller.author(), grants)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the grants of all locations.
#[utoipa::path(get, path = "/api/locations", operation_id = "listLocations", tag = "grants",
    responses((status = 200, description = "Grants", body = LocationList)))]
pub(super) async fn locations(State(door): State<Shared>) -> Result<Json<LocationList>, ApiError> {
    let all = door.runtime.locations.all().await.map_err(ApiError::internal)?;
    let view = |grant: baton_files::locations::LocationGrant| LocationGrantView {
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
    caller: Caller,
    QueryParams(query): QueryParams<RevokeQuery>,
) -> Result<StatusCode, ApiError> {
    let locations = &door.runtime.locations;
    let stored = locations.rules(&query.location).await.map_err(ApiError::internal)?;
    let is_selected = |rule: &Rule| {
        query.kind.is_none_or(|kind| kind == rule.kind)
            && (query.argument.is_none() || query.argument == rule.argument)
    };
    let remove: Vec<Rule> = stored.into_iter().filter(is_selected).collect();
    if remove.is_empty() {
        let location = PathBuf::from(&query.location);
        return Err(ApiError::not_found(format!("no such grant for location {}", location.display())));
    }
    let edit = RuleListEdit { remove, ..RuleListEdit::default() };
    locations.edit(query.location, edit, caller.author()).await.map_err(ApiError::internal)?;
    Ok(StatusCode::NO_CONTENT)
}

fn no_such_grant(grant: &str) -> ApiError {
    ApiError::not_found(format!("no such grant in this session: {grant}"))
}
