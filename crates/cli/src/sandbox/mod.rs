//! `baton sandbox`, and the hidden commands that build walls.

mod explain;
mod finding;
mod run;
mod trial;
mod walls;

use std::process::ExitCode;

use baton_sandbox::{Host, Program};

pub(crate) use self::finding::finding;
use crate::args::{Cli, SandboxCommand};

/// Runs a hidden command that builds walls, if the arguments of the process name one.
pub(crate) fn helper() -> Option<ExitCode> {
    baton_sandbox::helper::main(std::env::args_os().skip(1))
}

/// Returns this system, with this program as the helper. Nothing is probed yet.
pub(crate) fn host() -> Option<Host> {
    let program = Program { path: std::env::current_exe().ok()?, arguments: Vec::new() };
    Some(Host::later(program))
}

/// Runs a command in the sandbox of the current directory, or explains what is in it.
pub(crate) fn sandbox(cli: &Cli, command: &SandboxCommand) -> anyhow::Result<ExitCode> {
    match command {
        SandboxCommand::Run(args) => run::run(cli, args),
        SandboxCommand::Explain(args) => explain::explain(cli, args),
    }
}
