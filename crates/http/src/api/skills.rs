//! Skills: those of a session, and those that sessions in a directory use.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use baton_addons::skills::{check_name, overview, set_skill_disabled};
use baton_ask::Ask;
use baton_ask::skills::{DescribeSkill, DisableSkill, EnableSkill, ListSkills, ReloadSkills};
use baton_runtime::session::Handle;
use http::StatusCode;

use super::extract::{PathParams, QueryParams, session_id};
use super::sessions::open;
use super::types::{SkillList, SkillView, SkillsQuery};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

async fn listed(handle: &Handle) -> Result<SkillList, ApiError> {
    Ok(handle.ask(ListSkills {}).await?.into())
}

/// Refuses a skill that a session does not have.
async fn check(handle: &Handle, skill: &str) -> Result<(), ApiError> {
    let known = listed(handle).await?.skills.into_iter().any(|known| known.name == skill);
    if known { Ok(()) } else { Err(no_such_skill(skill)) }
}

fn no_such_skill(skill: &str) -> ApiError {
    ApiError::not_found(format!("no such skill: {skill}"))
}

/// List the skills of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/skills", operation_id = "listSessionSkills", tag = "skills",
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Skills, and those that cannot be used", body = SkillList),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    PathParams(id): PathParams<String>,
) -> Result<Json<SkillList>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    Ok(Json(listed(&handle).await?))
}

/// Look for the skills of a session again.
#[utoipa::path(post, path = "/api/sessions/{id}/skills", operation_id = "reloadSessionSkills", tag = "skills",
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Skills, and those that cannot be used", body = SkillList),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn reload(
    State(door): State<Shared>,
    PathParams(id): PathParams<String>,
) -> Result<Json<SkillList>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    handle.ask(ReloadSkills {}).await?;
    Ok(Json(listed(&handle).await?))
}

/// Show a skill of a session, with its text.
#[utoipa::path(get, path = "/api/sessions/{id}/skills/{skill}", operation_id = "showSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 200, description = "The skill", body = SkillView),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<Json<SkillView>, ApiError> {
    let handle = open(&door, &session_id(&id)?).await?;
    check(&handle, &skill).await?;
    Ok(Json(handle.ask(DescribeSkill { name: skill }).await?.into()))
}

/// Use a skill in a session again.
#[utoipa::path(post, path = "/api/sessions/{id}/skills/{skill}/enable", operation_id = "enableSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Enabled"),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn enable(
    State(door): State<Shared>,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    change(&door, &id, &skill, EnableSkill { name: skill.clone() }).await
}

/// Stop using a skill in a session.
#[utoipa::path(post, path = "/api/sessions/{id}/skills/{skill}/disable", operation_id = "disableSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Disabled"),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn disable(
    State(door): State<Shared>,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    change(&door, &id, &skill, DisableSkill { name: skill.clone() }).await
}

async fn change<A: Ask<Reply = ()>>(
    door: &Shared,
    id: &str,
    skill: &str,
    switch: A,
) -> Result<StatusCode, ApiError> {
    let handle = open(door, &session_id(id)?).await?;
    check(&handle, skill).await?;
    handle.ask(switch).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn directory(query: &SkillsQuery) -> Result<Option<&Path>, ApiError> {
    let cwd = query.cwd.as_deref().map(Path::new);
    match cwd.is_some_and(|cwd| !cwd.is_absolute()) {
        true => Err(ApiError::bad_request("cwd must be an absolute path")),
        false => Ok(cwd),
    }
}

/// List the skills that sessions in a directory use.
#[utoipa::path(get, path = "/api/skills", operation_id = "listSkills", tag = "skills", params(SkillsQuery),
    responses((status = 200, description = "Skills, and those that cannot be used", body = SkillList),
        (status = 400, description = "Malformed query", body = ErrorBody)))]
pub(super) async fn catalogue(
    State(door): State<Shared>,
    QueryParams(query): QueryParams<SkillsQuery>,
) -> Result<Json<SkillList>, ApiError> {
    let found =
        overview::overview(&door.runtime.addons, directory(&query)?).await.map_err(ApiError::internal)?;
    let skills = found.skills.into_iter().map(SkillView::from).collect();
    Ok(Json(SkillList { skills, problems: found.problems }))
}

/// Show a skill that sessions in a directory use, with its text.
#[utoipa::path(get, path = "/api/skills/{skill}", operation_id = "showSkill", tag = "skills",
    params(("skill" = String, Path, description = "Name of the skill"), SkillsQuery),
    responses((status = 200, description = "The skill", body = SkillView),
        (status = 400, description = "Malformed query", body = ErrorBody),
        (status = 404, description = "No such skill", body = ErrorBody)))]
pub(super) async fn read(
    State(door): State<Shared>,
    PathParams(skill): PathParams<String>,
    QueryParams(query): QueryParams<SkillsQuery>,
) -> Result<Json<SkillView>, ApiError> {
    let found =
        overview::read(&door.runtime.addons, directory(&query)?, &skill).await.map_err(ApiError::internal)?;
    let (overview, text) = found.ok_or_else(|| no_such_skill(&skill))?;
    Ok(Json(SkillView { content: Some(text), ..overview.into() }))
}

/// Use a skill in new sessions again.
#[utoipa::path(post, path = "/api/skills/{skill}/enable", operation_id = "enableSkill", tag = "skills",
    params(("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Enabled"), (status = 422, description = "Not a name of a skill", body = ErrorBody)))]
pub(super) async fn enable_for_all(
    State(door): State<Shared>,
    PathParams(skill): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    turn(&door, skill, true).await
}

/// Use a skill in no new session. The skill may be one of a project that the server does not know yet.
#[utoipa::path(post, path = "/api/skills/{skill}/disable", operation_id = "disableSkill", tag = "skills",
    params(("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Disabled"), (status = 422, description = "Not a name of a skill", body = ErrorBody)))]
pub(super) async fn disable_for_all(
    State(door): State<Shared>,
    PathParams(skill): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    turn(&door, skill, false).await
}

async fn turn(door: &Shared, skill: String, enabled: bool) -> Result<StatusCode, ApiError> {
    // Skills of any directory can be turned off, so the name need not be known.
    let refused = |why| ApiError::unprocessable("invalid_name", format!("{skill:?} is not a skill: {why}"));
    check_name(&skill).map_err(refused)?;
    set_skill_disabled(&door.runtime.addons, skill, !enabled).await.map_err(ApiError::internal)?;
    Ok(StatusCode::NO_CONTENT)
}
