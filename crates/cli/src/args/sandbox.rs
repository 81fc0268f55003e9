//! `baton sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;

use baton_protocol::sandbox::SandboxLevel;
use clap::{Args, Subcommand};

use crate::args::group::WithDefault;

pub(super) const NOTES: &str = "\
Examples:
  baton sandbox -- npm test
  baton sandbox run --level read-only -- ls ~
  baton sandbox --host packages.example.org -- npm ci
  baton sandbox explain ~/.ssh .git/config example.org

The command runs as commands of sessions in this directory do. Without a person to ask, hosts that no rule allows are refused, and \
files that act and that the command created are moved away; both are listed at the end.

Exit codes: that of the command; 128 and the number of the signal that ended it; 125 if the sandbox cannot be built, 126 if the \
command cannot be started, 127 if there is no such command.";

/// `baton sandbox`.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Run a command in the sandbox of this directory
    #[command(after_help = "Example:\n  baton sandbox run -- npm test")]
    Run(RunInSandboxArgs),
    /// Say what programs inside find at a path or a host, and why
    #[command(after_help = "Example:\n  baton sandbox explain ~/.ssh .git/config example.org")]
    Explain(ExplainSandboxArgs),
}

impl WithDefault for SandboxCommand {
    type Flags = RunInSandboxArgs;

    fn default_with(flags: RunInSandboxArgs) -> Self {
        Self::Run(flags)
    }
}

/// What a sandbox opens, beside the configuration.
#[derive(Debug, Args)]
pub struct SandboxRules {
    /// Level: read-only, workspace or off [default: that of the configuration]
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<SandboxLevel>,
    /// Allow a host, as example.org, example.org:8443 or 127.0.0.1:5432; can be repeated
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Let programs write this directory too; can be repeated
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,
    /// Let programs read this path although it is hidden by default; can be repeated
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// Hide this path; can be repeated
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
}

/// Flags of `baton sandbox`.
#[derive(Debug, Args)]
pub struct RunInSandboxArgs {
    /// What the sandbox opens.
    #[command(flatten)]
    pub rules: SandboxRules,
    /// Command to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags of `baton sandbox explain`.
#[derive(Debug, Args)]
pub struct ExplainSandboxArgs {
    /// What the sandbox opens.
    #[command(flatten)]
    pub rules: SandboxRules,
    /// Paths and hosts
    #[arg(required = true, value_name = "PATH|HOST")]
    pub subjects: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
