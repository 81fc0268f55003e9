//! Commands in a shell: `bash`, and `read_bash`, `write_bash`, `stop_bash`, `list_bash` for those that go on
//! in the background.
//!
//! Every command runs in a session of its own, without a terminal. What it starts is found again by process
//! group, by parent and by a variable in its environment, so that ending a command ends all of it: see
//! `tree`. Output is bounded in memory whatever a command prints: see `output`.

mod assess;
mod bash;
mod companions;
mod keys;
mod leftovers;
mod output;
mod process_log;
mod process_table;
mod pump;
mod registry;
mod running;
mod supervised;
mod tree;

#[cfg(test)]
mod tests;

pub use assess::request as permission_request;
pub(crate) use bash::Bash;
pub(crate) use companions::{ListBash, ReadBash, StopBash, WriteBash};
pub use leftovers::{Leftover, end_leftovers};
pub use process_log::{MemoryProcessLog, NoProcessLog, ProcessLog, Processes, StartedGroup};
pub use process_table::{Identity, now_in_ticks};
pub use registry::{Background, CommandProgress, ShellSettings, Shells};
pub use supervised::Supervised;
pub use tree::{TAG_VARIABLE, end_tagged};
