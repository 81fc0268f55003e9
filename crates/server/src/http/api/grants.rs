//! Grants as resources: what a session or a location allows without asking, who allowed it, and how to revoke it.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use baton_core::{Change, Reply};
use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleListEdit, Rules};
use baton_protocol::{Author, EventId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Params, Place, session_id};
use super::sessions::open;
use super::types::{GrantName, RuleKindName};
use crate::http::Shared;
use crate::http::error::{ApiError, ErrorBody};
use crate::session::Mail;

/// What a session allows and denies without asking.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionGrants {
    pub(super) grants: Vec<GrantView>,
    /// The standing rules that clients set: `approved`, `denied`, directories, pages.
    #[schema(value_type = Object)]
    pub(super) rules: Rules,
}

/// A grant of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GrantView {
    /// To revoke it by.
    pub(super) id: Option<String>,
    /// What is granted.
    #[schema(value_type = GrantName)]
    pub(super) grant: Approval,
    /// Who gave it.
    pub(super) by: Option<String>,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) at: Option<Timestamp>,
}

/// List the grants and rules of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/grants", tag = "grants", params(("id" = String, Path,)),
    responses((status = 200, description = "The grants and rules", body = SessionGrants),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<Json<SessionGrants>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    let held = handle.look(|view| {
        let durable = &view.session.durable;
        let grants = durable.grants.iter().map(|grant| GrantView {
            id: grant.id.map(|id| id.to_string()),
            grant: grant.approval.clone(),
            by: grant.by.as_ref().map(ToString::to_string),
            at: grant.at,
        });
        SessionGrants { grants: grants.collect(), rules: (*durable.rules).clone() }
    });
    Ok(Json(held.await?))
}

/// Revoke a grant of a session.
#[utoipa::path(delete, path = "/api/sessions/{id}/grants/{grant}", tag = "grants",
    params(("id" = String, Path,), ("grant" = String, Path,)),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "There is no such session or grant", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody)))]
pub(super) async fn revoke(
    State(door): State<Shared>,
    Place((id, grant)): Place<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    let Ok(id) = grant.parse().map(EventId) else { return Err(no_such_grant(&grant)) };
    let change = Change::Revoke { grant: Some(id), by: Author::http() };
    match handle.ask(|respond| Mail::Change(Box::new(change), respond)).await? {
        Reply::Done(Some(_)) => Ok(StatusCode::NO_CONTENT),
        _ => Err(no_such_grant(&grant)),
    }
}

/// Revoke all grants and allow rules of a session. Deny rules stay.
#[utoipa::path(delete, path = "/api/sessions/{id}/grants", tag = "grants", params(("id" = String, Path,)),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "There is no such session", body = ErrorBody),
        (status = 409, description = "Another server holds the session", body = ErrorBody)))]
pub(super) async fn revoke_all(
    State(door): State<Shared>,
    Place(id): Place<String>,
) -> Result<StatusCode, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    let edit = Box::new(baton_protocol::rules::RulesEdit {
        approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
        location: Some(None),
        ..Default::default()
    });
    let rules = Change::Rules { edit, by: Author::http() };
    handle.ask(|respond| Mail::Change(Box::new(rules), respond)).await?;
    let grants = Change::Revoke { grant: None, by: Author::http() };
    handle.ask(|respond| Mail::Change(Box::new(grants), respond)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The grants of all locations.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LocationList {
    pub(super) locations: Vec<LocationView>,
}

/// The grants of a location.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LocationView {
    /// The root of a repository, or a directory.
    pub(super) location: String,
    pub(super) grants: Vec<LocationGrantView>,
}

/// A grant that every session of its location can apply.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LocationGrantView {
    #[schema(value_type = RuleKindName)]
    pub(super) kind: baton_protocol::rules::RuleKind,
    /// What it is about; none means everything of its kind.
    pub(super) argument: Option<String>,
    /// Who gave it.
    pub(super) by: Option<String>,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) at: Option<Timestamp>,
}

/// List the grants that are stored for locations.
#[utoipa::path(get, path = "/api/locations", tag = "grants",
    responses((status = 200, description = "The grants", body = LocationList)))]
pub(super) async fn locations(State(door): State<Shared>) -> Result<Json<LocationList>, ApiError> {
    let all = door.server.locations.all().await.map_err(ApiError::internal)?;
    let view = |grant: crate::locations::LocationGrant| LocationGrantView {
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

/// Which grants of a location to revoke.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RevokeQuery {
    /// The location, as it is listed.
    pub(super) location: String,
    /// Only grants of this kind.
    #[param(value_type = Option<RuleKindName>)]
    pub(super) kind: Option<baton_protocol::rules::RuleKind>,
    /// Only the one about this; needs `kind`.
    pub(super) argument: Option<String>,
}

/// Revoke grants of a location. Sessions that have applied it keep them until they apply it again.
#[utoipa::path(delete, path = "/api/locations", tag = "grants", params(RevokeQuery),
    responses((status = 204, description = "Revoked"),
        (status = 400, description = "The query does not fit", body = ErrorBody),
        (status = 404, description = "There is no such grant", body = ErrorBody)))]
pub(super) async fn revoke_at_location(
    State(door): State<Shared>,
    Params(query): Params<RevokeQuery>,
) -> Result<StatusCode, ApiError> {
    let locations = &door.server.locations;
    let held = locations.rules(&query.location).await.map_err(ApiError::internal)?;
    let meant = |rule: &Rule| {
        query.kind.is_none_or(|kind| kind == rule.kind)
            && (query.argument.is_none() || query.argument == rule.argument)
    };
    let remove: Vec<Rule> = held.into_iter().filter(meant).collect();
    if remove.is_empty() {
        let location = PathBuf::from(&query.location);
        return Err(ApiError::not_found(format!("no such grant is stored for {}", location.display())));
    }
    let edit = RuleListEdit { remove, ..RuleListEdit::default() };
    locations.edit(query.location, edit, Author::http()).await.map_err(ApiError::internal)?;
    Ok(StatusCode::NO_CONTENT)
}

fn no_such_grant(grant: &str) -> ApiError {
    ApiError::not_found(format!("this session has no grant {grant}"))
}
