//! Commands for operators: `stop`, `backup`, `restore`, `grants`, `audit`, `service`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::group::WithDefault;

pub(super) const STOP_NOTES: &str = "\
Example:
  baton stop --timeout 60

Servers that an SDK started belong to it and are not stopped, nor is any `baton run`.

Exit codes: 0 stopped, 1 still running after the time limit, 3 no server was running.";

/// Flags of `baton stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Wait at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) const SERVERS_NOTES: &str = "\
Examples:
  baton servers --store postgres://baton@db.example/baton
  baton servers --drain 10.0.0.7:9000

Exit codes: 0 done, 1 failed, 3 there is no such server.";

/// Flags of `baton servers`.
#[derive(Debug, Args)]
pub struct ServersArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Let a server finish its turns and stop; its sessions continue at the others. Takes the address or the id of `--json`
    #[arg(long, value_name = "SERVER")]
    pub drain: Option<String>,
}

/// `baton store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy all sessions from one store to another; a repeated copy appends what is new
    #[command(after_help = COPY_NOTES)]
    Copy(CopyArgs),
}

pub(super) const COPY_NOTES: &str = "\
Examples:
  baton store copy ~/.local/state/baton postgres://baton@db.example/baton
  baton store copy postgres://baton@db.example/baton /srv/baton

Servers may run meanwhile; copy again for what they have added. A session that has continued in the target is not \
overwritten. Plans, snapshots and other files of a session are copied with it; grants of locations and settings are not.

Exit codes: 0 everything is copied, 1 some sessions were left out, and each is named.";

/// Flags of `baton store copy`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// Home directory, or URL of a database, to copy from
    pub from: String,
    /// Home directory, or URL of a database, to copy to
    pub to: String,
    /// Print JSON, and no progress
    #[arg(long)]
    pub json: bool,
}

pub(super) const BACKUP_NOTES: &str = "\
Examples:
  baton backup ~/baton.tar                      back up while the server runs
  baton backup --json backup.tar | jq .bytes    for scripts
  tar tf backup.tar                             list what is in it

A backup contains every session with its files, the grants of locations and the settings. Every prompt that was \
acknowledged before the backup began is in it. It contains no keys; sessions can contain anything that was said in them.

Exit codes: 0 written, 1 failed, and then there is no file.";

/// Flags of `baton backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write: a tar archive that only you can read
    pub file: PathBuf,
    /// Include the token that clients of the server must send
    #[arg(long)]
    pub with_token: bool,
    /// Replace the file if it exists
    #[arg(long, short)]
    pub force: bool,
    /// Print JSON, and no progress
    #[arg(long)]
    pub json: bool,
}

pub(super) const RESTORE_NOTES: &str = "\
Examples:
  baton stop; baton restore --force backup.tar  go back to a backup
  baton restore --home /srv/baton backup.tar    restore to a new home

The backup is unpacked and checked as a whole before anything is replaced. Restore only backups that you trust: grants in \
them let tools run without asking.

Exit codes: 0 restored, 1 failed, and then nothing was changed.";

/// Flags of `baton restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Backup to restore
    pub file: PathBuf,
    /// Replace the sessions of a home that is not empty; they are moved aside
    #[arg(long, short)]
    pub force: bool,
    /// Print JSON, and no progress
    #[arg(long)]
    pub json: bool,
}

/// Subcommands of `baton grants`.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// List what may run without asking, in all sessions and locations
    #[command(
        after_help = "Example:\n  baton grants list --session 3f2a\n\nExit codes: 0 done, 1 failed, 3 there is no such session."
    )]
    List(ListGrantsArgs),
    /// Revoke grants, also while a server runs
    #[command(after_help = REVOKE_NOTES)]
    Revoke(RevokeArgs),
}

impl WithDefault for GrantsCommand {
    type Flags = ListGrantsArgs;

    fn default_with(flags: ListGrantsArgs) -> Self {
        Self::List(flags)
    }
}

/// Flags of `baton grants list`.
#[derive(Debug, Args)]
pub struct ListGrantsArgs {
    /// List only grants of this session, given by its id or a unique prefix of it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const REVOKE_NOTES: &str = "\
Examples:
  baton grants revoke 0190c2f0                  one grant of the list
  baton grants revoke --session 3f2a            all of a session but deny rules
  baton grants revoke --location /srv/project   all grants of a location

Exit codes: 0 revoked, 1 failed, 3 there was no such grant.";

/// Arguments of `baton grants revoke`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["grant", "session", "location"])))]
pub struct RevokeArgs {
    /// Grant to revoke, by its id or a unique prefix of it
    pub grant: Option<String>,
    /// Revoke all grants and allow rules of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Revoke all grants of this location
    #[arg(long, value_name = "DIR")]
    pub location: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) const AUDIT_NOTES: &str = "\
Examples:
  baton audit --since 7d
  baton audit --since 2026-11-01 --json > audit.jsonl";

/// Flags of `baton audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// List only what happened since: a date (2026-11-01), a time (2026-11-01T08:00:00Z) or a span (7d, 12h)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Subcommands of `baton service`.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Install the server as a service of systemd, and start it
    #[command(after_help = SERVICE_NOTES)]
    Install(InstallArgs),
    /// Stop the service and remove it; sessions stay
    #[command(
        after_help = "Example:\n  baton service uninstall\n\nExit codes: 0 removed, 1 failed, 3 not installed, or systemd has to be told by hand."
    )]
    Uninstall {
        /// Remove the service of the system
        #[arg(long)]
        system: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show whether the service is installed and running
    #[command(
        after_help = "Example:\n  baton service status\n\nExit codes: 0 running, 1 failed, 3 not installed, or not running."
    )]
    Status(StatusArgs),
}

impl WithDefault for ServiceCommand {
    type Flags = StatusArgs;

    fn default_with(flags: StatusArgs) -> Self {
        Self::Status(flags)
    }
}

/// Flags of `baton service status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show the service of the system
    #[arg(long)]
    pub system: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const SERVICE_NOTES: &str = "\
Examples:
  baton service install -- --http 127.0.0.1:8080
  baton service install --print                 show the unit, install nothing
  sudo baton service install --system --directory /srv/projects

Keys of models go into ~/.config/baton/environment, or /etc/baton/environment for the system; see docs/operations.md.

Exit codes: 0 installed, 1 failed, 3 the unit is written, and systemd has to be told by hand.";

/// Arguments of `baton service install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Install it for the system, as a user of its own, with hardening
    #[arg(long)]
    pub system: bool,
    /// Print the unit, and install nothing
    #[arg(long)]
    pub print: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "print")]
    pub json: bool,
    /// User that the service of the system runs as
    #[arg(long, value_name = "NAME", default_value = "baton", requires = "system")]
    pub user: String,
    /// Working directory of the server; a service of the system can write nowhere else
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Arguments of `baton serve`
    #[arg(last = true)]
    pub serve: Vec<String>,
}
