//! `baton service`: the server as a service of systemd.

use std::process::ExitCode;

use anyhow::Context;
use baton_ops::service::{Scope, Service, Systemd, Unit};
use serde_json::json;

use super::NOTHING_TO_DO;
use crate::args::{Cli, InstallArgs, ServiceCommand};
use crate::config::Environment;
use crate::terminal;

pub(crate) fn service(cli: &Cli, command: &ServiceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) => install(cli, args),
        ServiceCommand::Uninstall { system } => {
            let service = of_scope(*system);
            let Some(done) = service.uninstall()? else {
                terminal::note(&format!("not installed: {} does not exist", service.path().display()));
                return Ok(ExitCode::from(NOTHING_TO_DO));
            };
            terminal::note(&format!("removed {}; sessions stay", service.path().display()));
            Ok(report(&done))
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

fn of_scope(system: bool) -> Service {
    let scope = if system { Scope::System } else { Scope::User };
    let units = Environment::of_process().directory("XDG_CONFIG_HOME", ".config").join("systemd/user");
    Service::new(scope, &units)
}

fn install(cli: &Cli, args: &InstallArgs) -> anyhow::Result<ExitCode> {
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path);
    let unit = Unit {
        scope: if args.system { Scope::System } else { Scope::User },
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
    terminal::note(&format!("wrote {}", service.path().display()));
    Ok(report(&done))
}

fn report(done: &Systemd) -> ExitCode {
    match done {
        Systemd::Done => ExitCode::SUCCESS,
        Systemd::Left { why, commands } => {
            terminal::note(&format!("systemd did not take it: {why}"));
            terminal::note("where systemd runs, use:");
            commands.iter().for_each(|command| terminal::line(command));
            terminal::note("elsewhere, run `baton serve` under your supervisor; see docs/operations.md");
            ExitCode::from(NOTHING_TO_DO)
        }
    }
}
