//! Offers to go on with another model: answers to them, and clients that see to them by themselves.

use baton_core::{Answer, Reply};
use baton_protocol::event::SwitchAnswer;
use baton_protocol::rpc::RpcError;
use baton_protocol::{RequestId, SessionId};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handling, answers};
use crate::session::Mail;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    session_id: SessionId,
    request_id: RequestId,
    response: SwitchAnswer,
}

/// Whether to go on with another model, from a client that was not asked directly.
pub(super) fn respond(call: &Call<'_>) -> Handling {
    let params: Response = call.parse()?;
    answers::answer(call, &params.session_id, params.request_id, Answer::Switch(params.response))
}

/// A client sees to offers of another model by itself, from the events, and wants nobody to be asked directly.
pub(super) fn listen(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let client = call.connection.client;
    call.by_responder(
        &handle,
        |respond| Mail::Listen(client, respond),
        |reply| match reply {
            Reply::Listening(name) => Ok(json!({ "handle": name })),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StopListening {
    session_id: SessionId,
    handle: String,
}

pub(super) fn stop_listening(call: &Call<'_>) -> Handling {
    let params: StopListening = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.by_responder(
        &handle,
        |respond| Mail::StopListening(params.handle, respond),
        |reply| Ok(json!({ "unregistered": reply == Reply::StoppedListening(true) })),
    )
}
