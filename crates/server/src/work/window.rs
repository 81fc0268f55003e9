//! What the model would be given right now, and what each part of it weighs.

use std::sync::Arc;

use baton_model::{Message, ModelError, Part, Request, estimate};

use super::{Bench, ask};

/// The next request, weighed.
pub(crate) struct Window {
    pub(crate) model: String,
    /// How many tokens a prompt may have.
    pub(crate) limit: u64,
    /// How many it has when the conversation is summarised.
    pub(crate) compaction_at: u64,
    /// How many times it was.
    pub(crate) summaries: u32,
    pub(crate) system: u64,
    /// The tools that are offered.
    pub(crate) tools: Vec<(String, u64)>,
    pub(crate) messages: Vec<Weighed>,
}

/// A message, and what it weighs.
pub(crate) struct Weighed {
    pub(crate) role: &'static str,
    pub(crate) text: String,
    pub(crate) tokens: u64,
}

impl Window {
    pub(crate) fn tool_tokens(&self) -> u64 {
        self.tools.iter().map(|(_, tokens)| tokens).sum()
    }

    pub(crate) fn message_tokens(&self) -> u64 {
        self.messages.iter().map(|message| message.tokens).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.system + self.tool_tokens() + self.message_tokens()
    }
}

/// Weighs what the model would be given. None if another agent's program works in the session: what its model is given
/// is its own affair.
pub(crate) async fn window(bench: &Bench) -> Result<Option<Window>, ModelError> {
    if crate::engines::named(&bench.server, &bench.settings, &bench.session).is_some() {
        return Ok(None);
    }
    let chosen = bench.server.models.choose(&ask::asker(bench)).await?;
    let request = ask::request(bench, &chosen).await;
    let limit = chosen.token_limit;
    Ok(Some(Window {
        compaction_at: bench.settings.compaction_threshold.of_window(limit),
        summaries: bench.session.durable.facts.summaries,
        ..weigh(&request, limit)
    }))
}

fn weigh(request: &Request, limit: u64) -> Window {
    let (system, messages) = request.messages.split_at(request.messages.len().min(1));
    let tokens = |message: &Arc<Message>| estimate::message(message);
    Window {
        model: request.model.clone(),
        limit,
        compaction_at: limit,
        summaries: 0,
        system: system.iter().map(tokens).sum(),
        tools: request.tools.iter().map(|tool| (tool.name.clone(), estimate::tool(tool))).collect(),
        messages: messages.iter().map(|message| weighed(message)).collect(),
    }
}

fn weighed(message: &Message) -> Weighed {
    let (role, text) = match message {
        Message::System(text) => ("system", text.clone()),
        Message::User(parts) => ("user", parts.iter().map(text_of).collect::<Vec<_>>().join(" ")),
        Message::Assistant { text, .. } => ("assistant", text.clone()),
        Message::Tool { content, .. } => ("tool", content.clone()),
    };
    Weighed { role, text, tokens: estimate::message(message) }
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        _ => "[image]",
    }
}
