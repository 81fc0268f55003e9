//! Methods of features that this server does not have: remote control, schedules, completions.
//!
//! Methods that read the state of these features return the truth: empty, off, not found. Methods that change it fail with the
//! reason. Only methods that the protocol does not have are unknown.

use baton_core::Change;
use baton_protocol::Json;
use baton_protocol::event::Body;
use baton_protocol::rpc::{RpcError, code};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, void};
use crate::errors::CallError;

/// Calls the handler of a method of an unsupported feature.
pub(super) fn route(call: &Call<'_>) -> Handled {
    match call.method {
        "session.completions.getTriggerCharacters" => if_attached(call, json!({ "triggerCharacters": [] })),
        "session.completions.request" => if_attached(call, json!({ "items": [] })),
        // Sessions are shared by attaching to this server, not through a web page.
        "session.visibility.get" | "session.visibility.set" => if_attached(call, json!({ "synced": false })),
        "session.schedule.list" => if_attached(call, json!({ "entries": [] })),
        "session.schedule.stop" => if_attached(call, json!({})),

        // Tools are ready when a session is; there are no language servers and no telemetry.
        "session.tools.initializeAndValidate" => if_attached(call, json!({})),
        "session.lsp.initialize" | "session.telemetry.setFeatureOverrides" => if_attached(call, void()),
        "session.telemetry.getEngagementId" => if_attached(call, json!({})),

        "session.remote.enable" => remote_enable(call),
        "session.remote.disable" => if_attached(call, json!({})),
        "session.remote.notifySteerableChanged" => steerable_changed(call),
        "sessions.getRemoteControlStatus" | "sessions.setRemoteControlSteering" => call.now(remote_off(&[])),
        "sessions.stopRemoteControl" => call.now(remote_off(&["stopped"])),
        "sessions.transferRemoteControl" => call.now(remote_off(&["transferred"])),
        "sessions.startRemoteControl" => start_remote_control(call),
        "sessions.connect" => connect(call),
        "sessions.findByTaskId" => call.now(json!({})),

        "sessions.reloadPluginHooks" => call.now(json!({})),
        "sessions.loadDeferredRepoHooks" => call.now(json!({ "startupPrompts": [], "hookCount": 0 })),
        "agentRegistry.spawn" => {
            let message = "agentRegistry.spawn is not enabled on this server";
            Err(RpcError::new(code::METHOD_NOT_FOUND, message).into())
        }

        // A command that takes long goes to the background by itself, and a sub-agent gets its task once.
        "session.tasks.getCurrentPromotable" | "session.tasks.promoteCurrentToBackground" => {
            if_attached(call, json!({}))
        }
        "session.tasks.promoteToBackground" => if_attached(call, json!({ "promoted": false })),
        "session.tasks.sendMessage" => {
            let error = "Agent not found or not accepting messages";
            if_attached(call, json!({ "sent": false, "error": error }))
        }

        // This server makes none of these requests, so none is pending.
        "session.ui.handlePendingSessionLimitsExhausted" => if_attached(call, json!({ "success": false })),

        unknown => Err(RpcError::unknown_method(unknown).into()),
    }
}

/// Replies with a constant if the client is attached to the session.
fn if_attached(call: &Call<'_>, result: Value) -> Handled {
    call.session()?;
    call.now(result)
}

/// Returns the result of methods of remote control: it is off, and no action was taken.
fn remote_off(actions: &[&str]) -> Value {
    let mut status = json!({ "status": { "state": "off" } });
    for action in actions {
        status[action] = json!(false);
    }
    status
}

#[derive(Deserialize)]
struct RemoteMode {
    mode: Option<String>,
}

fn remote_enable(call: &Call<'_>) -> Handled {
    call.session()?;
    match call.parse::<RemoteMode>()?.mode.as_deref() {
        Some("off") => call.now(json!({ "remoteSteerable": false, "started": false })),
        _ => Err(CallError::failed("This server has no remote control through GitHub.")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SteerableChanged {
    remote_steerable: bool,
}

/// Records whether a client's own remote control is on, for all clients.
fn steerable_changed(call: &Call<'_>) -> Handled {
    let (handle, SteerableChanged { remote_steerable }) = call.parse_for_session()?;
    let data = Json::from(json!({ "remoteSteerable": remote_steerable }));
    let event = Body::Unknown { kind: "session.remote_steerable_changed".into(), data };
    call.amend(&handle, Change::Noted(Box::new(event)), json!({}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnySession {
    session_id: String,
}

fn start_remote_control(call: &Call<'_>) -> Handled {
    let AnySession { session_id } = call.parse()?;
    let attached = session_id.parse().ok().and_then(|id| call.connection.attached(&id));
    let reason = match attached {
        None => format!("session not found: {session_id}"),
        Some(_) => "This server has no remote control through GitHub.".into(),
    };
    Err(CallError::failed(reason))
}

fn connect(call: &Call<'_>) -> Handled {
    let AnySession { session_id } = call.parse()?;
    Err(CallError::failed(format_args!("No remote session found for '{session_id}'")))
}
