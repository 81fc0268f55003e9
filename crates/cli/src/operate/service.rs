//! `baton service`: the server as a service of systemd.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use baton_ops::service::{ServiceScope, Systemd, SystemdService, Unit};
use clap::Parser as _;
use serde_json::{Value, json};

use super::NOTHING_TO_DO;
use crate::args::{Cli, InstallArgs, ServiceCommand};
use crate::config::Environment;
use crate::{changes, terminal};

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
        ServiceCommand::Status(args) => {
            let status = of_scope(args.system).status();
            let state = status.state.as_deref().unwrap_or("unknown");
            if args.json {
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
    let unit = unit(cli, args, &Environment::of_process())?;
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

/// Variables that choose the home, the store or the log, and that a unit takes over. Those of paths are made absolute.
const VARIABLES: [&str; 5] =
    ["BATON_STORE", "BATON_PLACE", "BATON_LOG", "BATON_LOG_FORMAT", "BATON_DURABILITY"];

/// Directories of the user's own files. A service of the system runs as another user, who has others.
const USER_DIRECTORIES: [&str; 2] = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"];

/// Describes a service that uses the same home, store, configuration and log as commands of this shell.
fn unit(cli: &Cli, args: &InstallArgs, environment: &Environment) -> anyhow::Result<Unit> {
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let global = &cli.global;
    let options = [
        ("--store", global.store.clone()),
        ("--place", global.place.clone()),
        ("--log-level", global.log_level.clone()),
        ("--log-format", global.log_format.map(|format| format.name().to_owned())),
    ];
    let options: Vec<(&'static str, String)> =
        options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut variables = Vec::new();
    // A flag wins over its variable.
    if let (None, Some((_, home))) = (&global.home, environment.first(&["COPILOT_HOME", "BATON_HOME"])) {
        variables.push(("BATON_HOME", absolute(&home.into())?.display().to_string()));
    }
    let directories = USER_DIRECTORIES.into_iter().filter(|_| !args.system);
    for name in VARIABLES.into_iter().chain(directories) {
        variables.extend(environment.get(name).map(|value| (name, value.to_owned())));
    }
    let is_given = |flag: &str| options.iter().any(|(name, _)| *name == flag);
    variables.retain(|(name, _)| match *name {
        "BATON_STORE" => !is_given("--store"),
        "BATON_PLACE" => !is_given("--place"),
        "BATON_LOG" => !is_given("--log-level"),
        "BATON_LOG_FORMAT" => !is_given("--log-format"),
        _ => true,
    });
    let unit = Unit {
        scope: if args.system { ServiceScope::System } else { ServiceScope::User },
        program: std::env::current_exe().context("cannot find this program")?,
        home: global.home.as_ref().map(absolute).transpose()?,
        config: global.config.as_ref().map(absolute).transpose()?,
        options,
        environment: variables,
        arguments: args.serve.clone(),
        user: args.user.clone(),
        directory: args.directory.as_ref().map(absolute).transpose()?,
    };
    check_secrets(&unit)?;
    check_arguments(&unit)?;
    Ok(unit)
}

/// Refuses passwords: every user of the machine can read a unit.
fn check_secrets(unit: &Unit) -> anyhow::Result<()> {
    let options = unit.options.iter().chain(&unit.environment).map(|(name, value)| (*name, value));
    let arguments = unit.arguments.iter().map(|argument| ("an argument of `baton serve`", argument));
    let Some((name, _)) = options.chain(arguments).find(|(_, value)| has_password(value)) else {
        return Ok(());
    };
    let (file, config) = match unit.scope {
        ServiceScope::User => ("~/.config/baton/environment", "~/.config/baton/config.toml"),
        ServiceScope::System => ("/etc/baton/environment", "a file for --config"),
    };
    anyhow::bail!(
        "{name} contains a password, which every user of this machine could read in the unit; write it as \
         BATON_STORE=URL into {file} (mode 0600), which the unit reads, or as url in [store] of {config} (mode 0600), \
         and install the service without {name}"
    )
}

/// Whether a text contains a URL with a password.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    // Up to the last sign: a password may contain any character.
    rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) || rest.contains("password=")
}

/// Refuses arguments that `baton serve` would refuse: the service could never start.
fn check_arguments(unit: &Unit) -> anyhow::Result<()> {
    let given = [("--home", unit.home.is_some()), ("--config", unit.config.is_some())];
    let paths = given.into_iter().filter(|(_, is_given)| *is_given).flat_map(|(name, _)| [name, "/"]);
    let options = unit.options.iter().flat_map(|(name, value)| [*name, value.as_str()]);
    let words = ["baton", "serve"].into_iter().chain(paths).chain(options);
    let Err(error) = Cli::try_parse_from(words.chain(unit.arguments.iter().map(String::as_str))) else {
        return Ok(());
    };
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
    use crate::args::{Command, Group};

    use super::*;

    /// The unit of a command line, in this environment.
    fn unit_of(line: &str, variables: &[(&str, &str)]) -> anyhow::Result<Unit> {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Some(Command::Service(Group(ServiceCommand::Install(args)))) = &cli.command else {
            panic!("{line}")
        };
        let environment = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        unit(&cli, args, &environment)
    }

    #[test]
    fn service_uses_what_commands_of_the_shell_use() {
        let flags = "--store postgres://b@db/b --place rack --log-level debug --log-format text";
        let unit = unit_of(&format!("baton {flags} service install"), &[]).unwrap();
        assert!(unit.render().unwrap().contains(&format!("serve {flags}\n")));

        let variables = [
            ("COPILOT_HOME", "/srv/sdk"),
            ("BATON_HOME", "/srv/other"),
            ("BATON_STORE", "postgres://b@db/b"),
            ("BATON_PLACE", "rack"),
            ("BATON_LOG", "debug"),
            ("XDG_STATE_HOME", "/srv/state"),
        ];
        let text = unit_of("baton service install", &variables).unwrap().render().unwrap();
        for line in [
            "Environment=BATON_HOME=/srv/sdk",
            "Environment=BATON_STORE=postgres://b@db/b",
            "Environment=BATON_PLACE=rack",
            "Environment=BATON_LOG=debug",
            "Environment=XDG_STATE_HOME=/srv/state",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("/srv/other"), "COPILOT_HOME wins: {text}");

        let both = "baton --home /srv/flag --store postgres://flag@db/b service install";
        let text = unit_of(both, &variables).unwrap().render().unwrap();
        assert!(!text.contains("/srv/sdk") && !text.contains("BATON_STORE"), "flags win: {text}");
        let system = unit_of("baton service install --system", &variables).unwrap();
        assert!(!system.environment.iter().any(|(name, _)| name.starts_with("XDG_")), "{system:?}");
    }

    #[test]
    fn password_does_not_get_into_a_unit() {
        for (line, variables) in [
            ("baton service install", &[("BATON_STORE", "postgres://b:hunter2@db/b")][..]),
            ("baton service install", &[("BATON_STORE", "postgres://b@db/b?password=hunter2")]),
            ("baton --store postgres://b:hunter2@db/b service install", &[]),
            ("baton service install --system -- --store postgres://b:hunter2@db/b", &[]),
        ] {
            let error = unit_of(line, variables).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && error.contains("0600"), "{error}");
        }
        unit_of("baton service install", &[("BATON_STORE", "postgres://b@db:5432/b")]).unwrap();
    }

    #[test]
    fn arguments_that_serve_does_not_take_are_refused() {
        let check = |words: &str| unit_of(format!("baton service install {words}").trim(), &[]);
        check("-- --http 127.0.0.1:8080 --log-level info").unwrap();
        check("").unwrap();
        let error = check("-- --htp 127.0.0.1:8080").unwrap_err().to_string();
        assert!(error.contains("unexpected argument '--htp'"), "{error}");
        assert!(check("-- --help").is_err() && check("-- --http nowhere").is_err());
        let twice = unit_of("baton --home /a service install -- --home /b", &[]);
        assert!(twice.unwrap_err().to_string().contains("--home"));
    }
}
