//! Lists of the skills that sessions in a directory would use, with their problems, for users. No session is needed.

use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_skills::{Skill, SkillPlaces, skill_places};
use serde::{Deserialize, Serialize};

use super::{DisabledSkills, scan_all, user_home};
use crate::Addons;
use crate::session_plugins::{self, PluginDirectory, Trust};

/// A skill, as people see it. All texts are those of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillOverview {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Where it comes from: `project`, `personal-agents`, `plugin` and so on.
    pub source: String,
    /// The plugin that it belongs to.
    pub plugin_name: Option<String>,
    /// Its file.
    pub path: PathBuf,
    /// Whether sessions use it.
    pub enabled: bool,
    /// Whether it has a slash command.
    pub user_invocable: bool,
    /// Whether the model may load it by itself.
    pub model_invocable: bool,
    /// What follows the slash command.
    pub argument_hint: Option<String>,
    /// Tools that the file names; they grant nothing.
    pub allowed_tools: Vec<String>,
}

/// Skills of a directory.
#[derive(Debug, Clone, Default)]
pub struct SkillsOverview {
    /// The skills. The first of two with one name is used.
    pub skills: Vec<SkillOverview>,
    /// Skills and plugins that cannot be used, each with the reason.
    pub problems: Vec<String>,
}

/// A directory in which skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillDirectory {
    /// The directory, which may not exist.
    pub path: PathBuf,
    /// Where its skills come from.
    pub source: String,
    /// Whether new skills of this source belong here.
    pub preferred: bool,
}

/// Lists the skills that sessions in `cwd` use; without one, those of the user.
///
/// # Errors
/// When a file system does not respond.
pub async fn overview(addons: &Addons, cwd: Option<&Path>) -> Result<SkillsOverview, String> {
    let (skills, mut problems) = find(addons, cwd).await?;
    let (disabled, unreadable) = DisabledSkills::read(addons).await;
    problems.extend(unreadable.map(|problem| problem.to_string()));
    let skills = skills.iter().map(|skill| described(skill, !disabled.may_contain(&skill.name)));
    Ok(SkillsOverview { skills: skills.collect(), problems })
}

/// Returns a skill with its text; `None` if sessions in `cwd` have none of that name.
///
/// # Errors
/// When it cannot be read.
pub async fn read(
    addons: &Addons,
    cwd: Option<&Path>,
    name: &str,
) -> Result<Option<(SkillOverview, String)>, String> {
    let (skills, _) = find(addons, cwd).await?;
    let Some(skill) = skills.into_iter().find(|skill| skill.is_named(name)) else { return Ok(None) };
    let (disabled, _) = DisabledSkills::read(addons).await;
    let overview = described(&skill, !disabled.may_contain(&skill.name));
    let text = blocking::run(move || skill.read()).await.map_err(|error| error.to_string())?;
    let failed = |why| format!("failed to read {}: {why}", overview.path.display());
    let text = text.unwrap_or_else(|| Ok(String::new())).map_err(failed)?;
    Ok(Some((overview, text)))
}

/// Lists the directories in which sessions in `cwd` look for skills, whether they exist or not.
///
/// # Errors
/// When a file system does not respond.
pub async fn directories(addons: &Addons, cwd: Option<&Path>) -> Result<Vec<SkillDirectory>, String> {
    let places = places(addons, cwd).await?;
    let directory = |place: baton_skills::SearchedDirectory| SkillDirectory {
        source: place.origin.source.as_str().to_owned(),
        path: place.path,
        preferred: place.is_preferred,
    };
    Ok(skill_places(&places).into_iter().map(directory).collect())
}

async fn find(addons: &Addons, cwd: Option<&Path>) -> Result<(Vec<Skill>, Vec<String>), String> {
    let (places, plugins) = (places(addons, cwd).await?, addons.plugins.enabled().await.into_iter());
    let directory = |(path, digest): (PathBuf, Option<String>)| {
        let trust = Trust::Installed(digest.into_iter().collect());
        PluginDirectory { path, trust }
    };
    let plugins: Vec<PluginDirectory> = plugins.map(directory).collect();
    let scan = move || {
        let mut found = scan_all(&places);
        let loaded = session_plugins::load(&plugins);
        loaded.plugins.iter().for_each(|used| found.add(used.plugin.skills()));
        found.problems.extend(loaded.problems);
        found
    };
    let found = blocking::run(scan).await.map_err(|error| error.to_string())?;
    Ok((found.skills, found.problems.iter().map(ToString::to_string).collect()))
}

async fn places(addons: &Addons, cwd: Option<&Path>) -> Result<SkillPlaces, String> {
    let projects = match cwd.map(Path::to_owned) {
        None => Vec::new(),
        Some(cwd) => {
            let root = move || (baton_git::around(&cwd).map(|repository| repository.root), cwd);
            let (root, cwd) = blocking::run(root).await.map_err(|error| error.to_string())?;
            vec![(cwd, root)]
        }
    };
    let options = &addons.options;
    Ok(SkillPlaces {
        custom: Vec::new(),
        projects,
        home: Some(options.home.clone()),
        user: user_home(options),
    })
}

fn described(skill: &Skill, enabled: bool) -> SkillOverview {
    SkillOverview {
        name: skill.name.clone(),
        description: skill.description.clone(),
        source: skill.origin.source.as_str().to_owned(),
        plugin_name: skill.origin.plugin.as_ref().map(|plugin| plugin.name.clone()),
        path: skill.path.clone(),
        enabled,
        user_invocable: skill.user_invocable,
        model_invocable: skill.model_invocable,
        argument_hint: skill.argument_hint.clone(),
        allowed_tools: skill.allowed_tools.clone(),
    }
}
