//! Interest of clients in types of events.

use baton_ask::mcp::{SupplyMcpHeaders, SupplyMcpTokens};
use baton_core::ask::RegisterRunner;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, success};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Register {
    event_type: String,
}

/// Registers interest in a type of events. Interest in queued commands makes the client a runner; every other event is sent
/// to all clients in any case.
pub(super) fn register(call: &Call<'_>) -> Handled {
    let (session, Register { event_type }) = call.parse_for_session()?;
    let handle = uuid::Uuid::new_v4().to_string();
    if event_type == "command.queued" {
        let client = call.connection.client;
        session.tell(RegisterRunner { client, handle: handle.clone(), registered: true })?;
    }
    match event_type.as_str() {
        "mcp.oauth_required" => session.tell(SupplyMcpTokens { supplied: true })?,
        "mcp.headers_refresh_required" => session.tell(SupplyMcpHeaders {})?,
        _ => {}
    }
    call.now(json!({ "handle": handle }))
}

#[derive(Deserialize)]
struct Release {
    handle: String,
}

pub(super) fn release(call: &Call<'_>) -> Handled {
    let (session, Release { handle }) = call.parse_for_session()?;
    let ask = RegisterRunner { client: call.connection.client, handle, registered: false };
    call.ask(&session, ask, |()| success())
}
