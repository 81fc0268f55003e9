//! Compaction on demand.

use baton_ask::{CompactNow, CompactionOptions, StopCompaction, SummariseForHandoff};
use baton_protocol::event::CompactionComplete;
use serde_json::{Value, json};

use super::{Call, Handled};

pub(super) fn compact(call: &Call<'_>) -> Handled {
    let (handle, options): (_, CompactionOptions) = call.parse_for_session()?;
    call.later(async move {
        let compacted = handle.ask(CompactNow { options }).await?;
        let nothing = || json!({ "success": false, "tokensRemoved": 0, "messagesRemoved": 0 });
        Ok(compacted.as_ref().map_or_else(nothing, described))
    })
}

fn described(complete: &CompactionComplete) -> Value {
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let (system, tools) = (count(complete.system_tokens), count(complete.tool_definitions_tokens));
    let conversation = count(complete.conversation_tokens);
    let (before, removed) =
        (count(complete.pre_compaction_messages_length), count(complete.messages_removed));
    json!({
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
    })
}

pub(super) fn cancel_background(call: &Call<'_>) -> Handled {
    stop(call, false, |stopped| json!({ "cancelled": stopped }))
}

pub(super) fn abort_manual(call: &Call<'_>) -> Handled {
    stop(call, true, |stopped| json!({ "aborted": stopped }))
}

fn stop(call: &Call<'_>, manual: bool, encode: fn(bool) -> Value) -> Handled {
    call.ask(&call.session()?, StopCompaction { manual }, encode)
}

/// Summarises the conversation for a handoff. The summary is empty if there is no conversation, or the model fails.
pub(super) fn summarise_for_handoff(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, SummariseForHandoff {}, |summary| json!({ "summary": summary }))
}
