//! `baton people` and `baton link`.

use baton_people::{PersonName, Role};
use clap::{Args, Subcommand};

use crate::args::JsonArgs;
use crate::args::group::WithDefault;

pub(super) const NOTES: &str = "\
Roles, each with the rights of those before it:
  viewer     watch all sessions
  approver   answer requests
  driver     create, prompt, steer, cancel and delete sessions
  admin      manage people

Examples:
  baton people add ada --role approver     add a person, print the token
  baton link --person ada                  print a login link for a browser
  baton people role ada driver             change what a person may do
  baton people remove ada                  end all access at once

A token works like the owner's: `Authorization: Bearer TOKEN`. Only its digest is stored. Removing a person, or making a \
new token, also ends the logins of browsers.";

pub(super) const LINK_NOTES: &str = "\
Examples:
  baton link                                     log your own browser in
  baton link --person ada --json                 for scripts

The link works once, within 15 minutes, and leads to the page of the running server. The browser stays logged in for 30 \
days.

Exit codes: 0 done, 1 failed, 3 there is no such person, or no server runs that serves the page.";

/// Subcommands of `baton people`.
#[derive(Debug, Subcommand)]
pub enum PeopleCommand {
    /// Add a person, and print the person's token
    #[command(after_help = "Example:\n  baton people add ada --role approver --expires 90")]
    Add {
        /// Name: letters, digits and any of . - _ @ +
        name: PersonName,
        /// What the person may do: viewer, approver, driver or admin
        #[arg(long)]
        role: Role,
        /// Let the token expire after this many days
        #[arg(long, value_name = "DAYS")]
        expires: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all people
    #[command(after_help = "Example:\n  baton people list")]
    List(JsonArgs),
    /// Remove a person; open connections end at once
    #[command(
        after_help = "Example:\n  baton people remove ada\n\nExit codes: 0 done, 1 failed, 3 there is no such person."
    )]
    Remove {
        /// Name of the person
        name: PersonName,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change what a person may do; the token stays
    #[command(
        after_help = "Example:\n  baton people role ada driver\n\nExit codes: 0 done, 1 failed, 3 there is no such person."
    )]
    Role {
        /// Name of the person
        name: PersonName,
        /// What the person may do: viewer, approver, driver or admin
        role: Role,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace a person's token, and print the new one
    #[command(
        after_help = "Example:\n  baton people token ada --expires 90\n\nExit codes: 0 done, 1 failed, 3 there is no such person."
    )]
    Token {
        /// Name of the person
        name: PersonName,
        /// Let the token expire after this many days
        #[arg(long, value_name = "DAYS")]
        expires: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl WithDefault for PeopleCommand {
    type Flags = JsonArgs;

    fn default_with(flags: JsonArgs) -> Self {
        Self::List(flags)
    }
}

/// Flags of `baton link`.
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// Log in as this person, instead of as the owner
    #[arg(long, value_name = "NAME")]
    pub person: Option<PersonName>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
