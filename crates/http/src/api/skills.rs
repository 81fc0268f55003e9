//! Skills: those of a session, and those that sessions in a directory use.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use baton_ask::skills::{DescribeSkill, DisableSkill, EnableSkill, ListSkills, ReloadSkills};
use baton_service::{ClientAsk, LiveSession, skills};
use http::StatusCode;

use super::extract::{By, PathParams, QueryParams, session_id};
use super::types::{SkillList, SkillView, SkillsQuery};
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

async fn listed(session: &LiveSession) -> Result<SkillList, ApiError> {
    Ok(session.ask(ListSkills {}).await?.into())
}

/// Refuses a skill that a session does not have.
async fn check(session: &LiveSession, skill: &str) -> Result<(), ApiError> {
    let known = listed(session).await?.skills.into_iter().any(|known| known.name == skill);
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
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SkillList>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    Ok(Json(listed(&session).await?))
}

/// Look for the skills of a session again.
#[utoipa::path(post, path = "/api/sessions/{id}/skills", operation_id = "reloadSessionSkills", tag = "skills",
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "Skills, and those that cannot be used", body = SkillList),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn reload(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<SkillList>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    session.ask(ReloadSkills {}).await?;
    Ok(Json(listed(&session).await?))
}

/// Show a skill of a session, with its text.
#[utoipa::path(get, path = "/api/sessions/{id}/skills/{skill}", operation_id = "showSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 200, description = "The skill", body = SkillView),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<Json<SkillView>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    check(&session, &skill).await?;
    Ok(Json(session.ask(DescribeSkill { name: skill }).await?.into()))
}

/// Use a skill in a session again.
#[utoipa::path(post, path = "/api/sessions/{id}/skills/{skill}/enable", operation_id = "enableSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Enabled"),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn enable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    change(&door.service.open(&caller, &session_id(&id)?).await?, &skill, EnableSkill { name: skill.clone() })
        .await
}

/// Stop using a skill in a session.
#[utoipa::path(post, path = "/api/sessions/{id}/skills/{skill}/disable", operation_id = "disableSessionSkill", tag = "skills",
    params(("id" = String, Path, description = "Session id"), ("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Disabled"),
        (status = 404, description = "No such session or skill", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn disable(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, skill)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    change(
        &door.service.open(&caller, &session_id(&id)?).await?,
        &skill,
        DisableSkill { name: skill.clone() },
    )
    .await
}

async fn change<A: ClientAsk<Reply = ()>>(
    session: &LiveSession,
    skill: &str,
    switch: A,
) -> Result<StatusCode, ApiError> {
    check(session, skill).await?;
    session.ask(switch).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn directory(query: SkillsQuery) -> Result<Option<PathBuf>, ApiError> {
    let cwd = query.cwd.map(PathBuf::from);
    match cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
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
    By(caller): By,
    QueryParams(query): QueryParams<SkillsQuery>,
) -> Result<Json<SkillList>, ApiError> {
    let list = skills::ListSkills { cwd: directory(query)? };
    let found = door.service.perform(&caller, list).await?;
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
    By(caller): By,
    PathParams(skill): PathParams<String>,
    QueryParams(query): QueryParams<SkillsQuery>,
) -> Result<Json<SkillView>, ApiError> {
    let show = skills::ShowSkill { cwd: directory(query)?, name: skill.clone() };
    let found = door.service.perform(&caller, show).await?;
    let (overview, text) = found.ok_or_else(|| no_such_skill(&skill))?;
    Ok(Json(SkillView { content: Some(text), ..overview.into() }))
}

/// Use a skill in new sessions again.
#[utoipa::path(post, path = "/api/skills/{skill}/enable", operation_id = "enableSkill", tag = "skills",
    params(("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Enabled"), (status = 422, description = "Not a name of a skill", body = ErrorBody)))]
pub(super) async fn enable_for_all(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(skill): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, skills::EnableSkill { name: skill }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Use a skill in no new session. The skill may be one of a project that the server does not know yet.
#[utoipa::path(post, path = "/api/skills/{skill}/disable", operation_id = "disableSkill", tag = "skills",
    params(("skill" = String, Path, description = "Name of the skill")),
    responses((status = 204, description = "Disabled"), (status = 422, description = "Not a name of a skill", body = ErrorBody)))]
pub(super) async fn disable_for_all(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(skill): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, skills::DisableSkill { name: skill }).await?;
    Ok(StatusCode::NO_CONTENT)
}
