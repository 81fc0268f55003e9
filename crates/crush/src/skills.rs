//! Skills of a workspace, as crush's client lists them and puts them into prompts.

use axum::Json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_addons::skills::overview::SkillOverview;
use baton_service::skills::{ListSkills, ShowSkill};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{CrushError, CrushResult};
use super::extract::{JsonBody, WorkspaceScope};
use super::workspace::Workspace;

/// States of a skill, by the numbers of the client.
const USABLE: u8 = 0;
const UNUSABLE: u8 = 1;

impl Workspace {
    /// Returns the skills that sessions in the workspace use, and what is wrong about others.
    async fn skills(&self) -> (Vec<SkillOverview>, Vec<String>) {
        let list = ListSkills { cwd: Some(self.settings.path.clone().into()) };
        match self.service.perform(&self.caller, list).await {
            Ok(found) => (found.skills.into_iter().filter(|skill| skill.enabled).collect(), found.problems),
            Err(error) => (Vec::new(), vec![error.to_string()]),
        }
    }

    /// Returns the states of all skills, for the sidebar.
    pub(super) async fn skill_states(&self) -> Value {
        let (skills, problems) = self.skills().await;
        let usable =
            skills.iter().map(|skill| json!({ "name": skill.name, "path": skill.path, "state": USABLE }));
        let unusable =
            problems.iter().map(|why| json!({ "name": why, "path": "", "state": UNUSABLE, "error": why }));
        usable.chain(unusable).collect()
    }
}

/// Returns where a skill comes from, in the words of the client.
fn source(skill: &SkillOverview) -> &'static str {
    match skill.source.as_str() {
        "project" | "inherited" => "project",
        "plugin" => "system",
        _ => "user",
    }
}

pub(super) async fn list(scope: WorkspaceScope) -> Json<Value> {
    let (skills, _) = scope.workspace.skills().await;
    let listed = skills.iter().map(|skill| {
        json!({
            "id": skill.name,
            "name": skill.name,
            "description": skill.description,
            "label": format!("{}:{}", source(skill), skill.name),
            "source": source(skill),
            "user_invocable": skill.user_invocable,
        })
    });
    Json(listed.collect())
}

#[derive(Deserialize)]
pub(super) struct Wanted {
    skill_id: String,
}

pub(super) async fn read(
    scope: WorkspaceScope,
    JsonBody(wanted): JsonBody<Wanted>,
) -> CrushResult<Json<Value>> {
    let workspace = &scope.workspace;
    let cwd = Some(workspace.settings.path.clone().into());
    let show = ShowSkill { cwd, name: wanted.skill_id.clone() };
    let found = workspace.service.perform(&scope.caller, show).await;
    let found = found.map_err(|error| error.map(CrushError::conflict))?.filter(|(skill, _)| skill.enabled);
    let unknown = || CrushError::not_found(format!("no such skill: {:?}", wanted.skill_id));
    let (skill, text) = found.ok_or_else(unknown)?;
    let result = json!({
        "name": skill.name,
        "description": skill.description,
        "source": source(&skill),
        "builtin": false,
    });
    Ok(Json(json!({ "content": STANDARD.encode(text), "result": result })))
}
