//! Pi: `pi --mode rpc` for conversations, `pi --print --mode json` for single prompts. Both print the same events.
//!
//! Pi itself has no permissions: it runs every tool that its model calls. A conversation therefore loads an extension
//! of Baton that asks first, and a single prompt, in which the user cannot be asked, gets only tools that read.

mod events;
mod exec;
mod rpc;
mod ui_requests;

pub(crate) use exec::PiExec;
pub(crate) use rpc::PiRpc;

use crate::adapter::{LaunchContext, RunEnding};

/// Returns the arguments that both modes append to their own.
fn common_args(context: &LaunchContext<'_>) -> Vec<String> {
    context.args("--session", "--model", "--thinking")
}

/// Returns the ending of a run without an answer.
fn no_answer() -> RunEnding {
    RunEnding::Failed("pi ended without an answer.".to_owned())
}
