//! `baton attach`.

use std::path::PathBuf;

use clap::Args;

use super::values::api_address;

pub(super) const NOTES: &str = "\
Examples:
  baton attach                              the session that changed last
  baton attach 3f2a                         the session that starts with 3f2a
  baton attach --new                        a new session in this directory
  baton attach --read-only                  watch only
  echo 'run the tests' | baton attach 3f2a  send a prompt, wait for its outcome
  BATON_TOKEN=... baton attach --url https://baton.example:8443

On a terminal, it opens the full-screen interface, and starts a server if none runs; `?` shows its keys. With --plain, \
--read-only, --json, --history or a pipe, it prints lines instead, and needs a running server:

A line that you type is a prompt, or the answer if you are asked something; during a turn it steers the turn. Ctrl-C \
cancels the running turn; a second Ctrl-C leaves. When the server restarts, the client reconnects without missing events.

Name a self-signed certificate of the server with --ca; SSL_CERT_FILE replaces the certificates of the system.";

/// Flags of `baton attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Session to attach to, by its id or a unique prefix of it [default: the session that changed last]
    pub session: Option<String>,
    /// Create a session in this directory
    #[arg(long, conflicts_with_all = ["session", "read_only"])]
    pub new: bool,
    /// Print lines instead of opening the full-screen interface: for screen readers, and to keep the terminal's own scrollback
    #[arg(long)]
    pub plain: bool,
    /// Watch only: no prompts, no answers, no cancel
    #[arg(long, visible_alias = "watch")]
    pub read_only: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    pub json: bool,
    /// Show this many of the last events first [default: 200]
    #[arg(long, value_name = "N")]
    pub history: Option<u64>,
    /// Connect to the server's HTTP API at this address [default: the server of this home]
    #[arg(long, value_name = "URL", value_parser = api_address)]
    pub url: Option<String>,
    /// Connect to the server's HTTP API on this socket file
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub socket: Option<PathBuf>,
    /// Trust this certificate too (PEM): the server's own, if it is self-signed, or its authority's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Read the server's token from this file [env: BATON_TOKEN holds the token itself]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Events that are shown first.
const HISTORY: u64 = 200;

impl AttachArgs {
    /// Whether the full-screen interface is wanted, if there is a terminal.
    pub fn is_full_screen(&self) -> bool {
        !self.plain && !self.read_only && !self.json && self.history.is_none()
    }

    /// Returns how many of the last events are shown first.
    pub fn history(&self) -> u64 {
        self.history.unwrap_or(HISTORY)
    }
}
