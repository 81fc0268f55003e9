//! What waits for its turn: prompts and commands.

use baton_core::{Accepted, Arrangement, Reply, Withdrawn};
use baton_protocol::event::{Prompt, SendMode};
use baton_protocol::params::SendParams;
use baton_protocol::rpc::RpcError;
use baton_protocol::{PromptId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, void};
use crate::session::{Handle, Mail};

pub(super) fn pending(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let inbox = view.session.durable.inbox.iter();
        let (steering, queued): (Vec<_>, Vec<_>) =
            inbox.partition(|waiting| waiting.prompt.mode == SendMode::Immediate);
        let steering: Vec<&str> = steering.into_iter().map(|waiting| shown(&waiting.prompt)).collect();
        // A prompt stays listed until it is in the history, so that whoever looks at both always finds it. A command
        // never is there; it is listed again when nobody is left to run it, so that it can be taken back.
        let is_run = |id: PromptId| view.session.has_begun(id) && !view.session.is_abandoned(id);
        let is_under_way = |waiting: &Accepted| is_command(waiting) && is_run(waiting.id);
        let items: Vec<Value> =
            queued.into_iter().filter(|waiting| !is_under_way(waiting)).map(item).collect();
        // What steers a turn leaves the inbox when it joins it.
        json!({ "items": items, "steeringMessages": steering, "inFlightSteeringCount": 0 })
    })
}

fn is_command(waiting: &Accepted) -> bool {
    matches!(waiting.prompt.mode, SendMode::Command(_))
}

fn item(waiting: &Accepted) -> Value {
    json!({
        "id": waiting.id,
        "kind": if is_command(waiting) { "command" } else { "message" },
        "displayText": shown(&waiting.prompt),
        "agentMode": waiting.prompt.agent_mode.unwrap_or_default(),
    })
}

fn shown(prompt: &Prompt) -> &str {
    prompt.display.as_deref().unwrap_or(&prompt.text)
}

pub(super) fn remove_most_recent(call: &Call<'_>) -> Handling {
    withdraw(call, &call.session()?, Withdrawn::Newest)
}

pub(super) fn clear(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.by_responder(&handle, |respond| Mail::Withdraw(Withdrawn::All, respond), |_| Ok(void()))
}

/// A call about one thing that waits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    session_id: SessionId,
    id: String,
}

/// What a client calls an item. What never was one of our names is the name of nothing that waits.
fn named(id: &str) -> PromptId {
    id.parse().unwrap_or(PromptId(uuid::Uuid::nil()))
}

pub(super) fn remove(call: &Call<'_>) -> Handling {
    let Item { session_id, id } = call.parse()?;
    withdraw(call, &call.attached(&session_id)?, Withdrawn::One(named(&id)))
}

fn withdraw(call: &Call<'_>, handle: &Handle, which: Withdrawn) -> Handling {
    let removed = |reply| Ok(json!({ "removed": matches!(reply, Reply::Withdrew(n) if n > 0) }));
    call.by_responder(handle, |respond| Mail::Withdraw(which, respond), removed)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    to_position: i64,
}

pub(super) fn move_item(call: &Call<'_>) -> Handling {
    let Item { session_id, id } = call.parse()?;
    let place = clamped(call.parse::<Move>()?.to_position);
    arrange(call, &session_id, Arrangement::Move(named(&id), place), "changed")
}

/// A place before the first is the first.
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

pub(super) fn insert(call: &Call<'_>) -> Handling {
    let Insert { session_id, position, mut message } = call.parse()?;
    message.insert("sessionId".into(), json!(session_id));
    let prompt: SendParams = serde_json::from_value(Value::Object(message))
        .map_err(|error| RpcError::bad_params(format!("{}: message: {error}", call.method)))?;
    arrange(call, &session_id, Arrangement::Insert(prompt.into(), clamped(position)), "")
}

pub(super) fn duplicate(call: &Call<'_>) -> Handling {
    let Item { session_id, id } = call.parse()?;
    arrange(call, &session_id, Arrangement::Duplicate(named(&id)), "")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewText {
    prompt: String,
    display_prompt: Option<String>,
}

pub(super) fn update_text(call: &Call<'_>) -> Handling {
    let Item { session_id, id } = call.parse()?;
    let NewText { prompt: text, display_prompt: display } = call.parse()?;
    let reword = Arrangement::Reword { prompt: named(&id), text, display };
    arrange(call, &session_id, reword, "updated")
}

pub(super) fn send_now(call: &Call<'_>) -> Handling {
    let Item { session_id, id } = call.parse()?;
    arrange(call, &session_id, Arrangement::Steer(named(&id)), "steered")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DrainPaused {
    session_id: SessionId,
    paused: bool,
}

pub(super) fn set_drain_paused(call: &Call<'_>) -> Handling {
    let DrainPaused { session_id, paused } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let how = Box::new(Arrangement::Hold(paused));
    call.by_responder(&handle, |respond| Mail::Arrange(how, respond), |reply| refusal(reply).map(|_| void()))
}

/// Rearranges what waits. The answer is the name of what is new, or whether anything is another now, as `changed`.
fn arrange(call: &Call<'_>, session: &SessionId, how: Arrangement, changed: &'static str) -> Handling {
    let handle = call.attached(session)?;
    call.by_responder(
        &handle,
        |respond| Mail::Arrange(Box::new(how), respond),
        move |reply| match refusal(reply)? {
            Reply::Accepted(id) => Ok(json!({ "id": id })),
            reply => Ok(json!({ changed: matches!(reply, Reply::Arranged(true)) })),
        },
    )
}

fn refusal(reply: Reply) -> Result<Reply, RpcError> {
    match reply {
        Reply::Refused(why) => Err(RpcError::failed(why)),
        other => Ok(other),
    }
}
