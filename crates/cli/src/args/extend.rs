//! `baton skills` and `baton plugins`.

use std::path::PathBuf;

use clap::Subcommand;

pub(super) const SKILLS: &str = "\
Examples:
  baton skills list                              what sessions in this directory use
  baton skills show release-notes                its text, as the model gets it
  baton skills disable release-notes
  mkdir -p \"$(baton skills path --preferred)/mine\"   the directory for skills of your own

A skill is text for the model. It grants nothing, and starts nothing.";

/// Subcommands of `baton skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills that sessions in this directory use
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a skill: where it comes from, and its text
    #[command(after_help = NO_SKILL)]
    Show {
        /// Skill to print
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use skills again that were disabled
    #[command(after_help = NO_SKILL)]
    Enable {
        /// Skills to enable
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Use skills in no session
    #[command(after_help = NO_SKILL)]
    Disable {
        /// Skills to disable
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Print the directories in which skills are looked for, the strongest first
    Path {
        /// Print only the directory for skills of your own
        #[arg(long)]
        preferred: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const NO_SKILL: &str = "Exit codes: 0 done, 1 failed, 3 there is no such skill.";

pub(super) const PLUGINS: &str = "\
Examples:
  baton plugins marketplace add ./team-plugins   a directory with a marketplace.json
  baton plugins install review@team-plugins
  baton plugins install ./my-plugin              a copy of a directory
  baton plugins list
  baton plugins disable review

Nothing is downloaded: clone a repository first. Sessions use plugins with their next start.";

/// Subcommands of `baton plugins`.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List the installed plugins
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Install a plugin of a marketplace, or a copy of a directory
    #[command(after_help = NO_PLUGIN)]
    Install {
        /// PLUGIN@MARKETPLACE, or a directory
        source: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read plugins again from where they were installed
    #[command(after_help = NO_PLUGIN)]
    Update {
        /// Plugins to update [default: all]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use plugins again that were disabled
    #[command(after_help = NO_PLUGIN)]
    Enable {
        /// Plugins to enable
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Keep plugins, but do not use them
    #[command(after_help = NO_PLUGIN)]
    Disable {
        /// Plugins to disable
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Uninstall plugins
    #[command(after_help = NO_PLUGIN)]
    Uninstall {
        /// Plugins to uninstall
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Add, list and remove marketplaces, and list their plugins
    #[command(subcommand)]
    Marketplace(MarketplaceCommand),
}

const NO_PLUGIN: &str = "Exit codes: 0 done, 1 failed, 3 there is no such plugin.";

/// Subcommands of `baton plugins marketplace`.
#[derive(Debug, Subcommand)]
pub(crate) enum MarketplaceCommand {
    /// Add a marketplace
    Add {
        /// Directory with a `.claude-plugin/marketplace.json` or `marketplace.json`
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the marketplaces
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the plugins of a marketplace
    Browse {
        /// Marketplace
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a marketplace
    Remove {
        /// Marketplace to remove
        name: String,
        /// Uninstall its plugins, too
        #[arg(long, short)]
        force: bool,
    },
}
