//! Skills of a session.
//!
//! Skills come from directories that clients name, from the project and the user (if a client asks for discovery), and
//! from a client that supplies them itself. They are looked for on first use, never when the session is created, and again
//! when a client asks or when the session's settings have changed. Nothing is kept for other sessions: files change.
//!
//! A skill is text for the model. Its claims, such as `allowed-tools`, are shown and grant nothing.

mod discover;
mod provider;
mod request;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_agent::blocking;
use baton_agent::tools::skill::AvailableSkill;
use baton_protocol::event::{SkillInvoked, SkillTrigger, WorkContext};
use baton_protocol::{Body, ClientId, Json, SessionId};
use baton_skills::{Content, Found, Plugin, Problem, Severity, Skill, SkillPlaces, scan, skill_places};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;

pub use self::discover::{
    Discovery, agent_discovery_paths, discover, discover_agents, discovery_paths, set_disabled,
    set_skill_disabled,
};
pub use self::request::SkillsRequest;
use crate::{AddonOptions, Addons, SessionPort};
use baton_settings::Settings;

/// Setting of the user that names the skills that no session uses.
const DISABLED: &str = "disabledSkills";

/// Skills of a session.
pub struct SessionSkills {
    addons: Arc<Addons>,
    session: Arc<dyn SessionPort>,
    id: SessionId,
    /// Held while skills are looked for.
    loading: AsyncMutex<()>,
    current: Mutex<Arc<Catalogue>>,
}

/// Where a session looks for skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    places: SkillPlaces,
    /// Directories of plugins.
    plugins: Vec<PathBuf>,
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
    pub plugins: Vec<Plugin>,
    /// Skills that the user has disabled for all sessions.
    disabled: BTreeSet<String>,
}

impl Catalogue {
    /// Whether a session with these settings uses a skill.
    pub fn is_enabled(&self, skill: &Skill, settings: &Settings) -> bool {
        let named = |names: &[String]| names.iter().any(|name| skill.is_named(name));
        named(&settings.enabled_skills)
            || !named(&settings.disabled_skills) && !self.disabled.contains(&skill.name)
    }

    /// Finds a skill that the session uses.
    pub fn find(&self, name: &str, settings: &Settings) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.is_named(name) && self.is_enabled(skill, settings))
    }

    /// Lists the skills for clients.
    fn listed(&self, settings: &Settings) -> Vec<Value> {
        self.skills.iter().map(|skill| described(skill, self.is_enabled(skill, settings))).collect()
    }
}

impl SessionSkills {
    /// Creates them; nothing is looked for.
    #[must_use]
    pub fn new(addons: &Arc<Addons>, session: Arc<dyn SessionPort>, id: SessionId) -> Self {
        Self {
            addons: addons.clone(),
            session,
            id,
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
        if settings.skills_disabled {
            return Wanted::default();
        }
        let cwd = PathBuf::from(&context.cwd);
        let mut plugins: Vec<PathBuf> =
            settings.plugin_directories.iter().map(|directory| cwd.join(directory)).collect();
        let mut places = SkillPlaces {
            custom: settings.skill_directories.iter().map(|directory| cwd.join(directory)).collect(),
            ..SkillPlaces::default()
        };
        if settings.config_discovery {
            plugins.extend(self.addons.plugins.enabled().await);
            places.home = Some(self.addons.options.home.clone());
            places.user = user_home(&self.addons.options);
            places.projects = vec![(cwd, context.git_root.as_ref().map(PathBuf::from))];
        }
        Wanted { places, plugins, provider: settings.skill_provider }
    }

    async fn look(&self, wanted: Wanted) -> Arc<Catalogue> {
        let (places, directories) = (wanted.places.clone(), wanted.plugins.clone());
        let scanned = blocking::run(move || {
            let mut found = scan_all(&places);
            let plugins = add_plugins(&directories, &mut found);
            (found, plugins)
        })
        .await;
        let hung = scanned.is_err();
        let (mut found, plugins) = scanned.unwrap_or_else(|error| {
            let path = PathBuf::from("skills");
            let problem = Problem { path, why: error.to_string(), severity: Severity::Error };
            (Found { skills: Vec::new(), problems: vec![problem] }, Vec::new())
        });
        if let Some(client) = wanted.provider {
            found.add(provider::list(&*self.session, client, &self.id).await);
        }
        for problem in &found.problems {
            tracing::warn!(session = %self.id, "{problem}");
        }
        let disabled = disabled(&self.addons).await;
        let catalogue = Arc::new(Catalogue {
            // What could not be read is looked for again.
            wanted: Some(wanted).filter(|_| !hung),
            skills: found.skills,
            problems: found.problems,
            plugins,
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
    fn show(&self, skills: &[Value]) {
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

/// Adds the skills of plugins, and returns the plugins. A directory that does not exist is ignored. Blocks.
fn add_plugins(directories: &[PathBuf], found: &mut Found) -> Vec<Plugin> {
    let mut plugins: Vec<Plugin> = Vec::new();
    for directory in directories {
        match Plugin::load(directory) {
            Ok(plugin) if plugins.iter().any(|known| known.name == plugin.name) => {}
            Ok(plugin) => {
                found.add(plugin.skills());
                plugins.push(plugin);
            }
            Err(why) => {
                found.problems.push(Problem { path: directory.clone(), why, severity: Severity::Error });
            }
        }
    }
    plugins
}

/// Scans all places. Blocks.
fn scan_all(places: &SkillPlaces) -> Found {
    let mut found = Found::default();
    for place in skill_places(places) {
        found.add(scan(&place.path, &place.origin));
    }
    found
}

/// Returns the names of the skills that the user has disabled for all sessions.
async fn disabled(addons: &Addons) -> BTreeSet<String> {
    let stored = addons.options.preferences.get(DISABLED).await.ok().flatten();
    stored.and_then(|names| serde_json::from_value(names).ok()).unwrap_or_default()
}

/// Returns the home directory of the user.
fn user_home(options: &AddonOptions) -> Option<PathBuf> {
    let home = options.environment.iter().find(|(name, _)| name == "HOME");
    home.map(|(_, home)| PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// Describes a skill for clients.
fn described(skill: &Skill, enabled: bool) -> Value {
    let mut described = json!({
        "name": skill.name,
        "commandName": skill.command,
        "description": skill.description,
        "source": skill.origin.source,
        "userInvocable": skill.user_invocable,
        "enabled": enabled,
        "path": skill.path,
    });
    if let Some(plugin) = &skill.origin.plugin {
        described["pluginName"] = json!(plugin.name);
    }
    if let Some(project) = &skill.origin.project {
        described["projectPath"] = json!(project);
    }
    if let Some(hint) = &skill.argument_hint {
        described["argumentHint"] = json!(hint);
    }
    described
}
