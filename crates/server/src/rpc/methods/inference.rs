//! A client that carries model requests itself; see [`crate::models::Tunnel`].

use std::collections::BTreeMap;

use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

use super::{Call, Handling, success};
use crate::models::Piece;

/// The caller will carry requests from now on.
pub(super) fn set_provider(call: &Call<'_>) -> Handling {
    // The server lives as long as the connection, and not the other way round.
    let connection = Arc::downgrade(call.connection);
    let carry = move |method, params| match connection.upgrade() {
        Some(connection) => connection.call(method, params),
        None => Box::pin(async { Err(crate::session::CallFailed::Gone) }),
    };
    call.connection.server.models.tunnel.offer(call.connection.client, Arc::new(carry));
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

pub(super) fn response_start(call: &Call<'_>) -> Handling {
    let Start { request_id, status, headers } = call.parse()?;
    let each =
        |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    let headers = headers.into_iter().flat_map(each).collect();
    take(call, &request_id, Piece::Head { status, headers })
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

pub(super) fn response_chunk(call: &Call<'_>) -> Handling {
    let chunk: Chunk = call.parse()?;
    let data = if chunk.binary == Some(true) { decoded(&chunk.data)? } else { chunk.data.into_bytes() };
    let mut accepted = true;
    if !data.is_empty() {
        accepted = tell(call, &chunk.request_id, Piece::Data(data.into()));
    }
    if let Some(error) = chunk.error {
        return take(call, &chunk.request_id, Piece::Failed(error.message));
    }
    if chunk.end == Some(true) {
        return take(call, &chunk.request_id, Piece::End);
    }
    call.now(json!({ "accepted": accepted }))
}

fn tell(call: &Call<'_>, request: &str, piece: Piece) -> bool {
    call.connection.server.models.tunnel.take(request, piece)
}

fn take(call: &Call<'_>, request: &str, piece: Piece) -> Handling {
    let accepted = tell(call, request, piece);
    call.now(json!({ "accepted": accepted }))
}

fn decoded(data: &str) -> Result<Vec<u8>, RpcError> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(data).map_err(|error| {
        RpcError::bad_params(format!("llmInference.httpResponseChunk: `data` is no base64: {error}"))
    })
}
