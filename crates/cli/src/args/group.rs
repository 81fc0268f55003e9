//! Commands that have subcommands, and do what one of them does if none is given.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// Subcommands with a default.
pub trait WithDefault: Subcommand {
    /// Flags of the default, which the command takes without a subcommand.
    type Flags: Args;

    /// Returns the default with these flags.
    fn default_with(flags: Self::Flags) -> Self;
}

/// Arguments of a command: a subcommand, or the flags of the default one.
#[derive(Debug)]
pub struct Group<C>(pub C);

impl<C: WithDefault> FromArgMatches for Group<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let Some(name) = matches.subcommand_name() else {
            return C::Flags::from_arg_matches_mut(matches).map(|flags| Self(C::default_with(flags)));
        };
        // Clap would ignore it. `args_conflicts_with_subcommands` is no help: it would also refuse global flags here.
        if let Some(flag) = given_flag::<C::Flags>(matches) {
            return Err(Error::raw(ErrorKind::ArgumentConflict, format!("write --{flag} after `{name}`")));
        }
        C::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|group| *self = group)
    }
}

/// Returns the name of a flag that the user has given.
fn given_flag<F: Args>(matches: &ArgMatches) -> Option<String> {
    let flags = F::augment_args(Command::new(""));
    let is_given =
        |flag: &&clap::Arg| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine);
    flags.get_arguments().find(is_given).and_then(|flag| flag.get_long().map(str::to_owned))
}

impl<C: WithDefault> Args for Group<C> {
    fn augment_args(command: Command) -> Command {
        C::augment_subcommands(C::Flags::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        C::augment_subcommands_for_update(C::Flags::augment_args_for_update(command))
    }
}
