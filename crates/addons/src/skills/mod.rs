//! Skills of a session.
//!
//! Skills come from directories that clients name, from the project and the user (if a client asks for discovery), and
//! from a client that supplies them itself. They are looked for on first use, never when the session is created, and again
//! when a client asks or when the session's settings have changed. Nothing is kept for other sessions: files change.
//!
//! A skill is text for the model. Its claims, such as `allowed-tools`, are shown and grant nothing.

mod discover;
pub mod overview;
mod provider;
mod serve;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_agent::tools::skill::AvailableSkill;
use baton_ask::skills::SkillEntry;
use baton_disk::blocking;
use baton_protocol::agent::CustomAgent;
use baton_protocol::event::{SkillInvoked, SkillTrigger, WorkContext};
use baton_protocol::{Body, ClientId, Json, SessionId};
use baton_skills::{
    AgentFile, Content, Problem, Severity, Skill, SkillPlaces, SkillScan, agent_places, scan, scan_agents,
    skill_places,
};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;

pub use self::discover::{
    DiscoveredAgent, DiscoveredAgents, DiscoveredSkills, Discovery, DiscoveryPath, DiscoveryPaths,
    agent_discovery_paths, discover, discover_agents, discovery_paths, set_disabled, set_skill_disabled,
};
use crate::session_plugins::{self, Loaded, PluginDirectory, PluginHook, UsedPlugin};
use crate::{AddonOptions, Addons, SessionPort, SessionTrust};
use baton_settings::Settings;
pub use baton_skills::check_name;

/// Setting of the user that names the skills that no session uses.
const DISABLED: &str = "disabledSkills";

/// Skills of a session.
pub struct SessionSkills {
    addons: Arc<Addons>,
    session: Arc<dyn SessionPort>,
    id: SessionId,
    /// What the session trusts while it is open.
    trust: Arc<SessionTrust>,
    /// Held while skills are looked for.
    loading: AsyncMutex<()>,
    current: Mutex<Arc<Catalogue>>,
}

/// Where a session looks for skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    places: SkillPlaces,
    plugins: Vec<PluginDirectory>,
    /// Directories of agents.
    agents: Vec<PathBuf>,
    /// Whether skills are left out.
    skills_disabled: bool,
    provider: Option<ClientId>,
}

/// The skills of a session, at one time.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// What was looked for; none if nothing was yet.
    wanted: Option<Wanted>,
    /// The skills, used or not.
    pub skills: Vec<Skill>,
    /// What could not be used.
    pub problems: Vec<Problem>,
    /// Plugins of the session.
    pub plugins: Vec<UsedPlugin>,
    /// Agents of plugins, the project and the user.
    pub agents: Vec<CustomAgent>,
    /// Skills that the user has disabled for all sessions.
    disabled: DisabledSkills,
}

/// The user's list of disabled skills.
#[derive(Debug)]
enum DisabledSkills {
    Names(BTreeSet<String>),
    /// The list cannot be read, so any skill may be on it.
    Unreadable,
}

impl Default for DisabledSkills {
    fn default() -> Self {
        Self::Names(BTreeSet::new())
    }
}

impl DisabledSkills {
    /// Reads the list. Also returns what is wrong with it.
    async fn read(addons: &Addons) -> (Self, Option<Problem>) {
        match disabled(addons).await {
            Ok(names) => (Self::Names(names), None),
            Err(why) => {
                let why = format!("no skill is used, because it may be disabled: {why}");
                let path = PathBuf::from("settings.json");
                (Self::Unreadable, Some(Problem { path, why, severity: Severity::Error }))
            }
        }
    }

    fn may_contain(&self, name: &str) -> bool {
        match self {
            Self::Names(names) => names.contains(name),
            Self::Unreadable => true,
        }
    }
}

impl Catalogue {
    /// Whether a session with these settings uses a skill.
    pub fn is_enabled(&self, skill: &Skill, settings: &Settings) -> bool {
        let named = |names: &[String]| names.iter().any(|name| skill.is_named(name));
        named(&settings.enabled_skills)
            || !named(&settings.disabled_skills) && !self.disabled.may_contain(&skill.name)
    }

    /// Finds a skill that the session uses.
    pub fn find(&self, name: &str, settings: &Settings) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.is_named(name) && self.is_enabled(skill, settings))
    }

    /// Returns the commands of trusted plugins that run for a hook.
    #[must_use]
    pub fn hooks(&self, hook: &str) -> Vec<PluginHook> {
        let all = self.plugins.iter().flat_map(UsedPlugin::hooks);
        all.filter(|found| found.command.hook == hook).collect()
    }

    /// Lists the skills for clients.
    fn listed(&self, settings: &Settings) -> Vec<SkillEntry> {
        self.skills.iter().map(|skill| described(skill, self.is_enabled(skill, settings))).collect()
    }
}

impl SessionSkills {
    /// Creates them; nothing is looked for.
    #[must_use]
    pub fn new(
        addons: &Arc<Addons>,
        session: Arc<dyn SessionPort>,
        id: SessionId,
        trust: Arc<SessionTrust>,
    ) -> Self {
        Self {
            addons: addons.clone(),
            session,
            id,
            trust,
            loading: AsyncMutex::default(),
            current: Mutex::default(),
        }
    }

    /// Returns the skills that the model can invoke, as far as they are loaded.
    pub fn available(&self, settings: &Settings) -> Vec<AvailableSkill> {
        if settings.skills_disabled {
            return Vec::new();
        }
        let catalogue = self.current();
        let offered = catalogue
            .skills
            .iter()
            .filter(|skill| skill.model_invocable && catalogue.is_enabled(skill, settings));
        offered
            .map(|skill| AvailableSkill {
                name: skill.name.clone(),
                description: skill.description.clone(),
                location: skill.origin.source.as_str().to_owned(),
            })
            .collect()
    }

    /// Returns the skills, looking for them if that was not done yet, or with other settings.
    pub async fn load(&self, settings: &Settings, context: &WorkContext) -> Arc<Catalogue> {
        let wanted = self.wanted(settings, context).await;
        if self.current().wanted.as_ref() == Some(&wanted) {
            return self.current();
        }
        let _loading = self.loading.lock().await;
        if self.current().wanted.as_ref() == Some(&wanted) {
            return self.current();
        }
        let loaded = self.look(wanted).await;
        self.show(&loaded.listed(settings));
        loaded
    }

    /// Looks for skills again, and shows clients that.
    async fn reload(&self, settings: &Settings, context: &WorkContext) -> Arc<Catalogue> {
        let _loading = self.loading.lock().await;
        self.show(&[]);
        let loaded = self.look(self.wanted(settings, context).await).await;
        self.show(&loaded.listed(settings));
        loaded
    }

    async fn wanted(&self, settings: &Settings, context: &WorkContext) -> Wanted {
        let cwd = PathBuf::from(&context.cwd);
        let discovers = settings.discovers();
        let mut wanted = Wanted {
            plugins: session_plugins::directories(&self.addons, settings, &cwd, discovers, &self.trust).await,
            skills_disabled: settings.skills_disabled,
            ..Wanted::default()
        };
        let root = context.git_root.as_ref().map(PathBuf::from);
        if discovers {
            let above = root.clone().filter(|root| *root != cwd);
            let projects: Vec<PathBuf> = std::iter::once(cwd.clone()).chain(above).collect();
            let places = agent_places(&projects, Some(&self.addons.options.home));
            wanted.agents = places.into_iter().map(|place| place.path).collect();
        }
        if settings.skills_disabled {
            return wanted;
        }
        wanted.places.custom =
            settings.skill_directories.iter().map(|directory| cwd.join(directory)).collect();
        wanted.provider = settings.skill_provider;
        if discovers {
            wanted.places.home = Some(self.addons.options.home.clone());
            wanted.places.user = user_home(&self.addons.options);
            wanted.places.projects = vec![(cwd, root)];
        }
        wanted
    }

    async fn look(&self, wanted: Wanted) -> Arc<Catalogue> {
        let looked = wanted.clone();
        let scanned = blocking::run(move || scan_wanted(&looked)).await;
        let hung = scanned.is_err();
        let Scanned { mut found, plugins, agents } = scanned.unwrap_or_else(|error| {
            let path = PathBuf::from("skills");
            let problem = Problem { path, why: error.to_string(), severity: Severity::Error };
            let found = SkillScan { skills: Vec::new(), problems: vec![problem] };
            Scanned { found, ..Scanned::default() }
        });
        if let Some(client) = wanted.provider {
            found.add(provider::list(&*self.session, client, &self.id).await);
        }
        let (disabled, unreadable) = DisabledSkills::read(&self.addons).await;
        found.problems.extend(unreadable);
        for problem in &found.problems {
            tracing::warn!(session = %self.id, "{problem}");
        }
        let catalogue = Arc::new(Catalogue {
            // What could not be read is looked for again.
            wanted: Some(wanted).filter(|_| !hung),
            skills: found.skills,
            problems: found.problems,
            plugins,
            agents,
            disabled,
        });
        *self.lock() = catalogue.clone();
        catalogue
    }

    /// Reads a skill, as it is recorded and given to the model.
    ///
    /// # Errors
    /// With a message for the model.
    pub async fn read(&self, skill: &Skill, trigger: SkillTrigger) -> Result<SkillInvoked, String> {
        let content = match &skill.content {
            Content::Client => {
                let client = self.current().wanted.as_ref().and_then(|wanted| wanted.provider);
                provider::read(&*self.session, client, &self.id, &skill.name).await?
            }
            Content::File { .. } => {
                let read = skill.clone();
                let read = blocking::run(move || read.read()).await.map_err(|error| error.to_string())?;
                let failed = |why| format!("Failed to read the skill \"{}\": {why}", skill.name);
                read.unwrap_or_else(|| Ok(String::new())).map_err(failed)?
            }
        };
        let plugin = skill.origin.plugin.as_ref();
        Ok(SkillInvoked {
            name: skill.name.clone(),
            path: skill.path.display().to_string(),
            content,
            allowed_tools: skill.allowed_tools.clone(),
            source: Some(skill.origin.source.as_str().to_owned()),
            plugin_name: plugin.map(|plugin| plugin.name.clone()),
            plugin_version: plugin.and_then(|plugin| plugin.version.clone()),
            description: Some(skill.description.clone()),
            trigger: Some(trigger),
            model: None,
            invoked_at_turn: None,
        })
    }

    /// Shows clients the skills.
    fn show(&self, skills: &[SkillEntry]) {
        let data = Json::from(json!({ "skills": skills }));
        let loaded = Body::Unknown { kind: "session.skills_loaded".into(), data };
        self.session.show(loaded);
    }

    /// Returns the skills, as far as they are loaded.
    pub fn current(&self) -> Arc<Catalogue> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Catalogue>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found on disk.
#[derive(Default)]
struct Scanned {
    found: SkillScan,
    plugins: Vec<UsedPlugin>,
    agents: Vec<CustomAgent>,
}

/// Looks for everything that a session wants. Blocks.
fn scan_wanted(wanted: &Wanted) -> Scanned {
    let mut found = scan_all(&wanted.places);
    let Loaded { plugins, problems } = session_plugins::load(&wanted.plugins);
    found.problems.extend(problems);
    let mut agents: Vec<CustomAgent> = Vec::new();
    for directory in &wanted.agents {
        let (scanned, problems) = scan_agents(directory, None);
        found.problems.extend(problems);
        add_agents(&mut agents, &scanned, &mut found);
    }
    for used in &plugins {
        add_agents(&mut agents, &used.parts.agents, &mut found);
        if !wanted.skills_disabled {
            found.add(used.plugin.skills());
        }
    }
    Scanned { found, plugins, agents }
}

/// Adds agents. The first of a name is used, and none takes the place of a built-in one: a file of a project must not
/// decide what the model's own helpers are.
fn add_agents(agents: &mut Vec<CustomAgent>, scanned: &[AgentFile], found: &mut SkillScan) {
    let built_in = baton_agent::agents::built_in();
    for AgentFile { agent, path, .. } in scanned {
        let is_built_in = built_in.iter().any(|kind| kind.name == agent.name);
        if is_built_in || agents.iter().any(|known| known.name == agent.name) {
            let why = format!("not used: another agent is named {:?}", agent.name);
            found.problems.push(Problem { path: path.clone(), why, severity: Severity::Warning });
        } else {
            agents.push(agent.clone());
        }
    }
}

/// Scans all places. Blocks.
fn scan_all(places: &SkillPlaces) -> SkillScan {
    let mut found = SkillScan::default();
    for place in skill_places(places) {
        found.add(scan(&place.path, &place.origin));
    }
    found
}

/// Returns the names of the skills that the user has disabled for all sessions.
///
/// # Errors
/// When the settings cannot be read, or the list in them is malformed. No skill may be used then.
async fn disabled(addons: &Addons) -> Result<BTreeSet<String>, String> {
    let Some(names) = addons.options.preferences.get(DISABLED).await? else { return Ok(BTreeSet::new()) };
    names_in(&names)
}

fn names_in(list: &Value) -> Result<BTreeSet<String>, String> {
    baton_json::from_value(list).map_err(|error| {
        format!("{DISABLED} in settings.json is not a list of names; correct or remove it: {error}")
    })
}

/// Returns the home directory of the user.
fn user_home(options: &AddonOptions) -> Option<PathBuf> {
    let home = options.environment.iter().find(|(name, _)| name == "HOME");
    home.map(|(_, home)| PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// Describes a skill for clients.
fn described(skill: &Skill, enabled: bool) -> SkillEntry {
    SkillEntry {
        name: skill.name.clone(),
        command_name: skill.command.clone(),
        description: skill.description.clone(),
        source: skill.origin.source.as_str().to_owned(),
        user_invocable: skill.user_invocable,
        enabled,
        path: skill.path.clone(),
        plugin_name: skill.origin.plugin.as_ref().map(|plugin| plugin.name.clone()),
        project_path: skill.origin.project.clone(),
        argument_hint: skill.argument_hint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_list_of_disabled_skills_disables_all() {
        assert!(names_in(&json!("a")).is_err() && names_in(&json!([1])).is_err());
        assert_eq!(names_in(&json!(["a"])), Ok(BTreeSet::from(["a".to_owned()])));
        assert!(DisabledSkills::Unreadable.may_contain("any"));
        assert!(!DisabledSkills::default().may_contain("any"));
    }

    #[test]
    fn agents_of_files_replace_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("near/explore.md", "Evil.");
        write("near/reviewer.md", "Near.");
        write("far/reviewer.md", "Far.");
        let agents = vec![dir.path().join("near"), dir.path().join("far"), dir.path().join("none")];
        let scanned = scan_wanted(&Wanted { agents, ..Wanted::default() });
        let names: Vec<(&str, &str)> =
            scanned.agents.iter().map(|agent| (agent.name.as_str(), agent.prompt.as_str())).collect();
        assert_eq!(names, [("reviewer", "Near.")]);
        assert_eq!(scanned.found.problems.len(), 2, "{:?}", scanned.found.problems);
    }
}
