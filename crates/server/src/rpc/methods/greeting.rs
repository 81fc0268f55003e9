//! Hello and goodbye.

use baton_protocol::rpc::{RpcError, code};
use baton_protocol::{Json, Timestamp};
use serde::Deserialize;
use serde_json::json;
use subtle::ConstantTimeEq;

use super::{Call, Handled, Handling};

/// The version of the protocol that we speak: the one with broadcast events.
const PROTOCOL_VERSION: u32 = 3;

#[derive(Deserialize)]
struct Connect {
    token: Option<String>,
}

/// The first call of a current SDK. With a token set, nothing else is served before it was given.
pub(super) fn connect(call: &Call<'_>) -> Handling {
    let given = call.parse::<Connect>()?.token.unwrap_or_default();
    if let Some(expected) = &call.connection.server.options.connection_token
        && !bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
    {
        return Err(RpcError::new(
            code::AUTHENTICATION_FAILED,
            "AUTHENTICATION_FAILED: the connection token is missing or wrong",
        ));
    }
    call.connection.admit();
    let version = &call.connection.server.options.version;
    call.now(json!({ "ok": true, "protocolVersion": PROTOCOL_VERSION, "version": version }))
}

pub(super) fn not_admitted() -> RpcError {
    let message = "AUTHENTICATION_REQUIRED: call `connect` with the connection token first";
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

#[derive(Deserialize)]
struct Ping {
    message: Option<String>,
}

pub(super) fn ping(call: &Call<'_>) -> Handling {
    let message = match call.parse::<Ping>()?.message {
        Some(message) => format!("pong: {message}"),
        None => "pong".into(),
    };
    let timestamp = call.connection.dialect().ping_time(Timestamp::now());
    call.now(json!({ "message": message, "timestamp": timestamp, "protocolVersion": PROTOCOL_VERSION }))
}

pub(super) fn status(call: &Call<'_>) -> Handling {
    let version = &call.connection.server.options.version;
    call.now(json!({ "version": version, "protocolVersion": PROTOCOL_VERSION }))
}

pub(super) fn auth_status(call: &Call<'_>) -> Handling {
    let account = &call.connection.server.options.account;
    let mut status = json!({ "isAuthenticated": account.authenticated });
    match &account.kind {
        Some(kind) => status["authType"] = json!(kind),
        None => status["statusMessage"] = json!("No credentials for a model endpoint were given."),
    }
    call.now(status)
}

/// Cleans up, answers, and serves nothing any more.
pub(super) fn shutdown(call: &Call<'_>) -> Handling {
    let server = call.connection.server.clone();
    Ok(Handled::Farewell(Box::pin(async move {
        server.let_go().await;
        Ok(Json::null())
    })))
}
