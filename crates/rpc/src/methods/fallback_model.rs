//! Fallback models: answers to requests to continue with one, and clients that handle these requests.

use baton_core::RequestAnswer;
use baton_core::ask::{ListenForSwitch, StopListening};
use baton_protocol::RequestId;
use baton_protocol::event::SwitchAnswer;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, answers};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    request_id: RequestId,
    response: SwitchAnswer,
}

/// Answers the request to continue with a fallback model that was not sent to this client as a call.
pub(super) fn respond(call: &Call<'_>) -> Handled {
    let (handle, Response { request_id, response }) = call.parse_for_session()?;
    answers::answer(call, &handle, request_id, RequestAnswer::Switch(response))
}

/// Registers this client as the handler of fallback requests. It learns of them from events, and no client is called.
pub(super) fn register_handler(call: &Call<'_>) -> Handled {
    let client = call.connection.client;
    call.ask(&call.session()?, ListenForSwitch { client }, |handle| json!({ "handle": handle }))
}

#[derive(Deserialize)]
struct Unregister {
    handle: String,
}

pub(super) fn unregister_handler(call: &Call<'_>) -> Handled {
    let (session, Unregister { handle }) = call.parse_for_session()?;
    let ask = StopListening { listener: handle };
    call.ask(&session, ask, |was_registered| json!({ "unregistered": was_registered }))
}
