//! Prompts.

use baton_protocol::PromptId;
use baton_protocol::event::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A prompt to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewPrompt {
    #[schema(pattern = "\\S")]
    pub(crate) text: String,
    /// Join the running turn at its next model call, instead of waiting for its end.
    #[serde(default)]
    pub(crate) immediate: bool,
    /// Attachments, as in `session.send` of the SDKs: `{"type":"file","path":…}`, `{"type":"directory","path":…}`,
    /// `{"type":"selection","filePath":…,"text":…}`, `{"type":"blob","data":…,"mimeType":…}` with data in base64. Paths are
    /// those of the server's machine, relative to the session's working directory.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, example = json!([{"type": "file", "path": "src/main.rs"}]))]
    pub(crate) attachments: Vec<serde_json::Map<String, serde_json::Value>>,
}

/// Id of an accepted prompt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptedPrompt {
    pub(crate) prompt_id: String,
}

/// State of a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptView {
    pub(crate) prompt_id: String,
    /// `queued`, `running`, `completed`, `failed`, `cancelled` or `interrupted`.
    pub(crate) state: &'static str,
    /// Reason for the outcome.
    pub(crate) reason: Option<String>,
    /// Text of the answer: the last message of the main conversation, once there is one.
    pub(crate) text: Option<String>,
}

/// How long to wait for the outcome of a prompt.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// Time to wait for the outcome, in seconds; default: do not wait.
    #[param(value_type = Option<u32>, minimum = 0, maximum = 300)]
    pub(crate) wait: Option<WaitSeconds>,
}

/// Number of seconds, at most 300.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct WaitSeconds(u64);

impl WaitSeconds {
    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for WaitSeconds {
    type Error = &'static str;

    fn try_from(seconds: u64) -> Result<Self, Self::Error> {
        (seconds <= 300).then_some(Self(seconds)).ok_or("wait must be at most 300 seconds")
    }
}

impl PromptView {
    pub(crate) fn new(prompt: PromptId, state: &'static str, reason: Option<String>) -> Self {
        Self { prompt_id: prompt.to_string(), state, reason, text: None }
    }

    /// Whether the prompt has an outcome.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.state, "queued" | "running")
    }

    pub(crate) fn state_of(outcome: Outcome) -> &'static str {
        match outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Interrupted => "interrupted",
        }
    }
}

/// What to cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// What happens to the queue.
    #[serde(default)]
    pub(crate) queue: QueueFate,
    /// With `"queue": "hold"`: the turn to cancel, by its id, or by the id of a prompt that it executes; or a prompt that is being
    /// prepared, or a command that is being run. If it does not run any more, nothing happens. Default: whatever runs.
    pub(crate) turn: Option<String>,
}

/// What a cancel does with the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum QueueFate {
    /// Its items are cancelled, too.
    #[default]
    End,
    /// Its items stay, and do not start before the queue is released. Later prompts are not held.
    Hold,
}

/// Result of a cancel.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cancelled {
    /// Whether there was anything to cancel.
    pub(crate) had_work: bool,
    /// Number of items of the queue that are held.
    pub(crate) held: usize,
}
