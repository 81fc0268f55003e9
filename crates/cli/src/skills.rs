//! `baton skills`: lists, prints, enables and disables skills, and says where they belong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_addons::skills::overview::{self, SkillOverview};
use baton_addons::skills::set_skill_disabled;
use baton_runtime::Runtime;
use serde_json::json;

use crate::args::{Cli, SkillsCommand};
use crate::{changes, setup, terminal};

/// Exit code for a skill that does not exist.
const NO_SUCH_SKILL: u8 = 3;

/// State that all subcommands use.
struct Skills {
    runtime: Arc<Runtime>,
    cwd: PathBuf,
}

pub(crate) fn skills(cli: &Cli, command: &SkillsCommand) -> anyhow::Result<ExitCode> {
    let cwd = std::env::current_dir().context("cannot read the current directory")?;
    setup::run(async {
        let skills = Skills { runtime: setup::without_sessions(cli)?, cwd };
        match command {
            SkillsCommand::List(args) => skills.list(args.json).await,
            SkillsCommand::Show { name, json } => skills.show(name, *json).await,
            SkillsCommand::Enable { names, json } => skills.turn(names, true, *json).await,
            SkillsCommand::Disable { names, json } => skills.turn(names, false, *json).await,
            SkillsCommand::Path { preferred, json } => skills.path(*preferred, *json).await,
        }
    })
}

impl Skills {
    async fn list(&self, as_json: bool) -> anyhow::Result<ExitCode> {
        let found =
            overview::overview(&self.runtime.addons, Some(&self.cwd)).await.map_err(anyhow::Error::msg)?;
        if as_json {
            let shown = json!({ "skills": found.skills, "problems": found.problems });
            terminal::json(&serde_json::to_string_pretty(&shown)?);
            return Ok(ExitCode::SUCCESS);
        }
        if found.skills.is_empty() {
            terminal::note("no skills; `baton skills path` prints where they are looked for");
        } else {
            let rows: Vec<Vec<String>> = found.skills.iter().map(row).collect();
            terminal::table(&["NAME", "STATE", "SOURCE", "DESCRIPTION"], &rows);
        }
        for problem in &found.problems {
            terminal::error(problem);
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
        let found =
            overview::read(&self.runtime.addons, Some(&self.cwd), name).await.map_err(anyhow::Error::msg)?;
        let Some((skill, text)) = found else { return self.no_such_skill(name).await };
        if as_json {
            let mut shown = json!(skill);
            shown["content"] = json!(text);
            terminal::json(&serde_json::to_string_pretty(&shown)?);
            return Ok(ExitCode::SUCCESS);
        }
        terminal::note(&format!("{} ({}, {})", skill.path.display(), source(&skill), state(&skill)));
        for line in text.lines() {
            terminal::line(line);
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn turn(&self, names: &[String], enabled: bool, as_json: bool) -> anyhow::Result<ExitCode> {
        let found =
            overview::overview(&self.runtime.addons, Some(&self.cwd)).await.map_err(anyhow::Error::msg)?;
        for name in names {
            if !found.skills.iter().any(|skill| skill.name == *name) {
                return self.no_such_skill(name).await;
            }
        }
        for name in names {
            let changed = set_skill_disabled(&self.runtime.addons, name.clone(), !enabled).await;
            changed.map_err(anyhow::Error::msg)?;
        }
        let done = if enabled { "enabled" } else { "disabled" };
        let note = format!("{done} {} for new sessions", names.join(", "));
        changes::report(as_json, &note, &json!({ done: names }));
        Ok(ExitCode::SUCCESS)
    }

    async fn path(&self, preferred: bool, as_json: bool) -> anyhow::Result<ExitCode> {
        let mut places =
            overview::directories(&self.runtime.addons, Some(&self.cwd)).await.map_err(anyhow::Error::msg)?;
        if preferred {
            places.retain(|place| place.preferred && place.source.starts_with("personal"));
            places.truncate(1);
        }
        if as_json {
            terminal::json(&serde_json::to_string_pretty(&json!({ "paths": places }))?);
            return Ok(ExitCode::SUCCESS);
        }
        for place in places {
            terminal::line(&place.path.display().to_string());
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn no_such_skill(&self, name: &str) -> anyhow::Result<ExitCode> {
        let found =
            overview::overview(&self.runtime.addons, Some(&self.cwd)).await.map_err(anyhow::Error::msg)?;
        let known: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
        let hint = match known.is_empty() {
            true => "there are none; see `baton skills path`".to_owned(),
            false => format!("found: {}", known.join(", ")),
        };
        terminal::error(&format!("no skill {name:?} ({hint})"));
        Ok(ExitCode::from(NO_SUCH_SKILL))
    }
}

fn row(skill: &SkillOverview) -> Vec<String> {
    vec![skill.name.clone(), state(skill).to_owned(), source(skill), skill.description.clone()]
}

fn state(skill: &SkillOverview) -> &'static str {
    if skill.enabled { "enabled" } else { "disabled" }
}

fn source(skill: &SkillOverview) -> String {
    match &skill.plugin_name {
        Some(plugin) => format!("plugin {plugin}"),
        None => skill.source.clone(),
    }
}
