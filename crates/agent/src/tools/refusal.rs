//! Why a call gives nothing.

use baton_protocol::tool::ToolResult;

use super::INTERRUPTED;

/// Why a call gives nothing: what the model is told, and people in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    text: String,
    short: Option<&'static str>,
}

impl Refusal {
    /// With what the model is told: what is wrong, and what to do about it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), short: None }
    }

    /// And what people read in the log instead.
    pub(crate) fn in_short(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }

    /// The arguments are no good.
    pub(crate) fn arguments(tool: &str, what: &str) -> Self {
        Self::new(format!("Invalid arguments for the tool '{tool}': {what}. Correct them and call it again."))
    }

    /// The call was cancelled while it ran.
    pub(crate) fn interrupted() -> Self {
        Self::new(INTERRUPTED)
    }
}

impl From<Refusal> for ToolResult {
    fn from(refusal: Refusal) -> Self {
        Self { error: refusal.short.map(str::to_owned), ..Self::failure(refusal.text) }
    }
}
