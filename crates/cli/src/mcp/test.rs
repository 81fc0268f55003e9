//! `baton mcp test`: connects to a server and lists its tools.

use std::process::ExitCode;
use std::time::Duration;

use baton_addons::mcp::{Probe, probe};
use serde_json::json;

use super::{Surroundings, described, no_such_server};
use crate::{setup, terminal};

/// Characters of a description that are shown.
const DESCRIPTION: usize = 100;

pub(super) async fn test(
    around: &Surroundings,
    name: &str,
    timeout: u64,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let entries = around.catalogue.entries(Some(&around.cwd)).await;
    let Some(entry) = entries.get(name) else { return Ok(no_such_server(around, name).await) };
    let declared = entry.chosen.declared.clone();
    let what = declared.config.as_ref().map(described).unwrap_or_default();
    let runtime = setup::server_without_sessions(&around.config, &around.environment)?;
    let limit = Duration::from_secs(timeout.max(1));
    let probe = probe(&runtime.addons, declared, around.cwd.clone(), limit).await;
    if as_json {
        terminal::json(&serde_json::to_string_pretty(&as_value(name, &probe))?);
    } else {
        print(name, &what, entry.enabled, &probe);
    }
    Ok(if probe.error.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_value(name: &str, probe: &Probe) -> serde_json::Value {
    let tools = probe.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "readOnlyHint": tool.read_only_hint,
            "offered": tool.is_offered,
        })
    });
    json!({
        "name": name,
        "status": probe.status,
        "error": probe.error,
        "milliseconds": probe.elapsed.as_millis(),
        "tools": tools.collect::<Vec<_>>(),
        "log": probe.log,
    })
}

fn print(name: &str, what: &str, enabled: bool, probe: &Probe) {
    let seconds = probe.elapsed.as_secs_f64();
    if let Some(error) = &probe.error {
        terminal::line(&format!("✗ {name} failed after {seconds:.1} s: {error}"));
        if !what.is_empty() {
            terminal::line(&format!("  {what}"));
        }
        for line in probe.log.iter().rev().take(10).rev() {
            terminal::dim_hanging_line(&format!("  {line}"), 4);
        }
        return;
    }
    terminal::line(&format!("✓ {name} connected in {seconds:.1} s: {} tools", probe.tools.len()));
    for tool in &probe.tools {
        let mut notes = Vec::new();
        if tool.read_only_hint {
            notes.push("says it only reads");
        }
        if !tool.is_offered {
            notes.push("not offered");
        }
        let first = tool.description.lines().next().unwrap_or_default();
        let short: String = first.chars().take(DESCRIPTION).collect();
        let aside = if notes.is_empty() { String::new() } else { format!("({})", notes.join(", ")) };
        terminal::line_with_aside(&format!("  {:<24} {short}", tool.name), &aside);
    }
    if !enabled {
        terminal::note(&format!("{name} is disabled; sessions use it after `baton mcp enable {name}`"));
    }
}
