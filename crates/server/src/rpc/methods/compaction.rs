//! Summaries of the conversation, on demand.

use baton_protocol::SessionId;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Handle, Mail};
use crate::work::{self, Wish};

/// What a summary for somebody else is asked for with.
const HANDOFF: &str = "Summarise this conversation in Markdown for a colleague who takes it over: what is wanted, what \
was done, what was found out, what is left. Call no tools.";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: SessionId,
    #[serde(flatten)]
    wish: Wish,
}

pub(super) fn compact(call: &Call<'_>) -> Handling {
    let params: Params = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.later(summarise(handle, call.method.to_owned(), params.wish))
}

/// Has the model summarise the conversation, and says what came of it.
pub(super) async fn summarise(handle: Handle, method: String, wish: Wish) -> Result<Value, RpcError> {
    let summarised = work::compact_now(&handle, wish).await;
    let Some(complete) = summarised.map_err(|failure| errors::of(&method, &failure))? else {
        return Ok(json!({ "success": false, "tokensRemoved": 0, "messagesRemoved": 0 }));
    };
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let (system, tools) = (count(complete.system_tokens), count(complete.tool_definitions_tokens));
    let conversation = count(complete.conversation_tokens);
    let (before, removed) =
        (count(complete.pre_compaction_messages_length), count(complete.messages_removed));
    Ok(json!({
        "success": true,
        "tokensRemoved": complete.tokens_removed,
        "messagesRemoved": removed,
        "summaryContent": complete.summary_content,
        "contextWindow": {
            "tokenLimit": complete.token_limit,
            "currentTokens": system + tools + conversation,
            "messagesLength": before.saturating_sub(removed),
            "systemTokens": system,
            "conversationTokens": conversation,
            "toolDefinitionsTokens": tools,
        },
    }))
}

pub(super) fn cancel_background(call: &Call<'_>) -> Handling {
    stop(call, false, |stopped| json!({ "cancelled": stopped }))
}

pub(super) fn abort_manual(call: &Call<'_>) -> Handling {
    stop(call, true, |stopped| json!({ "aborted": stopped }))
}

fn stop(call: &Call<'_>, manual: bool, tell: fn(bool) -> Value) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    let (told, stopped) = oneshot::channel();
    handle.send(Mail::StopCompacting { manual, told }).map_err(|failure| errors::of(&method, &failure))?;
    call.later(async move { Ok(tell(stopped.await.unwrap_or(false))) })
}

/// A summary for whoever takes the conversation over; empty if nothing has been said, or none can be had.
pub(super) fn for_handoff(call: &Call<'_>) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    call.later(async move {
        let bench = handle.borrow().await.map_err(|failure| errors::of(&method, &failure))?;
        let summary = match bench.conversation.transcript().is_empty() {
            true => String::new(),
            false => work::ask_aside(&bench, HANDOFF).await.unwrap_or_default(),
        };
        Ok(json!({ "summary": summary }))
    })
}
