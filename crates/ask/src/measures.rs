//! Replies to asks about the context window and commands.

use serde::{Deserialize, Serialize};

/// Output and exit code of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// Standard output and standard error.
    pub output: String,
    /// Exit code; `None` if the command was stopped, or did not exit in time.
    pub exit_code: Option<i32>,
}

/// Token counts of the next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Name of the model, as its provider knows it.
    pub model: String,
    /// Maximum number of tokens of a request.
    pub limit: u64,
    /// Number of tokens at which the conversation is compacted.
    pub compaction_at: u64,
    /// Number of compactions so far.
    pub summaries: u32,
    /// Tokens of the system prompt.
    pub system: u64,
    /// Tools, with the tokens of their definitions.
    pub tools: Vec<(String, u64)>,
    /// Messages of the conversation.
    pub messages: Vec<CountedMessage>,
}

/// A message with its number of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedMessage {
    /// Role: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text of the message.
    pub text: String,
    /// Estimated tokens.
    pub tokens: u64,
}

impl Window {
    /// Returns the tokens of all tool definitions.
    #[must_use]
    pub fn tool_tokens(&self) -> u64 {
        self.tools.iter().map(|(_, tokens)| tokens).sum()
    }

    /// Returns the tokens of all messages.
    #[must_use]
    pub fn message_tokens(&self) -> u64 {
        self.messages.iter().map(|message| message.tokens).sum()
    }

    /// Returns the tokens of the whole request.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.system + self.tool_tokens() + self.message_tokens()
    }
}
