//! Completion scripts and manual pages, generated from the flags.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use baton_people::Role;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgGroup, Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::logging;
use crate::terminal;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // Generated into memory: the generator panics when its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut completed(), "baton", &mut script);
    terminal::generated(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// Returns the commands as completion scripts offer them: without hidden flags and commands, which the generators would
/// include, and with the values of flags that are parsed elsewhere.
fn completed() -> Command {
    visible(&Cli::command()).version(env!("CARGO_PKG_VERSION"))
}

/// Copies a command without its hidden flags and commands.
fn visible(command: &Command) -> Command {
    let is_visible = |arg: &&Arg| !arg.is_hide_set();
    let shown: Vec<&clap::Id> = command.get_arguments().filter(is_visible).map(Arg::get_id).collect();
    let groups = command.get_groups().map(|group| {
        let members = group.get_args().filter(|id| shown.contains(id)).cloned();
        ArgGroup::new(group.get_id().clone()).multiple(true).args(members)
    });
    // clap takes static names only, and lends those it has. The program prints one script and ends.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().filter(is_visible).cloned().map(with_values))
        .groups(groups.collect::<Vec<_>>())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible))
}

/// Adds the possible values of a flag that clap takes for free text.
fn with_values(arg: Arg) -> Arg {
    let values = match arg.get_id().as_str() {
        "engine" => baton_engines::names().collect(),
        "role" => Role::ALL.map(Role::name).to_vec(),
        "log_level" => logging::LEVELS.to_vec(),
        _ => return arg,
    };
    arg.value_parser(PossibleValuesParser::new(values))
}

/// Prints the main manual page, or writes all pages to a directory.
#[expect(clippy::disallowed_methods, reason = "a command that writes files and ends; no server runs")]
pub(crate) fn manual(directory: Option<&Path>) -> anyhow::Result<ExitCode> {
    match directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            terminal::generated(&String::from_utf8_lossy(&page));
        }
        Some(directory) => {
            let write = || {
                std::fs::create_dir_all(directory)?;
                clap_mangen::generate_to(Cli::command(), directory)
            };
            write().with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut completed(), "baton", &mut script);
        String::from_utf8(script).unwrap()
    }

    #[test]
    fn hidden_flags_and_commands_are_not_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for hidden in ["yolo", "headless", "auth-token-env", "proxy"] {
                assert!(!script.contains(hidden), "{shell} offers {hidden}");
            }
            for shown in ["sessions", "allow-host", "marketplace", "trust-read-only-hint"] {
                assert!(script.contains(shown), "{shell} does not offer {shown}");
            }
        }
    }

    #[test]
    fn values_of_flags_are_completed() {
        let script = script(Shell::Bash);
        for values in ["codex claude pi", "viewer approver driver admin", "error warn info debug trace none"]
        {
            assert!(script.contains(values), "{values}");
        }
    }
}
