//! Prompts that wait.

use baton_core::{Reply, Withdrawn};
use baton_protocol::event::SendMode;
use serde_json::{Value, json};

use super::{Call, Handling, void};
use crate::session::Mail;

pub(super) fn pending(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let (steering, queued): (Vec<_>, Vec<_>) = view
            .session
            .durable
            .inbox
            .iter()
            .partition(|accepted| accepted.prompt.mode == SendMode::Immediate);
        let text = |prompt: &baton_protocol::event::Prompt| {
            prompt.display.clone().unwrap_or_else(|| prompt.text.clone())
        };
        let items: Vec<Value> = queued
            .iter()
            .map(|accepted| {
                json!({
                    "id": accepted.id,
                    "kind": "message",
                    "displayText": text(&accepted.prompt),
                    "agentMode": accepted.prompt.agent_mode.unwrap_or_default(),
                })
            })
            .collect();
        let steering: Vec<String> = steering.iter().map(|accepted| text(&accepted.prompt)).collect();
        json!({ "items": items, "steeringMessages": steering })
    })
}

pub(super) fn remove_most_recent(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.by_responder(
        &handle,
        |respond| Mail::Withdraw(Withdrawn::Newest, respond),
        |reply| Ok(json!({ "removed": matches!(reply, Reply::Withdrew(n) if n > 0) })),
    )
}

pub(super) fn clear(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.by_responder(&handle, |respond| Mail::Withdraw(Withdrawn::All, respond), |_| Ok(void()))
}
