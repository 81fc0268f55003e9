//! The program `baton`: it reads flags, files and the environment, wires the parts together and prints. Nothing else.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod args;
mod attach;
mod beacon;
mod config;
mod descriptors;
mod doctor;
mod door;
mod engines;
mod record;
mod run;
mod sdk;
mod serve;
mod sessions;
mod setup;
mod show;
mod signals;
mod terminal;
mod tool_environment;
mod workspaces;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    setup::close_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return terminal::wrong_usage(&error),
    };
    match start(&cli) {
        Ok(code) => code,
        Err(error) => {
            terminal::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        None if cli.sdk.wanted() => sdk::serve(cli),
        None => {
            Cli::command().print_help()?;
            Ok(ExitCode::from(2))
        }
        Some(Command::Serve(args)) => serve::serve(cli, args),
        Some(Command::Run(args)) => run::run(cli, args),
        Some(Command::Attach(args)) => attach::attach(cli, args),
        Some(Command::Record(args)) => record::record(args),
        Some(Command::Replay(args)) => record::replay(args),
        Some(Command::Sessions(command)) => sessions::sessions(cli, command),
        Some(Command::Doctor(args)) => doctor::doctor(cli, args),
        Some(Command::Config(args)) => config::show(cli, args),
        Some(Command::Completions { shell }) => terminal::completions(*shell),
        Some(Command::Man { directory }) => terminal::manual(directory.as_deref()),
    }
}
