//! Skills, agents and instructions outside of sessions.

use std::convert::Infallible;
use std::path::PathBuf;

use baton_addons::skills::overview;
use baton_addons::skills::overview::{SkillOverview, SkillsOverview};
use baton_addons::skills::{
    DiscoveredAgents, DiscoveredSkills, Discovery, DiscoveryPaths, agent_discovery_paths, check_name,
    discover, discover_agents, discovery_paths, set_disabled, set_skill_disabled,
};

use crate::{Action, ImmediateAction, Operation, Permitted};

/// Lists the skills that sessions in a directory use.
#[derive(Debug, Clone, Default)]
pub struct ListSkills {
    /// The directory; without one, the skills of the user.
    pub cwd: Option<PathBuf>,
}

impl Action for ListSkills {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = SkillsOverview;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<SkillsOverview, String> {
        overview::overview(&permitted.service.runtime().addons, self.cwd.as_deref()).await
    }
}

/// Shows a skill that sessions in a directory use, with its text. Replies `None` if they have none of that name.
#[derive(Debug, Clone)]
pub struct ShowSkill {
    /// The directory; without one, the skills of the user.
    pub cwd: Option<PathBuf>,
    /// Name of the skill.
    pub name: String,
}

impl Action for ShowSkill {
    const OPERATION: Operation = Operation::ShowSkill;
    type Reply = Option<(SkillOverview, String)>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        overview::read(&permitted.service.runtime().addons, self.cwd.as_deref(), &self.name).await
    }
}

/// Why a skill was not turned on or off.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// No skill can have the name.
    #[error("{name:?} is not a skill: {why}")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The settings cannot be read or written.
    #[error("{0}")]
    Failed(String),
}

/// Uses a skill in new sessions again.
#[derive(Debug, Clone)]
pub struct EnableSkill {
    /// Its name.
    pub name: String,
}

/// Uses a skill in no new session. It may be one of a project that the server does not know yet.
#[derive(Debug, Clone)]
pub struct DisableSkill {
    /// Its name.
    pub name: String,
}

impl Action for EnableSkill {
    const OPERATION: Operation = Operation::EnableSkill;
    type Reply = ();
    type Error = SkillError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), SkillError> {
        turn(permitted, self.name, true).await
    }
}

impl Action for DisableSkill {
    const OPERATION: Operation = Operation::DisableSkill;
    type Reply = ();
    type Error = SkillError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), SkillError> {
        turn(permitted, self.name, false).await
    }
}

async fn turn(permitted: Permitted<'_>, name: String, enabled: bool) -> Result<(), SkillError> {
    // Skills of any directory can be turned off, so the name need not be known.
    if let Err(why) = check_name(&name) {
        return Err(SkillError::InvalidName { name, why });
    }
    let addons = &permitted.service.runtime().addons;
    set_skill_disabled(addons, name, !enabled).await.map_err(SkillError::Failed)
}

/// Replaces the list of skills that no new session uses.
#[derive(Debug, Clone)]
pub struct SetDisabledSkills {
    /// Their names.
    pub names: Vec<String>,
}

impl Action for SetDisabledSkills {
    const OPERATION: Operation = Operation::DisableSkill;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        set_disabled(&permitted.service.runtime().addons, self.names).await
    }
}

/// Finds the skills of projects and of the user.
#[derive(Debug, Clone)]
pub struct DiscoverSkills(pub Discovery);

impl Action for DiscoverSkills {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = DiscoveredSkills;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        discover(&permitted.service.runtime().addons, &self.0).await
    }
}

/// Finds the agents of projects and of the user.
#[derive(Debug, Clone)]
pub struct DiscoverAgents(pub Discovery);

impl Action for DiscoverAgents {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = DiscoveredAgents;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        discover_agents(&permitted.service.runtime().addons, &self.0).await
    }
}

/// Lists where skills are looked for.
#[derive(Debug, Clone)]
pub struct ListSkillDirectories(pub Discovery);

impl ImmediateAction for ListSkillDirectories {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = DiscoveryPaths;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, Infallible> {
        Ok(discovery_paths(&permitted.service.runtime().addons, &self.0))
    }
}

/// Lists where agents are looked for.
#[derive(Debug, Clone)]
pub struct ListAgentDirectories(pub Discovery);

impl ImmediateAction for ListAgentDirectories {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = DiscoveryPaths;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, Infallible> {
        Ok(agent_discovery_paths(&permitted.service.runtime().addons, &self.0))
    }
}

/// Lists the projects in which instructions, skills and agents are looked for.
#[derive(Debug, Clone)]
pub struct ListProjects(pub Discovery);

impl ImmediateAction for ListProjects {
    const OPERATION: Operation = Operation::ListSkills;
    type Reply = Vec<PathBuf>;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, Infallible> {
        Ok(self.0.projects(&permitted.service.runtime().addons))
    }
}
