//! `baton config`: the configuration in force, and the source of each value.

use std::process::ExitCode;

use baton_store::sqlite::Durability;
use serde_json::json;

use super::{Environment, Sourced, describe, load, workspaces};
use crate::args::{Cli, ConfigArgs, ModelArgs};
use crate::terminal;

pub(crate) fn show(cli: &Cli, args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let config = load(&cli.global, &ModelArgs::default(), None, &Environment::of_process())?;
    let durability = match config.durability.value {
        Durability::Full => "full",
        Durability::Relaxed => "relaxed",
    };
    let model = config
        .model
        .clone()
        .unwrap_or(Sourced { value: "(the endpoint's first)".into(), source: "default".into() });
    let rows = [
        ("home", config.home.value.display().to_string(), config.home.source),
        ("log_level", config.log_level.value, config.log_level.source),
        ("log_format", config.log_format.value.name().to_owned(), config.log_format.source),
        ("durability", durability.to_owned(), config.durability.source),
        ("store.url", config.store.value.to_string(), config.store.source),
        ("store.place", config.place.value, config.place.source),
        ("model.base_url", describe(&config.endpoint.value), config.endpoint.source),
        ("model.name", model.value, model.source),
        ("tools.environment", config.tool_environment.value.join(" "), config.tool_environment.source),
        ("workspaces", workspaces::describe(&config.workspaces.value), config.workspaces.source),
    ];
    if args.json {
        let values: serde_json::Map<_, _> = rows
            .iter()
            .map(|(key, value, source)| ((*key).to_owned(), json!({ "value": value, "source": source })))
            .collect();
        terminal::json(&serde_json::to_string_pretty(&values)?);
    } else {
        let note = if config.file_found { "" } else { " (not found)" };
        terminal::line(&format!("# {}{note}", config.file.display()));
        for (key, value, source) in rows {
            terminal::line_with_aside(&format!("{key:<16} {value:<47}"), &source);
        }
    }
    Ok(ExitCode::SUCCESS)
}
