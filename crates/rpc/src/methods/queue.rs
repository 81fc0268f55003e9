//! The queue: prompts and commands that have not started.

use baton_core::ask::{
    DuplicateQueued, HoldQueue, InsertPrompt, MoveQueued, RewordQueued, SteerQueued, Withdraw,
};
use baton_core::{Accepted, Withdrawn};
use baton_protocol::event::{Prompt, SendMode};
use baton_protocol::params::SendParams;
use baton_protocol::{PromptId, SessionId};
use baton_service::{ClientAsk, LiveSession};
use serde::Deserialize;
use serde_json::{Value, json};

use super::sessions::prompt_of;
use super::{Call, Handled, void};
use crate::errors::CallError;

pub(super) fn list(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let inbox = view.session.durable.inbox.iter();
        let (steering, queued): (Vec<_>, Vec<_>) =
            inbox.partition(|queued| queued.prompt.mode == SendMode::Immediate);
        let steering: Vec<&str> = steering.into_iter().map(|queued| display_text(&queued.prompt)).collect();
        // A prompt stays listed until it is in the history, so that a client that reads both always finds it. A command
        // never gets there; it is listed again when its runners are gone, so that it can be withdrawn.
        let has_runner = |id: PromptId| view.session.has_begun(id) && !view.session.is_abandoned(id);
        let is_running = |queued: &Accepted| is_command(queued) && has_runner(queued.id);
        let items: Vec<Value> = queued.into_iter().filter(|queued| !is_running(queued)).map(item).collect();
        // A prompt that steers leaves the queue when it joins the turn: none is in flight.
        json!({ "items": items, "steeringMessages": steering, "inFlightSteeringCount": 0 })
    })
}

fn is_command(queued: &Accepted) -> bool {
    matches!(queued.prompt.mode, SendMode::Command(_))
}

fn item(queued: &Accepted) -> Value {
    json!({
        "id": queued.id,
        "kind": if is_command(queued) { "command" } else { "message" },
        "displayText": display_text(&queued.prompt),
        "agentMode": queued.prompt.agent_mode.unwrap_or_default(),
    })
}

fn display_text(prompt: &Prompt) -> &str {
    prompt.display.as_deref().unwrap_or(&prompt.text)
}

pub(super) fn remove_most_recent(call: &Call<'_>) -> Handled {
    withdraw(call, &call.session()?, Withdrawn::Newest)
}

pub(super) fn clear(call: &Call<'_>) -> Handled {
    call.ask(&call.session()?, Withdraw { which: Withdrawn::All }, |_| void())
}

#[derive(Deserialize)]
struct Item {
    id: ItemId,
}

/// Id of an item in the queue. An invalid id is that of no item.
struct ItemId(PromptId);

impl<'de> Deserialize<'de> for ItemId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.parse().unwrap_or(PromptId(uuid::Uuid::nil()))))
    }
}

pub(super) fn remove(call: &Call<'_>) -> Handled {
    let (handle, Item { id }) = call.parse_for_session()?;
    withdraw(call, &handle, Withdrawn::One(id.0))
}

fn withdraw(call: &Call<'_>, handle: &LiveSession, which: Withdrawn) -> Handled {
    call.ask(handle, Withdraw { which }, |count| json!({ "removed": count > 0 }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    id: ItemId,
    to_position: i64,
}

pub(super) fn move_item(call: &Call<'_>) -> Handled {
    let (handle, Move { id, to_position }) = call.parse_for_session()?;
    let ask = MoveQueued { prompt: id.0, position: clamped(to_position) };
    edit(call, &handle, ask, |changed| json!({ "changed": changed }))
}

/// Returns a position; the first for a negative number.
fn clamped(position: i64) -> usize {
    usize::try_from(position).unwrap_or(0)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Insert {
    session_id: SessionId,
    position: i64,
    message: serde_json::Map<String, Value>,
}

pub(super) fn insert(call: &Call<'_>) -> Handled {
    let Insert { session_id, position, mut message } = call.parse()?;
    message.insert("sessionId".into(), json!(session_id));
    let prompt: SendParams = baton_json::from_value(&Value::Object(message))
        .map_err(|error| CallError::invalid(format_args!("message: {error}")))?;
    let prompt = prompt_of(call, prompt)?;
    let ask = InsertPrompt { prompt: Box::new(prompt), position: clamped(position) };
    edit(call, &call.attached(&session_id)?, ask, |id| json!({ "id": id }))
}

pub(super) fn duplicate(call: &Call<'_>) -> Handled {
    let (handle, Item { id }) = call.parse_for_session()?;
    edit(call, &handle, DuplicateQueued { prompt: id.0 }, |id| json!({ "id": id }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateText {
    id: ItemId,
    prompt: String,
    display_prompt: Option<String>,
}

pub(super) fn update_text(call: &Call<'_>) -> Handled {
    let (handle, UpdateText { id, prompt: text, display_prompt: display }) = call.parse_for_session()?;
    let ask = RewordQueued { prompt: id.0, text, display };
    edit(call, &handle, ask, |changed| json!({ "updated": changed }))
}

pub(super) fn send_now(call: &Call<'_>) -> Handled {
    let (handle, Item { id }) = call.parse_for_session()?;
    edit(call, &handle, SteerQueued { prompt: id.0 }, |changed| json!({ "steered": changed }))
}

#[derive(Deserialize)]
struct DrainPaused {
    paused: bool,
}

pub(super) fn set_drain_paused(call: &Call<'_>) -> Handled {
    let (handle, DrainPaused { paused }) = call.parse_for_session()?;
    edit(call, &handle, HoldQueue { hold: paused }, |_| void())
}

/// Edits the queue. The reason of a refusal is sent as it is.
fn edit<A: ClientAsk>(
    call: &Call<'_>,
    handle: &LiveSession,
    ask: A,
    encode: fn(A::Reply) -> Value,
) -> Handled {
    call.try_ask(handle, ask, move |edited| edited.map(encode).map_err(CallError::verbatim))
}
