//! The commands of the program `baton`: reads flags, files and the environment, wires the crates together, and prints.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod args;
mod attach;
mod changes;
mod client;
mod cluster;
mod config;
mod doctor;
mod file_limit;
mod generated;
mod idle;
mod interface;
mod landing;
mod logging;
mod mcp;
mod notify;
mod operate;
mod people;
mod plugins;
mod record;
mod rows;
mod run;
mod sandbox;
mod sdk;
mod serve;
mod sessions;
mod setup;
mod share;
mod show;
mod signals;
mod skills;
mod sql_worker;
mod tool_environment;
mod usage;
mod watch;
mod words;

use std::io::ErrorKind;
use std::process::ExitCode;

use baton_client::discovery;
use baton_terminal as terminal;
use clap::Parser;

use crate::args::{Cli, Command, Group, OVERVIEW};

/// Exit code of a command whose output could not be written. The help of `baton run` names it.
const NOT_WRITTEN: u8 = 7;

/// Runs the program with the arguments and the environment of the process. Returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    // Before anything else is set up: they are started for each command and each query of a model.
    if let Some(code) = sandbox::helper().or_else(sql_worker::main) {
        return code;
    }
    baton_allocator::give_large_blocks_back();
    setup::protect_memory();
    logging::log_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::print_usage(error),
    };
    let done = start(&cli);
    // A closed pipe is no failure: its reader has what it wanted.
    let failure = terminal::output_failure();
    let lost = failure.filter(|why| *why != ErrorKind::BrokenPipe);
    match (lost, done) {
        (None, Ok(code)) => code,
        (None, Err(error)) if failure.is_some() && is_broken_pipe(&error) => ExitCode::SUCCESS,
        (None, Err(error)) => {
            terminal::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
        (Some(why), done) => {
            let error = done.err().map_or_else(|| why.to_string(), |error| format!("{error:#}"));
            terminal::error(&format!("cannot write to the standard output: {error}"));
            ExitCode::from(NOT_WRITTEN)
        }
    }
}

/// Whether an error says that nobody reads the output.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

fn start(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        None if cli.sdk.are_used() => sdk::serve(cli),
        None if terminal::is_interactive() => interface::open(cli),
        None => {
            OVERVIEW.lines().for_each(terminal::line);
            Ok(ExitCode::from(2))
        }
        Some(Command::Serve(args)) => serve::serve(cli, args),
        Some(Command::Run(args)) => run::run(cli, args),
        Some(Command::Link(args)) => people::link(cli, args),
        Some(Command::People(Group(command))) => people::people(cli, command),
        Some(Command::Notify(command)) => notify::notify(cli, command),
        Some(Command::Attach(args)) if args.is_full_screen() && terminal::is_interactive() => {
            interface::attach(cli, args)
        }
        Some(Command::Attach(args)) => attach::attach(cli, args),
        Some(Command::Sandbox(Group(command))) => sandbox::sandbox(cli, command),
        Some(Command::Record(args)) => record::record(args),
        Some(Command::Replay(args)) => record::replay(args),
        Some(Command::Sessions(Group(command))) => sessions::sessions(cli, command),
        Some(Command::Skills(Group(command))) => skills::skills(cli, command),
        Some(Command::Plugins(Group(command))) => plugins::plugins(cli, command),
        Some(Command::Mcp(Group(command))) => mcp::mcp(cli, command),
        Some(Command::Stop(args)) => operate::stop(cli, args),
        Some(Command::Backup(args)) => operate::backup(cli, args),
        Some(Command::Servers(args)) => cluster::servers(cli, args),
        Some(Command::Store(command)) => operate::store(cli, command),
        Some(Command::Restore(args)) => operate::restore(cli, args),
        Some(Command::Grants(Group(command))) => operate::grants(cli, command),
        Some(Command::Audit(args)) => operate::audit(cli, args),
        Some(Command::Service(Group(command))) => operate::service(cli, command),
        Some(Command::Doctor(args)) => doctor::doctor(cli, args),
        Some(Command::Config(args)) => config::show(cli, args),
        Some(Command::Completions { shell }) => generated::completions(*shell),
        Some(Command::Man { directory }) => generated::manual(directory.as_deref()),
    }
}
