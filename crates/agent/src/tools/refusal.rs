//! Errors of tool calls.

use baton_protocol::tool::ToolResult;

use super::INTERRUPTED;

/// Error of a tool call: a text for the model, and a short one for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRefusal {
    text: String,
    short: Option<&'static str>,
}

impl ToolRefusal {
    /// Creates an error. `text` tells the model what is wrong and what to do about it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), short: None }
    }

    /// Sets the short text for people.
    pub(crate) fn in_short(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }

    /// Creates the error for invalid arguments.
    pub(crate) fn arguments(tool: &str, what: &str) -> Self {
        Self::new(format!("Invalid arguments for the tool '{tool}': {what}. Correct them and call it again."))
    }

    /// Creates the error for a cancelled call.
    pub(crate) fn interrupted() -> Self {
        Self::new(INTERRUPTED)
    }
}

impl From<ToolRefusal> for ToolResult {
    fn from(refusal: ToolRefusal) -> Self {
        Self { error: refusal.short.map(str::to_owned), ..Self::failure(refusal.text) }
    }
}
