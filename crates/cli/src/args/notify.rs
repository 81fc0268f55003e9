//! `baton notify`.

use clap::{Args, Subcommand};

pub(super) const NOTES: &str = "\
Notifications are configured in the file, in the table [notifications]. Browsers subscribe on the page. A running server \
sends them; docs/notifications.md describes all channels.

Example:
  baton notify test                send one to every receiver";

/// Subcommands of `baton notify`.
#[derive(Debug, Subcommand)]
pub enum NotifyCommand {
    /// Send a test to the webhook, to Telegram and to subscribed browsers
    #[command(after_help = "Example:\n  baton notify test")]
    Test(NotifyTestArgs),
}

/// Flags of `baton notify test`.
#[derive(Debug, Args)]
pub struct NotifyTestArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
