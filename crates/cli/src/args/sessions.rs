//! `baton sessions`.

use std::path::PathBuf;

use clap::Subcommand;

/// Subcommands of `baton sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List stored sessions, last changed first
    List {
        /// List only sessions of this directory
        #[arg(long)]
        here: bool,
        /// List at most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Search titles and conversations
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
    Show {
        /// Session to show, by its id or a unique prefix of it
        id: String,
        /// Print every event as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Rename a session
    Rename {
        /// Session to rename, by its id or a unique prefix of it
        id: String,
        /// New name
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Write a session to a file, one event a line
    Export {
        /// Session to export, by its id or a unique prefix of it
        id: String,
        /// File to write to [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Write a page for browsers instead, which loads nothing and runs nothing
        #[arg(long)]
        html: bool,
    },
    /// Read a session from a file that `export` or another program wrote
    Import {
        /// File to read; `-` is standard input
        file: PathBuf,
        /// Id of the imported session [default: the id in the file]
        #[arg(long)]
        id: Option<String>,
    },
    /// Delete sessions permanently
    Delete {
        /// Sessions to delete, by their ids or unique prefixes of them
        #[arg(required = true)]
        ids: Vec<String>,
        /// Delete without asking
        #[arg(long, short)]
        yes: bool,
    },
}
