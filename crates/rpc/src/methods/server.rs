//! The server itself: connecting, status, shutdown.

use baton_protocol::rpc::{RpcError, code};
use baton_protocol::{Json, Timestamp};
use serde::Deserialize;
use serde_json::json;
use subtle::ConstantTimeEq;

use super::{Call, CallReply, Handled};
use crate::connection::Connection;
use crate::errors::CallError;
use baton_people::access;

/// Version of the protocol: the one with broadcast events.
const PROTOCOL_VERSION: u32 = 3;

#[derive(Deserialize)]
struct Connect {
    token: Option<String>,
}

/// Authenticates the client. The first call of current SDKs, and with a token the only one allowed before it succeeds.
pub(super) fn connect(call: &Call<'_>) -> Handled {
    let given = call.parse::<Connect>()?.token.unwrap_or_default();
    let connected =
        json!({ "ok": true, "protocolVersion": PROTOCOL_VERSION, "version": call.runtime().options.version });
    // An extension was started by this server, over pipes that nobody else has. It must not know the token.
    if call.connection.extension.is_none()
        && let Some(expected) = &call.connection.options.token
        && !bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
    {
        let Some(people) = call.connection.options.people.clone() else { return Err(wrong_token().into()) };
        let connection = call.connection.clone();
        return call.later(async move {
            let person = people.of_token(&given).await.map_err(CallError::failed)?.ok_or_else(wrong_token)?;
            if person.role() < access::JSON_RPC {
                let message = format!(
                    "AUTHENTICATION_FAILED: your role is {}; SDK clients need {}",
                    person.role(),
                    access::JSON_RPC
                );
                return Err(RpcError::new(code::AUTHENTICATION_FAILED, message).into());
            }
            if connection.admit_person(people, person) {
                return Ok(connected);
            }
            Err(CallError::failed("you have too many connections open; close some and try again"))
        });
    }
    call.connection.admit();
    call.now(connected)
}

fn wrong_token() -> RpcError {
    let message = "AUTHENTICATION_FAILED: the connection token is missing or wrong";
    RpcError::new(code::AUTHENTICATION_FAILED, message)
}

/// Returns the error for a call before `connect`.
pub(super) fn not_admitted() -> RpcError {
    let message = "AUTHENTICATION_REQUIRED: call `connect` with the connection token first";
    RpcError::new(code::AUTHENTICATION_REQUIRED, message)
}

/// Refuses a method that needs a stronger role than that of the client's person.
pub(super) fn check_role(connection: &Connection, method: &str) -> Result<(), RpcError> {
    let (role, needed) = (connection.role(), access::json_rpc(method));
    if role >= needed {
        return Ok(());
    }
    Err(RpcError::failed(format!("your role is {role}; {method} needs {needed}")))
}

#[derive(Deserialize)]
struct Ping {
    message: Option<String>,
}

pub(super) fn ping(call: &Call<'_>) -> Handled {
    let message = match call.parse::<Ping>()?.message {
        Some(message) => format!("pong: {message}"),
        None => "pong".into(),
    };
    let timestamp = call.connection.dialect().ping_time(Timestamp::now());
    call.now(json!({ "message": message, "timestamp": timestamp, "protocolVersion": PROTOCOL_VERSION }))
}

pub(super) fn status(call: &Call<'_>) -> Handled {
    let version = &call.runtime().options.version;
    call.now(json!({ "version": version, "protocolVersion": PROTOCOL_VERSION }))
}

pub(super) fn auth_status(call: &Call<'_>) -> Handled {
    let account = &call.runtime().options.account;
    let mut status = json!({ "isAuthenticated": account.authenticated });
    match &account.kind {
        Some(kind) => status["authType"] = json!(kind),
        None => status["statusMessage"] = json!("No credentials for a model endpoint were given."),
    }
    call.now(status)
}

/// Releases all sessions, replies, and stops the server.
pub(super) fn shutdown(call: &Call<'_>) -> Handled {
    let runtime = call.runtime().clone();
    Ok(CallReply::ThenStop(Box::pin(async move {
        runtime.let_go().await;
        Ok(Json::null())
    })))
}
