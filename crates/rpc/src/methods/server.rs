//! The server itself: connecting, status, shutdown.

use baton_protocol::rpc::{RpcError, code};
use baton_protocol::{Author, Json, Timestamp};
use serde::Deserialize;
use serde_json::json;
use subtle::ConstantTimeEq;

use super::{Call, CallReply, Handled};
use crate::errors::CallError;
use baton_service::server::StopServer;
use baton_service::{Caller, Denied, Operation};

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
        json!({ "ok": true, "protocolVersion": PROTOCOL_VERSION, "version": call.service().version() });
    // An extension was started by this server, over pipes that nobody else has. It must not know the token.
    if call.connection.extension.is_none()
        && let Some(expected) = &call.connection.options.token
        && !bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
    {
        let Some(people) = call.connection.options.people.clone() else { return Err(wrong_token().into()) };
        let connection = call.connection.clone();
        return call.later(async move {
            let person = people.of_token(&given).await.map_err(CallError::failed)?.ok_or_else(wrong_token)?;
            let caller = Caller::new(person.clone(), Author::sdk(connection.client));
            if let Err(Denied { role, needed }) = caller.permit(Operation::Connect) {
                let message =
                    format!("AUTHENTICATION_FAILED: your role is {role}; SDK clients need {needed}");
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

/// Refuses a method whose operation the client may not perform, before its parameters are read. Every method is one of a
/// client that is connected, too.
pub(super) fn check_role(caller: &Caller, method: &str, operation: Operation) -> Result<(), RpcError> {
    let permitted = caller.permit(Operation::Connect).and_then(|()| caller.permit(operation));
    permitted.map_err(|Denied { role, needed }| {
        RpcError::failed(format!("your role is {role}; {method} needs {needed}"))
    })
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
    let version = &call.service().version();
    call.now(json!({ "version": version, "protocolVersion": PROTOCOL_VERSION }))
}

pub(super) fn auth_status(call: &Call<'_>) -> Handled {
    let account = call.service().account();
    let mut status = json!({ "isAuthenticated": account.authenticated });
    match &account.kind {
        Some(kind) => status["authType"] = json!(kind),
        None => status["statusMessage"] = json!("No credentials for a model endpoint were given."),
    }
    call.now(status)
}

/// Releases all sessions, replies, and stops the server.
pub(super) fn shutdown(call: &Call<'_>) -> Handled {
    let (service, caller) = (call.service().clone(), call.caller());
    Ok(CallReply::ThenStop(Box::pin(async move {
        match service.perform(&caller, StopServer).await {
            Ok(()) => Ok(Json::null()),
            Err(error) => Err(RpcError::failed(error.to_string())),
        }
    })))
}
