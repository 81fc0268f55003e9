//! A question to the model outside the conversation.

use baton_ask::AskAside;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled};

#[derive(Deserialize)]
struct Query {
    question: String,
}

/// Asks the model a question. Question and answer are not recorded, and no other client sees them.
pub(super) fn query(call: &Call<'_>) -> Handled {
    let (handle, Query { question }) = call.parse_for_session()?;
    call.ask_later(&handle, AskAside { question }, |answer| json!({ "answer": answer }))
}
