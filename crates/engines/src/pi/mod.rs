//! Pi: `pi --mode rpc` for conversations, `pi --print --mode json` for single prompts. Both print the same events.
//!
//! Pi has no permissions of its own: whatever its model wants is done. A conversation therefore loads an extension of ours
//! that asks first, and a single prompt, in which nobody can be asked, gets tools that only read.

mod events;
mod exec;
mod questions;
mod rpc;

pub(crate) use exec::PiExec;
pub(crate) use rpc::PiRpc;

use crate::dialect::Opening;

/// Arguments that both modes give after their own.
fn common_args(opening: &Opening<'_>) -> Vec<String> {
    let named = [
        ("--session", opening.token.map(|token| &token.0)),
        ("--model", opening.spec.model.as_ref()),
        ("--thinking", opening.spec.reasoning_effort.as_ref()),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?.clone()]));
    named.flatten().chain(opening.settings.extra_args.iter().cloned()).collect()
}
