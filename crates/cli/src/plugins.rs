//! `baton plugins`: installs, updates, enables, disables and uninstalls plugins, and manages marketplaces.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_addons::plugins::{InstalledPlugin, OfferedPlugin};
use baton_runtime::Runtime;
use serde_json::{Value, json};

use crate::args::{Cli, MarketplaceCommand, PluginsCommand};
use crate::words::counted;
use crate::{changes, setup, terminal};

/// Exit code for a plugin that is not installed.
const NO_SUCH_PLUGIN: u8 = 3;

/// State that all subcommands use.
struct Plugins {
    runtime: Arc<Runtime>,
    cwd: PathBuf,
}

pub(crate) fn plugins(cli: &Cli, command: &PluginsCommand) -> anyhow::Result<ExitCode> {
    let cwd = std::env::current_dir().context("cannot read the current directory")?;
    setup::run(async {
        let plugins = Plugins { runtime: setup::without_sessions(cli)?, cwd };
        match command {
            PluginsCommand::List(args) => plugins.list(args.json).await,
            PluginsCommand::Install { source, json } => plugins.install(source, *json).await,
            PluginsCommand::Update { names, json } => plugins.update(names, *json).await,
            PluginsCommand::Enable { names, json } => plugins.turn(names, true, *json).await,
            PluginsCommand::Disable { names, json } => plugins.turn(names, false, *json).await,
            PluginsCommand::Uninstall { names, json } => plugins.uninstall(names, *json).await,
            PluginsCommand::Marketplace(command) => plugins.marketplace(command).await,
        }
    })
}

/// Returns a text of a reply, or an empty one.
fn print_json(reply: &Value) -> anyhow::Result<ExitCode> {
    terminal::json(&serde_json::to_string_pretty(reply)?);
    Ok(ExitCode::SUCCESS)
}

impl Plugins {
    async fn installed(&self) -> anyhow::Result<Vec<InstalledPlugin>> {
        self.runtime.addons.plugins.list().await.map_err(anyhow::Error::msg)
    }

    /// Finds an installed plugin by its name, or by NAME@MARKETPLACE. Says so if there is none.
    async fn is_missing(&self, name: &str) -> anyhow::Result<bool> {
        let known = self.installed().await?;
        if known.iter().any(|plugin| plugin.is_named(name)) {
            return Ok(false);
        }
        let names: Vec<&str> = known.iter().map(|plugin| plugin.name.as_str()).collect();
        let hint = match names.is_empty() {
            true => "none is installed; see `baton plugins install --help`".to_owned(),
            false => format!("installed: {}", names.join(", ")),
        };
        terminal::error(&format!("no plugin {name:?} ({hint})"));
        Ok(true)
    }

    async fn list(&self, as_json: bool) -> anyhow::Result<ExitCode> {
        let installed = self.installed().await?;
        if as_json {
            return print_json(&json!({ "plugins": installed }));
        }
        let rows: Vec<Vec<String>> = installed.iter().map(row).collect();
        match rows.is_empty() {
            true => terminal::note("no plugins; install one with `baton plugins install`"),
            false => terminal::table(&["NAME", "STATE", "VERSION", "FROM"], &rows),
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn install(&self, source: &str, as_json: bool) -> anyhow::Result<ExitCode> {
        let done =
            self.runtime.addons.plugins.install(source, &self.cwd).await.map_err(anyhow::Error::msg)?;
        if as_json {
            return print_json(&json!(done));
        }
        terminal::note(&format!(
            "installed {}: {}",
            done.plugin.name,
            counted(done.skills_installed, "skill")
        ));
        Ok(ExitCode::SUCCESS)
    }

    async fn update(&self, names: &[String], as_json: bool) -> anyhow::Result<ExitCode> {
        for name in names {
            if self.is_missing(name).await? {
                return Ok(ExitCode::from(NO_SUCH_PLUGIN));
            }
        }
        let plugins = &self.runtime.addons.plugins;
        let mut results = Vec::new();
        if names.is_empty() {
            let all = plugins.update_all().await.map_err(anyhow::Error::msg)?;
            results.extend(all.iter().map(|result| json!(result)));
        }
        for name in names {
            let mut result = match plugins.update(name).await {
                Ok(update) => json!(update),
                Err(error) => json!({ "error": error }),
            };
            result["success"] = result["error"].is_null().into();
            result["name"] = name.as_str().into();
            results.push(result);
        }
        let failed = results.iter().any(|result| result["success"] != true);
        if as_json {
            print_json(&json!({ "results": results }))?;
        } else {
            results.iter().for_each(print_update);
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    async fn turn(&self, names: &[String], enabled: bool, as_json: bool) -> anyhow::Result<ExitCode> {
        for name in names {
            if self.is_missing(name).await? {
                return Ok(ExitCode::from(NO_SUCH_PLUGIN));
            }
        }
        let changed = self.runtime.addons.plugins.set_enabled(names.to_vec(), enabled).await;
        changed.map_err(anyhow::Error::msg)?;
        let done = if enabled { "enabled" } else { "disabled" };
        let note = format!("{done} {} for new sessions", names.join(", "));
        changes::report(as_json, &note, &json!({ done: names }));
        Ok(ExitCode::SUCCESS)
    }

    async fn uninstall(&self, names: &[String], as_json: bool) -> anyhow::Result<ExitCode> {
        for name in names {
            if self.is_missing(name).await? {
                return Ok(ExitCode::from(NO_SUCH_PLUGIN));
            }
        }
        for name in names {
            self.runtime.addons.plugins.uninstall(name.clone(), None).await.map_err(anyhow::Error::msg)?;
        }
        let note = format!("uninstalled {}", names.join(", "));
        changes::report(as_json, &note, &json!({ "uninstalled": names }));
        Ok(ExitCode::SUCCESS)
    }

    async fn marketplace(&self, command: &MarketplaceCommand) -> anyhow::Result<ExitCode> {
        let plugins = &self.runtime.addons.plugins;
        match command {
            MarketplaceCommand::Add { directory, json } => {
                let source = absolute(&self.cwd, directory);
                let name = plugins.add_marketplace(&source, &self.cwd).await.map_err(anyhow::Error::msg)?;
                if *json {
                    return print_json(&json!({ "name": name }));
                }
                terminal::note(&format!(
                    "added {name}; list its plugins with `baton plugins marketplace browse {name}`"
                ));
                Ok(ExitCode::SUCCESS)
            }
            MarketplaceCommand::List { json } => {
                let known = plugins.marketplaces().await.map_err(anyhow::Error::msg)?;
                if *json {
                    return print_json(&json!({ "marketplaces": known }));
                }
                let rows: Vec<_> = known.into_iter().map(|known| vec![known.name, known.source]).collect();
                terminal::table(&["NAME", "SOURCE"], &rows);
                Ok(ExitCode::SUCCESS)
            }
            MarketplaceCommand::Browse { name, json } => {
                let offered = plugins.browse(name).await.map_err(anyhow::Error::msg)?;
                if *json {
                    return print_json(&json!({ "plugins": offered }));
                }
                let row = |plugin: OfferedPlugin| {
                    let OfferedPlugin { name, version, description } = plugin;
                    vec![name, version.unwrap_or_default(), description.unwrap_or_default()]
                };
                let rows: Vec<_> = offered.into_iter().map(row).collect();
                terminal::table(&["NAME", "VERSION", "DESCRIPTION"], &rows);
                Ok(ExitCode::SUCCESS)
            }
            MarketplaceCommand::Remove { name, force, json } => {
                let removed = plugins.remove_marketplace(name.clone(), *force).await;
                let removed = removed.map_err(anyhow::Error::msg)?;
                if removed.removed {
                    changes::report(*json, &format!("removed {name}"), &json!({ "removed": name }));
                    return Ok(ExitCode::SUCCESS);
                }
                terminal::error(&format!(
                    "plugins of {name} are installed: {}; uninstall them, or use --force",
                    removed.dependent_plugins.join(", ")
                ));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Returns a directory as the plugins' own parser takes it: `owner/name` would be a repository.
fn absolute(cwd: &Path, directory: &Path) -> String {
    cwd.join(directory).display().to_string()
}

fn row(plugin: &InstalledPlugin) -> Vec<String> {
    let directory = plugin.installed_from.as_ref().map(|path| path.display().to_string());
    let from = match plugin.marketplace.is_empty() {
        true => directory.unwrap_or_default(),
        false => plugin.marketplace.clone(),
    };
    let state = if plugin.enabled { "enabled" } else { "disabled" };
    vec![plugin.name.clone(), state.to_owned(), plugin.version.clone().unwrap_or_default(), from]
}

fn print_update(result: &Value) {
    let name = result["name"].as_str().unwrap_or_default();
    match result["error"].as_str() {
        Some(error) => terminal::error(&format!("{name}: {error}")),
        None => match (result["previousVersion"].as_str(), result["newVersion"].as_str()) {
            (Some(before), Some(after)) if before != after => {
                terminal::note(&format!("updated {name}: {before} → {after}"));
            }
            _ => terminal::note(&format!("read {name} again")),
        },
    }
}
