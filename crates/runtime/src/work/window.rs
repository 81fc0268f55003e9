//! Use of the context window: token counts of the parts of the next request.

use baton_ask::{CountedMessage, Window};
use baton_model::{Message, ModelError, Part, Request, estimate};

use super::{WorkScope, model_call};

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
