//! Model requests that a client sends itself, in place of the server ([`baton_providers::Tunnel`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, success};
use crate::errors::CallError;
use baton_providers::ResponsePart;
use baton_runtime::session::CallFailed;
use baton_service::server::ServeModelRequests;

/// Registers this client as the sender of model requests.
pub(super) fn set_provider(call: &Call<'_>) -> Handled {
    // Weak, because the runtime would otherwise keep the connection alive.
    let connection = Arc::downgrade(call.connection);
    let send = move |method, params| match connection.upgrade() {
        Some(connection) => connection.call(method, params),
        None => Box::pin(async { Err(CallFailed::Gone) }),
    };
    let serve = ServeModelRequests { client: call.connection.client, call: Arc::new(send) };
    call.service().perform_now(&call.caller(), serve)?;
    call.now(success())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    request_id: String,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
}

pub(super) fn response_start(call: &Call<'_>) -> Handled {
    let Start { request_id, status, headers } = call.parse()?;
    let each =
        |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    let headers = headers.into_iter().flat_map(each).collect();
    let accepted = deliver(call, &request_id, ResponsePart::Head { status, headers });
    call.now(json!({ "accepted": accepted }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    request_id: String,
    #[serde(default)]
    data: String,
    binary: Option<bool>,
    end: Option<bool>,
    error: Option<ChunkError>,
}

#[derive(Deserialize)]
struct ChunkError {
    message: String,
}

pub(super) fn response_chunk(call: &Call<'_>) -> Handled {
    let chunk: Chunk = call.parse()?;
    let data = if chunk.binary == Some(true) { decode_base64(&chunk.data)? } else { chunk.data.into_bytes() };
    let mut accepted = true;
    if !data.is_empty() {
        accepted = deliver(call, &chunk.request_id, ResponsePart::Data(data.into()));
    }
    if let Some(error) = chunk.error {
        accepted = deliver(call, &chunk.request_id, ResponsePart::Failed(error.message));
    } else if chunk.end == Some(true) {
        accepted = deliver(call, &chunk.request_id, ResponsePart::End);
    }
    call.now(json!({ "accepted": accepted }))
}

/// Delivers a part of a response. Returns whether the request is still open.
fn deliver(call: &Call<'_>, request: &str, part: ResponsePart) -> bool {
    call.service().deliver_model_response(call.connection.client, request, part)
}

fn decode_base64(data: &str) -> Result<Vec<u8>, CallError> {
    STANDARD.decode(data).map_err(|error| CallError::invalid(format_args!("`data` is not base64: {error}")))
}
