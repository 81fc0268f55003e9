//! Summaries of the conversation, on demand.

use baton_protocol::SessionId;
use baton_protocol::event::{CompactionStart, CompactionTrigger};
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Compact, Failure, Handle, Mail};
use crate::work;

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

/// What somebody wants of a summary.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wish {
    pub(super) custom_instructions: Option<String>,
    pub(super) token_limit: Option<u64>,
    pub(super) trigger: Option<CompactionTrigger>,
}

pub(super) fn compact(call: &Call<'_>) -> Handling {
    let params: Params = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.later(summarise(handle, call.method.to_owned(), params.wish))
}

/// Has the model summarise the conversation, and waits for that.
pub(super) async fn summarise(handle: Handle, method: String, wish: Wish) -> Result<Value, RpcError> {
    let told = |failure: Failure| errors::of(&method, &failure);
    let bench = handle.borrow().await.map_err(told)?;
    let window = work::window(&bench).await.map_err(|error| errors::failed(&method, error.message))?;
    let Some(window) = window.filter(|window| !window.messages.is_empty()) else {
        return Ok(json!({ "success": false, "tokensRemoved": 0, "messagesRemoved": 0 }));
    };
    let (system, tools) = (window.system, window.tool_tokens());
    let limit = wish.token_limit.unwrap_or(window.limit);
    let start = CompactionStart {
        system_tokens: Some(system),
        conversation_tokens: Some(window.message_tokens()),
        tool_definitions_tokens: Some(tools),
        current_tokens: Some(window.total()),
        token_limit: Some(limit),
        model: Some(window.model),
        trigger: wish.trigger,
    };
    let (done, finished) = oneshot::channel();
    let compact = Compact { start, instructions: wish.custom_instructions, done };
    handle.send(Mail::Compact(Box::new(compact))).map_err(told)?;
    let complete = finished.await.unwrap_or_else(|_| Err(Failure::NotFound(handle.id.clone())));
    let complete = complete.map_err(told)?;
    if !complete.success {
        let why = complete.error.unwrap_or_else(|| "the conversation could not be summarised".into());
        return Err(errors::failed(&method, why));
    }
    let conversation = complete.conversation_tokens.unwrap_or_default();
    let before = complete.pre_compaction_messages_length.unwrap_or_default();
    let removed = complete.messages_removed.unwrap_or_default();
    Ok(json!({
        "success": true,
        "tokensRemoved": complete.tokens_removed,
        "messagesRemoved": removed,
        "summaryContent": complete.summary_content,
        "contextWindow": {
            "tokenLimit": limit,
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
