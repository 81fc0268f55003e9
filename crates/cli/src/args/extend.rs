//! `baton skills` and `baton plugins`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::args::JsonArgs;
use crate::args::group::WithDefault;

pub(super) const SKILLS: &str = "\
Examples:
  baton skills list                            what sessions here use
  baton skills show release-notes              its text, as the model gets it
  baton skills disable release-notes
  mkdir -p \"$(baton skills path --preferred)/mine\"   a skill of your own

A skill is text for the model. It grants nothing, and starts nothing.";

/// Help of a command that needs a skill: an example, and the exit codes.
macro_rules! no_skill {
    ($example:literal) => {
        concat!("Example:\n  ", $example, "\n\nExit codes: 0 done, 1 failed, 3 there is no such skill.")
    };
}

/// Help of a command that needs a plugin: an example, and the exit codes.
macro_rules! no_plugin {
    ($example:literal) => {
        concat!("Example:\n  ", $example, "\n\nExit codes: 0 done, 1 failed, 3 there is no such plugin.")
    };
}

/// Subcommands of `baton skills`.
#[derive(Debug, Subcommand)]
pub enum SkillsCommand {
    /// List the skills that sessions in this directory use
    #[command(after_help = "Example:\n  baton skills list --json")]
    List(JsonArgs),
    /// Print a skill: where it comes from, and its text
    #[command(after_help = no_skill!("baton skills show release-notes"))]
    Show {
        /// Skill to print
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use skills again that were disabled
    #[command(after_help = no_skill!("baton skills enable release-notes"))]
    Enable {
        /// Skills to enable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use skills in no session
    #[command(after_help = no_skill!("baton skills disable release-notes"))]
    Disable {
        /// Skills to disable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the directories in which skills are looked for, the strongest first
    #[command(after_help = "Example:\n  baton skills path --preferred")]
    Path {
        /// Print only the directory for skills of your own
        #[arg(long)]
        preferred: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl WithDefault for SkillsCommand {
    type Flags = JsonArgs;

    fn default_with(flags: JsonArgs) -> Self {
        Self::List(flags)
    }
}

pub(super) const PLUGINS: &str = "\
Examples:
  baton plugins marketplace add ./team-plugins   it has a marketplace.json
  baton plugins install review@team-plugins
  baton plugins install ./my-plugin              a copy of a directory
  baton plugins list
  baton plugins disable review

Nothing is downloaded: clone a repository first. Sessions use plugins with their next start.";

/// Subcommands of `baton plugins`.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List the installed plugins
    #[command(after_help = "Example:\n  baton plugins list --json")]
    List(JsonArgs),
    /// Install a plugin of a marketplace, or a copy of a directory
    #[command(after_help = no_plugin!("baton plugins install review@team-plugins"))]
    Install {
        /// PLUGIN@MARKETPLACE, or a directory
        source: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read plugins again from where they were installed
    #[command(after_help = no_plugin!("baton plugins update review"))]
    Update {
        /// Plugins to update [default: all]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use plugins again that were disabled
    #[command(after_help = no_plugin!("baton plugins enable review"))]
    Enable {
        /// Plugins to enable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep plugins, but do not use them
    #[command(after_help = no_plugin!("baton plugins disable review"))]
    Disable {
        /// Plugins to disable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Uninstall plugins
    #[command(after_help = no_plugin!("baton plugins uninstall review"))]
    Uninstall {
        /// Plugins to uninstall
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add, list and remove marketplaces, and list their plugins
    #[command(subcommand)]
    Marketplace(MarketplaceCommand),
}

impl WithDefault for PluginsCommand {
    type Flags = JsonArgs;

    fn default_with(flags: JsonArgs) -> Self {
        Self::List(flags)
    }
}

/// Subcommands of `baton plugins marketplace`.
#[derive(Debug, Subcommand)]
pub enum MarketplaceCommand {
    /// Add a marketplace
    #[command(after_help = "Example:\n  baton plugins marketplace add ./team-plugins")]
    Add {
        /// Directory with a `.claude-plugin/marketplace.json` or `marketplace.json`
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the marketplaces
    #[command(after_help = "Example:\n  baton plugins marketplace list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the plugins of a marketplace
    #[command(after_help = "Example:\n  baton plugins marketplace browse team-plugins")]
    Browse {
        /// Marketplace
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a marketplace
    #[command(after_help = "Example:\n  baton plugins marketplace remove team-plugins --force")]
    Remove {
        /// Marketplace to remove
        name: String,
        /// Uninstall its plugins, too
        #[arg(long, short)]
        force: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
