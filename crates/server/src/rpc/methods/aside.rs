//! A question beside the conversation.

use baton_protocol::SessionId;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handling};
use crate::rpc::errors;
use crate::work;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    session_id: SessionId,
    question: String,
}

/// Asks the model something that nobody else sees and that leaves no trace.
pub(super) fn query(call: &Call<'_>) -> Handling {
    let Query { session_id, question } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let bench = handle.borrow().await.map_err(|failure| errors::of(&method, &failure))?;
        let answer = work::ask_aside(&bench, &question).await;
        let answer = answer.map_err(|error| errors::failed(&method, error.message))?;
        Ok(json!({ "answer": answer }))
    })
}
