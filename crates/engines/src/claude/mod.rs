//! Claude Code: its control protocol for conversations, `claude -p` for single prompts. Both print the same messages.

mod approvals;
mod control;
mod exec;
mod messages;

pub(crate) use control::ClaudeControl;
pub(crate) use exec::ClaudeExec;

use crate::dialect::Opening;

/// What it says of a conversation that it was told to resume and does not know.
fn has_forgotten(why: &str) -> bool {
    why.contains("No conversation found")
}

/// Arguments that both modes give after their own.
fn common_args(opening: &Opening<'_>) -> Vec<String> {
    let named = [
        ("--resume", opening.token.map(|token| &token.0)),
        ("--model", opening.spec.model.as_ref()),
        ("--effort", opening.spec.reasoning_effort.as_ref()),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?.clone()]));
    named.flatten().chain(opening.settings.extra_args.iter().cloned()).collect()
}
