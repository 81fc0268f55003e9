//! Side questions, which the model answers with the conversation as context. They are not recorded.

use std::sync::Arc;

use baton_model::retry::ask_with_retries;
use baton_model::{Message, ModelError, Part, Request};

use super::{WorkScope, model_call};

/// Asks the model a question that does not become part of the conversation. The model gets no tools: a call that is not
/// recorded must not have effects.
pub(super) async fn ask(scope: &WorkScope, question: &str) -> Result<String, ModelError> {
    let chosen = scope.runtime.models.choose(&model_call::caller(scope)).await?;
    let mut request = Request { stream: false, ..model_call::request(scope, &chosen).await };
    request.tools = Arc::default();
    request.messages.push(Arc::new(Message::User(vec![Part::Text(question.to_owned())])));
    let retries = &scope.runtime.models.retries;
    let answer = ask_with_retries(retries, &*chosen.model, &request, &mut |_| {}, |_, _, _| {}).await?;
    Ok(answer.text)
}
