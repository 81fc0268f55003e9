//! Skills and agents of projects and of the user, without a session.

use std::path::PathBuf;

use baton_agent::blocking;
use baton_skills::{AgentPlace, Severity, SkillPlaces, agent_places, scan_agents, skill_places};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DISABLED, described, disabled, scan_all, user_home};
use crate::Addons;

/// Where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Discovery {
    /// Directories of projects.
    pub project_paths: Option<Vec<String>>,
    /// Directories whose subdirectories are skills.
    pub skill_directories: Option<Vec<String>>,
    /// Whether to leave out what belongs to the user of this server.
    #[serde(alias = "excludeHostSkills", alias = "excludeHostAgents", alias = "excludeHostInstructions")]
    pub exclude_host: Option<bool>,
}

impl Discovery {
    /// Returns the projects. A project is looked at by itself, without the directories above it.
    #[must_use]
    pub fn projects(&self, addons: &Addons) -> Vec<PathBuf> {
        self.project_paths.iter().flatten().map(|path| addons.options.cwd.join(path)).collect()
    }

    /// Whether what belongs to the user of this server is looked for, too.
    #[must_use]
    pub fn includes_host(&self) -> bool {
        self.exclude_host != Some(true)
    }

    fn places(&self, addons: &Addons) -> SkillPlaces {
        let options = &addons.options;
        let host = self.includes_host();
        SkillPlaces {
            custom: self.skill_directories.iter().flatten().map(|path| options.cwd.join(path)).collect(),
            projects: self.projects(addons).into_iter().map(|project| (project, None)).collect(),
            home: host.then(|| options.home.clone()),
            user: user_home(options).filter(|_| host),
        }
    }
}

/// Finds skills.
///
/// # Errors
/// When a file system does not respond.
pub async fn discover(addons: &Addons, discovery: &Discovery) -> Result<Value, String> {
    let places = discovery.places(addons);
    let found = blocking::run(move || scan_all(&places)).await.map_err(|error| error.to_string())?;
    let disabled = disabled(addons).await;
    let skills: Vec<Value> =
        found.skills.iter().map(|skill| described(skill, !disabled.contains(&skill.name))).collect();
    // Paths of this machine are not for callers that must not see it.
    let errors: Vec<String> = match discovery.includes_host() {
        false => Vec::new(),
        true => found
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(ToString::to_string)
            .collect(),
    };
    Ok(json!({ "skills": skills, "errors": errors }))
}

/// Lists the directories in which skills are looked for, whether they exist or not.
#[must_use]
pub fn discovery_paths(addons: &Addons, discovery: &Discovery) -> Value {
    let path = |place: &baton_skills::SearchedDirectory| {
        let mut path = json!({
            "path": place.path,
            "scope": place.origin.source,
            "preferredForCreation": place.is_preferred,
        });
        if let Some(project) = &place.origin.project {
            path["projectPath"] = json!(project);
        }
        path
    };
    let places = skill_places(&discovery.places(addons));
    json!({ "paths": places.iter().map(path).collect::<Vec<_>>() })
}

fn places_of_agents(addons: &Addons, discovery: &Discovery) -> Vec<AgentPlace> {
    let home = discovery.includes_host().then_some(addons.options.home.as_path());
    agent_places(&discovery.projects(addons), home)
}

/// Finds agents in files.
///
/// # Errors
/// When a file system does not respond.
pub async fn discover_agents(addons: &Addons, discovery: &Discovery) -> Result<Value, String> {
    let places = places_of_agents(addons, discovery);
    let find = move || {
        let mut agents = Vec::new();
        for place in places {
            let source = if place.project.is_some() { "project" } else { "user" };
            for found in scan_agents(&place.path, None).0 {
                agents.push(json!({
                    "id": found.path,
                    "name": found.agent.name,
                    "displayName": found.agent.display(),
                    "description": found.agent.description.clone().unwrap_or_default(),
                    "path": found.path,
                    "source": source,
                    "userInvocable": found.user_invocable,
                    "tools": found.agent.tools,
                    "model": found.agent.model,
                    "skills": found.agent.skills,
                }));
            }
        }
        agents
    };
    let mut agents = blocking::run(find).await.map_err(|error| error.to_string())?;
    for agent in agents.iter_mut().filter_map(Value::as_object_mut) {
        agent.retain(|_, value| !value.is_null());
    }
    Ok(json!({ "agents": agents }))
}

/// Lists the directories in which agents are looked for, whether they exist or not.
#[must_use]
pub fn agent_discovery_paths(addons: &Addons, discovery: &Discovery) -> Value {
    let path = |place: &AgentPlace| {
        let scope = if place.project.is_some() { "project" } else { "user" };
        let mut path =
            json!({ "path": place.path, "scope": scope, "preferredForCreation": place.is_preferred });
        if let Some(project) = &place.project {
            path["projectPath"] = json!(project);
        }
        path
    };
    json!({ "paths": places_of_agents(addons, discovery).iter().map(path).collect::<Vec<_>>() })
}

/// Replaces the list of skills that no session uses.
///
/// # Errors
/// When the user's settings cannot be written.
pub async fn set_disabled(addons: &Addons, names: Vec<String>) -> Result<(), String> {
    let value = if names.is_empty() { Value::Null } else { json!(names) };
    addons.options.preferences.set([(DISABLED.to_owned(), value)].into_iter().collect()).await
}

/// Adds a skill to the list of skills that no session uses, or removes it.
///
/// # Errors
/// When the user's settings cannot be read or written.
pub async fn set_skill_disabled(addons: &Addons, name: String, is_disabled: bool) -> Result<(), String> {
    let mut names = disabled(addons).await;
    if is_disabled {
        names.insert(name);
    } else {
        names.remove(&name);
    }
    set_disabled(addons, names.into_iter().collect()).await
}
