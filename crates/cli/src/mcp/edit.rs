//! `baton mcp add`, `remove`, `enable`, `disable`.

use std::process::ExitCode;

use anyhow::Context;
use baton_addons::mcp::{Origin, ServerConfig};
use serde_json::{Map, Value, json};

use super::project::ProjectFile;
use super::{Surroundings, described, no_such_server};
use crate::args::{AddArgs, McpScope, McpTransport};
use crate::{changes, terminal};

pub(super) async fn add(around: &Surroundings, args: &AddArgs) -> anyhow::Result<ExitCode> {
    let config = match configuration(args) {
        Ok(config) => config,
        Err(error) => {
            terminal::error(&format!("{error:#}"));
            return Ok(ExitCode::from(2));
        }
    };
    let parsed = ServerConfig::parse(&args.name, &config)?;
    let user = around.catalogue.user();
    let exists = |known: bool| {
        anyhow::ensure!(
            !known || args.force,
            "there is a server {:?} already; replace it with --force, or choose another name",
            args.name
        );
        anyhow::Ok(known)
    };
    let file = match args.scope {
        McpScope::User => {
            let known = user.list().await.map_err(anyhow::Error::msg)?.contains_key(&args.name);
            let done = match exists(known)? {
                true => user.update(args.name.clone(), config).await,
                false => user.add(args.name.clone(), config).await,
            };
            done.map_err(anyhow::Error::msg)?;
            None
        }
        McpScope::Project => {
            let mut file = ProjectFile::open(around).await?;
            exists(file.contains(&args.name))?;
            file.set(&args.name, config)?;
            if !args.env.is_empty() || !args.header.is_empty() {
                terminal::note(
                    "values of --env and --header are in the file; do not commit secrets, use ${NAME}",
                );
            }
            Some(file.path().display().to_string())
        }
    };
    let scope = file.as_ref().map_or_else(|| "for all your sessions".to_owned(), |file| format!("to {file}"));
    let note = format!("added {} {scope}: {}", args.name, described(&parsed));
    changes::report(args.json, &note, &json!({ "added": args.name, "file": file }));
    if !args.json {
        terminal::note(&format!("check it with `baton mcp test {}`", args.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the configuration that the arguments describe.
fn configuration(args: &AddArgs) -> anyhow::Result<Value> {
    let mut config = connection(args)?;
    let optional = [
        ("env", json!(pairs(&args.env, '=', "--env")?)),
        ("headers", json!(pairs(&args.header, ':', "--header")?)),
        ("excludeTools", json!(args.exclude_tools)),
    ];
    for (key, value) in optional {
        let is_empty =
            value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty);
        if !is_empty {
            config.insert(key.into(), value);
        }
    }
    if let Some(tools) = &args.tools {
        config.insert("tools".into(), json!(tools));
    }
    if let Some(cwd) = &args.cwd {
        config.insert("cwd".into(), json!(cwd));
    }
    if let Some(seconds) = args.timeout {
        config.insert("timeout".into(), json!((seconds * 1000.0).round()));
    }
    if args.trust_read_only_hint {
        config.insert("trustReadOnlyHint".into(), json!(true));
    }
    Ok(Value::Object(config))
}

/// Returns the fields that say how the server is reached: its address, or its command.
fn connection(args: &AddArgs) -> anyhow::Result<Map<String, Value>> {
    let as_url = match args.command.as_slice() {
        [only] if only.starts_with("http://") || only.starts_with("https://") => Some(only),
        _ => None,
    };
    let fields = match (args.url.as_ref().or(as_url), args.transport) {
        (Some(_), Some(McpTransport::Stdio)) => {
            anyhow::bail!("--transport stdio needs a command after `--`, not an address")
        }
        (Some(url), transport) => {
            anyhow::ensure!(
                args.env.is_empty() && args.cwd.is_none(),
                "--env and --cwd are for commands; use --header"
            );
            let kind = if transport == Some(McpTransport::Sse) { "sse" } else { "http" };
            [("type", json!(kind)), ("url", json!(url))]
        }
        (None, Some(McpTransport::Http | McpTransport::Sse)) => {
            anyhow::bail!("--transport http and sse need --url URL")
        }
        (None, _) => {
            let (program, arguments) = args.command.split_first().with_context(|| {
                format!(
                    "say how to reach it: `baton mcp add {0} -- COMMAND`, or `baton mcp add {0} --url URL`",
                    args.name
                )
            })?;
            anyhow::ensure!(args.header.is_empty(), "--header is for remote servers; use --env");
            [("command", json!(program)), ("args", json!(arguments))]
        }
    };
    Ok(fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
}

/// Parses the values of a flag that can be repeated, each a name and a value.
fn pairs(values: &[String], separator: char, flag: &str) -> anyhow::Result<Map<String, Value>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(separator).with_context(|| {
            format!("{flag} {text:?} has no {separator:?}; write it as {flag} \"NAME{separator}VALUE\"")
        })?;
        anyhow::Ok((name.trim().to_owned(), json!(value.trim_start())))
    };
    values.iter().map(pair).collect()
}

pub(super) async fn remove(
    around: &Surroundings,
    name: &str,
    scope: Option<McpScope>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let user = around.catalogue.user();
    let of_user = user.list().await.is_ok_and(|servers| servers.contains_key(name));
    let mut project = ProjectFile::open(around).await.ok();
    let in_project = project.as_ref().is_some_and(|file| file.contains(name));
    let scope = match (scope, of_user, in_project) {
        (None, true, true) => {
            anyhow::bail!("{name:?} is declared twice; choose with --scope user or --scope project")
        }
        (None, true, false) => McpScope::User,
        (None, false, true) => McpScope::Project,
        (Some(McpScope::User), true, _) => McpScope::User,
        (Some(McpScope::Project), _, true) => McpScope::Project,
        _ => return Ok(not_removable(around, name).await),
    };
    match (scope, &mut project) {
        (McpScope::User, _) => user.remove(name.to_owned()).await.map_err(anyhow::Error::msg)?,
        (McpScope::Project, Some(file)) => file.remove(name)?,
        (McpScope::Project, None) => {}
    }
    let note = format!("removed {name}; sessions that use it keep it until their next prompt");
    changes::report(as_json, &note, &json!({ "removed": name }));
    Ok(ExitCode::SUCCESS)
}

/// Explains why a server cannot be removed.
async fn not_removable(around: &Surroundings, name: &str) -> ExitCode {
    let entries = around.catalogue.entries(Some(&around.cwd)).await;
    let Some(entry) = entries.get(name) else { return no_such_server(around, name).await };
    let place = match &entry.chosen.declared.origin {
        Origin::Settings => around.config.file.display().to_string(),
        origin => origin.to_string(),
    };
    terminal::error(&format!(
        "{name} is declared in {place}; remove it there, or turn it off with `baton mcp disable {name}`"
    ));
    ExitCode::FAILURE
}

pub(super) async fn enable(
    around: &Surroundings,
    names: &[String],
    enabled: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let entries = around.catalogue.entries(Some(&around.cwd)).await;
    let disabled = around.catalogue.disabled().await.map_err(anyhow::Error::msg)?;
    for name in names {
        if !entries.contains_key(name) && !disabled.contains(name) {
            return Ok(no_such_server(around, name).await);
        }
    }
    around.catalogue.enable(names.to_vec(), enabled).await.map_err(anyhow::Error::msg)?;
    let done = if enabled { "enabled" } else { "disabled" };
    let note = format!("{done} {} for new sessions", names.join(", "));
    changes::report(as_json, &note, &json!({ done: names }));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, Group, McpCommand};

    fn configured(line: &[&str]) -> anyhow::Result<Value> {
        let cli = Cli::try_parse_from(["baton", "mcp", "add"].iter().chain(line))?;
        let Some(Command::Mcp(Group(McpCommand::Add(args)))) = cli.command else { panic!("not add") };
        configuration(&args)
    }

    #[test]
    fn commands_and_addresses_become_configurations() {
        let local = configured(&["s", "--env", "A=b=c", "--", "npx", "-y", "x", "--flag"]).unwrap();
        assert_eq!(local, json!({ "command": "npx", "args": ["-y", "x", "--flag"], "env": { "A": "b=c" } }));
        let remote = json!({ "type": "http", "url": "https://x/mcp" });
        assert_eq!(configured(&["s", "--url", "https://x/mcp"]).unwrap(), remote);
        assert_eq!(configured(&["s", "https://x/mcp"]).unwrap(), remote);
        let sse =
            configured(&["s", "--transport", "sse", "--url", "http://x", "-H", "A: b:c", "--tools", "a,b"]);
        let expected =
            json!({ "type": "sse", "url": "http://x", "headers": { "A": "b:c" }, "tools": ["a", "b"] });
        assert_eq!(sse.unwrap(), expected);
        let limited = configured(&["s", "--timeout", "1.5", "--trust-read-only-hint", "--", "x"]).unwrap();
        assert_eq!((&limited["timeout"], &limited["trustReadOnlyHint"]), (&json!(1500.0), &json!(true)));
    }

    #[test]
    fn mistakes_name_the_fix() {
        for (line, word) in [
            (&["s"][..], "-- COMMAND"),
            (&["s", "--env", "A", "--", "x"], "NAME=VALUE"),
            (&["s", "--header", "A", "--url", "http://x"], "NAME:VALUE"),
            (&["s", "--transport", "http", "--", "x"], "--url"),
            (&["s", "--transport", "stdio", "--url", "http://x"], "--"),
            (&["s", "--header", "A: b", "--", "x"], "--env"),
            (&["s", "--url", "http://x", "--", "y"], "--url"),
        ] {
            let error = format!("{:#}", configured(line).unwrap_err());
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }
}
