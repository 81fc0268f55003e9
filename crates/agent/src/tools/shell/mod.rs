//! Shell commands: `bash`, and `read_bash`, `write_bash`, `stop_bash`, `list_bash` for those in the background.
//!
//! Every command runs in its own session, without a terminal, and is ended with all processes that it started: see
//! `baton_process`. Output is bounded in memory whatever a command prints: see `output`.

mod assess;
mod bash;
mod companions;
mod environment;
mod keys;
mod output;
mod place;
mod pump;
mod reach;
mod registry;
mod running;

#[cfg(test)]
mod tests;

pub use assess::{in_distrusted_repository, reads_repository, request as permission_request};
pub(crate) use bash::Bash;
pub(crate) use companions::{ListBash, ReadBash, StopBash, WriteBash};
pub use environment::CommandEnvironment;
pub use place::with_sandbox;
pub use reach::{LineContext, with_reach, with_unknown_reach};
pub use registry::{Background, CommandProgress, ShellSettings, Shells};
