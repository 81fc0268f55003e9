//! A question beside the conversation: the model answers it with all that was said in view, and nothing of it is kept.

use std::sync::Arc;

use baton_model::retry::ask_with_retries;
use baton_model::{Message, ModelError, Part, Request};

use super::{Bench, ask};

/// Asks the model something that does not become part of the conversation. It is offered no tools: an answer that
/// leaves no trace must not do anything either.
pub(crate) async fn ask_aside(bench: &Bench, question: &str) -> Result<String, ModelError> {
    let chosen = bench.server.models.choose(&ask::asker(bench)).await?;
    let mut request = Request { stream: false, ..ask::request(bench, &chosen).await };
    request.tools = Arc::default();
    request.messages.push(Arc::new(Message::User(vec![Part::Text(question.to_owned())])));
    let retries = &bench.server.models.retries;
    let answer = ask_with_retries(retries, &*chosen.model, &request, &mut |_| {}, |_, _, _| {}).await?;
    Ok(answer.text)
}
