//! `baton sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::group::WithDefault;

/// Help of a command that needs a session: an example, and the exit codes.
macro_rules! no_session {
    ($example:literal) => {
        concat!("Example:\n  ", $example, "\n\nExit codes: 0 done, 1 failed, 3 there is no such session.")
    };
}

/// Subcommands of `baton sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List stored sessions, last changed first
    #[command(after_help = "Example:\n  baton sessions list --here --limit 10")]
    List(ListSessionsArgs),
    /// Search titles and conversations
    #[command(after_help = "Example:\n  baton sessions search flaky test")]
    Search {
        /// Text to search for, in upper or lower case
        #[arg(required = true)]
        text: Vec<String>,
        /// List at most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the conversation of a session
    #[command(after_help = no_session!("baton sessions show 3f2a"))]
    Show {
        /// Session to show, by its id or a unique prefix of it
        id: String,
        /// Print every event as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Rename a session
    #[command(after_help = no_session!("baton sessions rename 3f2a the flaky test"))]
    Rename {
        /// Session to rename, by its id or a unique prefix of it
        id: String,
        /// New name
        #[arg(required = true)]
        name: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a session to a file, one event a line
    #[command(after_help = no_session!("baton sessions export 3f2a -o session.jsonl"))]
    Export {
        /// Session to export, by its id or a unique prefix of it
        id: String,
        /// File to write to [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file if it exists
        #[arg(long, short, requires = "output")]
        force: bool,
        /// Write a page for browsers instead, which loads nothing and runs nothing
        #[arg(long)]
        html: bool,
    },
    /// Read a session from a file that `export` or another program wrote
    #[command(after_help = "Example:\n  baton sessions import session.jsonl --id copy")]
    Import {
        /// File to read; `-` is standard input
        file: PathBuf,
        /// Id of the imported session [default: the id in the file]
        #[arg(long)]
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions permanently
    #[command(after_help = no_session!("baton sessions delete 3f2a 91c0 --yes"))]
    Delete {
        /// Sessions to delete, by their ids or unique prefixes of them
        #[arg(required = true)]
        ids: Vec<String>,
        /// Delete without asking
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl WithDefault for SessionsCommand {
    type Flags = ListSessionsArgs;

    fn default_with(flags: ListSessionsArgs) -> Self {
        Self::List(flags)
    }
}

/// Flags of `baton sessions list`.
#[derive(Debug, Args)]
pub struct ListSessionsArgs {
    /// List only sessions of this directory
    #[arg(long)]
    pub here: bool,
    /// List at most this many
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
