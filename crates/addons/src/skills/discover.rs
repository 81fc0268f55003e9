//! Skills and agents of projects and of the user, without a session.

use std::path::PathBuf;

use baton_ask::skills::SkillEntry;
use baton_disk::blocking;
use baton_skills::{AgentPlace, Severity, SkillPlaces, agent_places, scan_agents, skill_places};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DISABLED, DisabledSkills, described, disabled, scan_all, user_home};
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

/// Skills that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiscoveredSkills {
    /// The skills, used or not.
    pub skills: Vec<SkillEntry>,
    /// Why others cannot be used.
    pub errors: Vec<String>,
}

/// Agents that were found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiscoveredAgents {
    /// The agents.
    pub agents: Vec<DiscoveredAgent>,
}

/// An agent of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredAgent {
    /// Its id: its file.
    pub id: PathBuf,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// When to use it.
    pub description: String,
    /// Its file.
    pub path: PathBuf,
    /// `project` or `user`.
    pub source: &'static str,
    /// Whether users can select it.
    pub user_invocable: bool,
    /// Tools that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Skills in its prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
}

/// Directories in which something is looked for, whether they exist or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiscoveryPaths {
    /// The directories.
    pub paths: Vec<DiscoveryPath>,
}

/// A directory in which something is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryPath {
    /// The directory.
    pub path: PathBuf,
    /// Where its files come from.
    pub scope: &'static str,
    /// Whether new files belong here.
    pub preferred_for_creation: bool,
    /// The project that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<PathBuf>,
}

/// Finds skills.
///
/// # Errors
/// When a file system does not respond.
pub async fn discover(addons: &Addons, discovery: &Discovery) -> Result<DiscoveredSkills, String> {
    let places = discovery.places(addons);
    let mut found = blocking::run(move || scan_all(&places)).await.map_err(|error| error.to_string())?;
    let (disabled, unreadable) = DisabledSkills::read(addons).await;
    found.problems.extend(unreadable);
    let skills =
        found.skills.iter().map(|skill| described(skill, !disabled.may_contain(&skill.name))).collect();
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
    Ok(DiscoveredSkills { skills, errors })
}

/// Lists the directories in which skills are looked for, whether they exist or not.
#[must_use]
pub fn discovery_paths(addons: &Addons, discovery: &Discovery) -> DiscoveryPaths {
    let path = |place: baton_skills::SearchedDirectory| DiscoveryPath {
        path: place.path,
        scope: place.origin.source.as_str(),
        preferred_for_creation: place.is_preferred,
        project_path: place.origin.project,
    };
    DiscoveryPaths { paths: skill_places(&discovery.places(addons)).into_iter().map(path).collect() }
}

fn places_of_agents(addons: &Addons, discovery: &Discovery) -> Vec<AgentPlace> {
    let home = discovery.includes_host().then_some(addons.options.home.as_path());
    agent_places(&discovery.projects(addons), home)
}

/// Finds agents in files.
///
/// # Errors
/// When a file system does not respond.
pub async fn discover_agents(addons: &Addons, discovery: &Discovery) -> Result<DiscoveredAgents, String> {
    let places = places_of_agents(addons, discovery);
    let find = move || {
        let mut agents = Vec::new();
        for place in places {
            let source = if place.project.is_some() { "project" } else { "user" };
            for found in scan_agents(&place.path, None).0 {
                agents.push(DiscoveredAgent {
                    id: found.path.clone(),
                    name: found.agent.name.clone(),
                    display_name: found.agent.display().to_owned(),
                    description: found.agent.description.clone().unwrap_or_default(),
                    path: found.path,
                    source,
                    user_invocable: found.user_invocable,
                    tools: found.agent.tools,
                    model: found.agent.model,
                    skills: found.agent.skills,
                });
            }
        }
        agents
    };
    let agents = blocking::run(find).await.map_err(|error| error.to_string())?;
    Ok(DiscoveredAgents { agents })
}

/// Lists the directories in which agents are looked for, whether they exist or not.
#[must_use]
pub fn agent_discovery_paths(addons: &Addons, discovery: &Discovery) -> DiscoveryPaths {
    let path = |place: AgentPlace| DiscoveryPath {
        scope: if place.project.is_some() { "project" } else { "user" },
        path: place.path,
        preferred_for_creation: place.is_preferred,
        project_path: place.project,
    };
    DiscoveryPaths { paths: places_of_agents(addons, discovery).into_iter().map(path).collect() }
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
    let mut names = disabled(addons).await?;
    if is_disabled {
        names.insert(name);
    } else {
        names.remove(&name);
    }
    set_disabled(addons, names.into_iter().collect()).await
}
