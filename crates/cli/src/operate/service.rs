//! `baton service`: the server as a service of systemd.

use std::process::ExitCode;

use anyhow::Context;
use baton_ops::service::{ServiceScope, Systemd, SystemdService, Unit};
use clap::Parser as _;
use serde_json::{Value, json};

use super::NOTHING_TO_DO;
use crate::config::Environment;
use crate::{changes, terminal};
use baton_args::{Cli, InstallArgs, ServiceCommand};

pub(crate) fn service(cli: &Cli, command: &ServiceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) => install(cli, args),
        ServiceCommand::Uninstall { system, json } => {
            let service = of_scope(*system);
            let path = service.path();
            let Some(done) = service.uninstall()? else {
                let note = format!("not installed: {} does not exist", path.display());
                changes::report(*json, &note, &json!({ "removed": null }));
                return Ok(ExitCode::from(NOTHING_TO_DO));
            };
            let note = format!("removed {}; sessions stay", path.display());
            changes::report(*json, &note, &with_commands(json!({ "removed": path }), &done));
            Ok(report(&done, *json))
        }
        ServiceCommand::Status { system, json } => {
            let status = of_scope(*system).status();
            let state = status.state.as_deref().unwrap_or("unknown");
            if *json {
                terminal::json_line(&json!({ "unit": status.unit, "state": status.state }).to_string());
            } else {
                match &status.unit {
                    Some(unit) => terminal::line(&format!("{}: {state}", unit.display())),
                    None => terminal::line("not installed"),
                }
            }
            let is_active = status.unit.is_some() && state == "active";
            Ok(if is_active { ExitCode::SUCCESS } else { ExitCode::from(NOTHING_TO_DO) })
        }
    }
}

fn of_scope(system: bool) -> SystemdService {
    let scope = if system { ServiceScope::System } else { ServiceScope::User };
    let units = Environment::of_process().directory("XDG_CONFIG_HOME", ".config").join("systemd/user");
    SystemdService::new(scope, &units)
}

fn install(cli: &Cli, args: &InstallArgs) -> anyhow::Result<ExitCode> {
    check_arguments(&args.serve)?;
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path);
    let unit = Unit {
        scope: if args.system { ServiceScope::System } else { ServiceScope::User },
        program: std::env::current_exe().context("cannot find this program")?,
        home: cli.global.home.as_ref().map(absolute).transpose()?,
        config: cli.global.config.as_ref().map(absolute).transpose()?,
        arguments: args.serve.clone(),
        user: args.user.clone(),
        directory: args.directory.as_ref().map(absolute).transpose()?,
    };
    let text = unit.render()?;
    if args.print {
        text.lines().for_each(terminal::line);
        return Ok(ExitCode::SUCCESS);
    }
    let service = of_scope(args.system);
    let done = service.install(&text)?;
    let path = service.path();
    let change = with_commands(json!({ "installed": path }), &done);
    changes::report(args.json, &format!("wrote {}", path.display()), &change);
    Ok(report(&done, args.json))
}

/// Refuses arguments that `baton serve` would refuse: the service could never start.
fn check_arguments(arguments: &[String]) -> anyhow::Result<()> {
    let words = ["baton", "serve"].into_iter().chain(arguments.iter().map(String::as_str));
    let Err(error) = Cli::try_parse_from(words) else { return Ok(()) };
    let message = error.to_string();
    let what = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
    anyhow::bail!("`baton serve` does not take these arguments: {what}; `baton serve --help` lists them")
}

/// Adds what systemd did not do, for programs.
fn with_commands(mut change: Value, done: &Systemd) -> Value {
    match done {
        Systemd::Done => {}
        Systemd::Left { why, commands } => {
            change["problem"] = json!(why);
            change["commands"] = json!(commands);
        }
        Systemd::NotStarted { why, log } => {
            change["problem"] = json!(why);
            change["commands"] = json!([log]);
        }
    }
    change
}

/// Says what systemd did not do, unless it was said as JSON.
fn report(done: &Systemd, as_json: bool) -> ExitCode {
    match done {
        Systemd::Done => ExitCode::SUCCESS,
        Systemd::NotStarted { why, log } => {
            if !as_json {
                terminal::note(&format!("the service did not start: {why}"));
                terminal::note("its log says why:");
                terminal::line(log);
            }
            ExitCode::FAILURE
        }
        Systemd::Left { .. } if as_json => ExitCode::from(NOTHING_TO_DO),
        Systemd::Left { why, commands } => {
            terminal::note(&format!("systemd did not take it: {why}"));
            terminal::note("where systemd runs, use:");
            commands.iter().for_each(|command| terminal::line(command));
            terminal::note("elsewhere, run `baton serve` under your supervisor; see docs/operations.md");
            ExitCode::from(NOTHING_TO_DO)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_serve_does_not_take_are_refused() {
        let check =
            |words: &[&str]| check_arguments(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        check(&["--http", "127.0.0.1:8080", "--log-level", "info"]).unwrap();
        check(&[]).unwrap();
        let error = check(&["--htp", "127.0.0.1:8080"]).unwrap_err().to_string();
        assert!(error.contains("unexpected argument '--htp'"), "{error}");
        assert!(check(&["--help"]).is_err() && check(&["--http", "nowhere"]).is_err());
    }
}
