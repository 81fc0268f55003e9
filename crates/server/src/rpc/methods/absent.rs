//! What the protocol has and this server does not: remote control, schedules, completions by a host, plugins.
//!
//! A question about such a thing has a true answer: there is none, it is off, nothing was found. A request to do
//! something with it is refused in words that say so. Neither is a method that nobody knows.

use baton_core::Change;
use baton_protocol::event::Body;
use baton_protocol::rpc::{RpcError, code};
use baton_protocol::{Json, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, void};
use crate::rpc::errors;
use crate::session::Mail;

/// The table of what there is none of.
pub(super) fn route(call: &Call<'_>) -> Handling {
    match call.method {
        "session.completions.getTriggerCharacters" => of_session(call, json!({ "triggerCharacters": [] })),
        "session.completions.request" => of_session(call, json!({ "items": [] })),
        // Sessions are shared by attaching to this server, not through a page on the web.
        "session.visibility.get" | "session.visibility.set" => of_session(call, json!({ "synced": false })),
        "session.schedule.list" => of_session(call, json!({ "entries": [] })),
        "session.schedule.stop" => of_session(call, json!({})),

        // Tools are ready when a session is; there are no language servers, and nobody is sent telemetry.
        "session.tools.initializeAndValidate" => of_session(call, json!({})),
        "session.lsp.initialize" | "session.telemetry.setFeatureOverrides" => of_session(call, void()),
        "session.telemetry.getEngagementId" => of_session(call, json!({})),

        "session.remote.enable" => remote_enable(call),
        "session.remote.disable" => of_session(call, json!({})),
        "session.remote.notifySteerableChanged" => steerable_changed(call),
        "sessions.getRemoteControlStatus" | "sessions.setRemoteControlSteering" => call.now(remote_off(&[])),
        "sessions.stopRemoteControl" => call.now(remote_off(&["stopped"])),
        "sessions.transferRemoteControl" => call.now(remote_off(&["transferred"])),
        "sessions.startRemoteControl" => start_remote_control(call),
        "sessions.connect" => connect(call),
        "sessions.findByTaskId" => call.now(json!({})),

        "session.plugins.list" => of_session(call, json!({ "plugins": [] })),
        "session.plugins.reload" => of_session(call, void()),
        "sessions.setAdditionalPlugins" => additional_plugins(call),
        "sessions.reloadPluginHooks" => call.now(json!({})),
        "sessions.loadDeferredRepoHooks" => call.now(json!({ "startupPrompts": [], "hookCount": 0 })),
        "agentRegistry.spawn" => {
            let message = "agentRegistry.spawn is not enabled on this server";
            Err(RpcError::new(code::METHOD_NOT_FOUND, message))
        }
        "session.extensions.sendAttachmentsToMessage" => {
            call.session()?;
            let only = "may only be called from an extension-owned connection.";
            Err(RpcError::failed(format!("{} {only}", call.method)))
        }

        // A command goes to the background by itself when it takes long, and a sub-agent is told its task once.
        "session.tasks.getCurrentPromotable" | "session.tasks.promoteCurrentToBackground" => {
            of_session(call, json!({}))
        }
        "session.tasks.promoteToBackground" => of_session(call, json!({ "promoted": false })),
        "session.tasks.sendMessage" => {
            let error = "Agent not found or not accepting messages";
            of_session(call, json!({ "sent": false, "error": error }))
        }

        // None of these is ever asked of a client here, so no answer to one is waited for.
        "session.ui.handlePendingSampling"
        | "session.ui.handlePendingSessionLimitsExhausted"
        | "session.mcp.headers.handlePendingHeadersRefreshRequest" => {
            of_session(call, json!({ "success": false }))
        }

        unknown => Err(RpcError::unknown_method(unknown)),
    }
}

/// The same answer for every session that is there.
fn of_session(call: &Call<'_>, answer: Value) -> Handling {
    call.session()?;
    call.now(answer)
}

/// Remote control is off; and so nothing was done about it.
fn remote_off(undone: &[&str]) -> Value {
    let mut status = json!({ "status": { "state": "off" } });
    for what in undone {
        status[what] = json!(false);
    }
    status
}

#[derive(Deserialize)]
struct RemoteMode {
    mode: Option<String>,
}

fn remote_enable(call: &Call<'_>) -> Handling {
    call.session()?;
    match call.parse::<RemoteMode>()?.mode.as_deref() {
        Some("off") => call.now(json!({ "remoteSteerable": false, "started": false })),
        _ => Err(errors::failed(call.method, "This server has no remote control through GitHub.")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SteerableChanged {
    session_id: SessionId,
    remote_steerable: bool,
}

/// A client that has remote control of its own says whether it is on; everybody is told, and it is kept.
fn steerable_changed(call: &Call<'_>) -> Handling {
    let params: SteerableChanged = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let data = Json::from(json!({ "remoteSteerable": params.remote_steerable }));
    let event = Body::Unknown { kind: "session.remote_steerable_changed".into(), data };
    let change = Box::new(Change::Noted(Box::new(event)));
    call.by_responder(&handle, |respond| Mail::Change(change, respond), |_| Ok(json!({})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnySession {
    session_id: String,
}

fn start_remote_control(call: &Call<'_>) -> Handling {
    let AnySession { session_id } = call.parse()?;
    let known = session_id.parse().ok().and_then(|id| call.connection.attached(&id));
    let why = match known {
        None => format!("session not found: {session_id}"),
        Some(_) => "This server has no remote control through GitHub.".into(),
    };
    Err(errors::failed(call.method, why))
}

fn connect(call: &Call<'_>) -> Handling {
    let AnySession { session_id } = call.parse()?;
    Err(errors::failed(call.method, format_args!("No remote session found for '{session_id}'")))
}

#[derive(Deserialize)]
struct Plugins {
    plugins: Vec<Value>,
}

fn additional_plugins(call: &Call<'_>) -> Handling {
    match call.parse::<Plugins>()?.plugins.len() {
        0 => call.now(json!({})),
        _ => Err(errors::failed(call.method, "This server has no plugins.")),
    }
}
