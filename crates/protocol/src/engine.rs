//! Messages to an engine (another agent's program) while it works on a turn.
//!
//! They live here because both sides of the seam use them: `core` decides what to send without knowing programs, and
//! `engines` delivers it without knowing sessions.

use crate::ToolCallId;
use crate::permission::Verdict;
use crate::tool::ToolResult;

/// A message to an engine that works on a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineControl {
    /// Answers a permission request.
    Decide {
        /// The engine's id of the request.
        reference: String,
        /// The decision.
        verdict: Verdict,
    },
    /// Answers a question to the user.
    Answer {
        /// The engine's id of the question.
        reference: String,
        /// The user's answer.
        answer: String,
        /// Whether the user typed the answer instead of choosing it.
        was_freeform: bool,
    },
    /// Ends a call of a tool of the session that the engine made.
    Returns {
        /// The call.
        call: ToolCallId,
        /// Its result.
        result: Box<ToolResult>,
    },
    /// Adds a prompt to the running turn. An engine that cannot be steered runs it after the current prompt, in the same
    /// turn.
    Steer(String),
}
