//! Use of the context window: token counts of the parts of the next request.

use baton_model::{Message, ModelError, Part, Request, estimate};
use serde::{Deserialize, Serialize};

use super::{WorkScope, model_call};

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

/// Measures the next request. Returns `None` for a session with an engine program, which manages its context itself.
pub(super) async fn measure(scope: &WorkScope) -> Result<Option<Window>, ModelError> {
    if crate::engines::engine_of(&scope.runtime, &scope.settings, &scope.session).is_some() {
        return Ok(None);
    }
    let chosen = scope.runtime.models.choose(&model_call::caller(scope)).await?;
    let request = model_call::request(scope, &chosen).await;
    let limit = chosen.token_limit;
    Ok(Some(Window {
        compaction_at: scope.settings.compaction_threshold.of_window(limit),
        summaries: scope.session.durable.facts.summaries,
        ..measured(&request, limit)
    }))
}

fn measured(request: &Request, limit: u64) -> Window {
    let (system, messages) = request.messages.split_at(request.messages.len().min(1));
    Window {
        model: request.model.clone(),
        limit,
        compaction_at: limit,
        summaries: 0,
        system: model_call::estimate_messages(system),
        tools: request.tools.iter().map(|tool| (tool.name.clone(), estimate::tool(tool))).collect(),
        messages: messages.iter().map(|message| measured_message(message)).collect(),
    }
}

fn measured_message(message: &Message) -> CountedMessage {
    let (role, text) = match message {
        Message::System(text) => ("system", text.clone()),
        Message::User(parts) => ("user", parts.iter().map(text_of).collect::<Vec<_>>().join(" ")),
        Message::Assistant { text, .. } => ("assistant", text.clone()),
        Message::Tool { content, .. } => ("tool", content.clone()),
    };
    CountedMessage { role: role.to_owned(), text, tokens: estimate::message(message) }
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        _ => "[image]",
    }
}
