//! `baton mcp list`: the servers that sessions in this directory use.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use baton_addons::mcp::{CatalogueEntry, Origin, Reach};
use serde_json::{Value, json};

use super::{Surroundings, described};
use crate::terminal;

pub(super) async fn list(around: &Surroundings, as_json: bool) -> anyhow::Result<ExitCode> {
    let entries = around.catalogue.entries(Some(&around.cwd)).await;
    if as_json {
        let shown: Vec<Value> = entries.iter().map(|(name, entry)| as_value(name, entry)).collect();
        terminal::json(&serde_json::to_string_pretty(&json!({ "servers": shown }))?);
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        terminal::note(
            "no MCP servers; add one with `baton mcp add NAME -- COMMAND` or `baton mcp add NAME --url URL`",
        );
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|(name, entry)| {
            vec![
                name.clone(),
                state(entry).to_owned(),
                source(&entry.chosen.declared.origin, &around.cwd),
                what(entry),
            ]
        })
        .collect();
    terminal::table(&["NAME", "STATE", "SOURCE", "COMMAND OR ADDRESS"], &rows);
    if entries.values().any(CatalogueEntry::is_pending) {
        terminal::note("trust the servers of this workspace with `baton mcp trust`");
    }
    Ok(ExitCode::SUCCESS)
}

fn state(entry: &CatalogueEntry) -> &'static str {
    match (&entry.chosen.declared.config, entry.is_pending(), entry.enabled) {
        (_, true, _) => "not trusted",
        (_, _, false) => "disabled",
        (Err(_), ..) => "unusable",
        (Ok(_), ..) => "enabled",
    }
}

fn source(origin: &Origin, cwd: &Path) -> String {
    match origin {
        Origin::User => "user".to_owned(),
        Origin::Settings => "configuration file".to_owned(),
        other => match other.file() {
            Some(file) => file.strip_prefix(cwd).unwrap_or(file).display().to_string(),
            None => other.to_string(),
        },
    }
}

fn what(entry: &CatalogueEntry) -> String {
    match &entry.chosen.declared.config {
        Ok(config) => described(config),
        Err(error) => error.problem.clone(),
    }
}

fn as_value(name: &str, entry: &CatalogueEntry) -> Value {
    let declared = &entry.chosen.declared;
    let mut shown = json!({
        "name": name,
        "source": declared.origin.source(),
        "enabled": entry.enabled,
        "trusted": !entry.is_pending(),
    });
    if let Some(file) = declared.origin.file() {
        shown["file"] = json!(file);
    }
    match &declared.config {
        Ok(config) => {
            shown["transport"] = json!(config.transport());
            match &config.reach {
                Reach::Local(local) => {
                    shown["command"] = json!(local.command);
                    shown["args"] = json!(local.args);
                }
                Reach::Remote(remote) => shown["url"] = json!(remote.url.as_str()),
            }
        }
        Err(error) => shown["problem"] = json!(error.problem),
    }
    shown
}

/// Returns the servers that cannot be used, and those whose program is not installed, with the reason.
pub(crate) fn unusable_programs(
    entries: &BTreeMap<String, CatalogueEntry>,
    find: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let enabled = entries.iter().filter(|(_, entry)| entry.enabled && !entry.is_pending());
    enabled
        .filter_map(|(name, entry)| match &entry.chosen.declared.config {
            Err(error) => Some((name.clone(), error.problem.clone())),
            Ok(config) => match &config.reach {
                Reach::Local(local) if !local.command.contains("${") && !find(&local.command) => {
                    Some((name.clone(), format!("the program {} was not found", local.command)))
                }
                _ => None,
            },
        })
        .collect()
}
