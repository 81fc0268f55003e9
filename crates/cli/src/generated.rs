//! Completion scripts and manual pages, generated from the flags.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::terminal;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // Generated into memory: the generator panics when its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "baton", &mut script);
    terminal::generated(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
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
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(Cli::command(), directory)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
