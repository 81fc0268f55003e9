//! What goes on in a session beside its conversation: commands in the background. There are no sub-agents.

use baton_agent::tools::shell::{Background, CommandProgress};
use baton_protocol::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;

pub(super) fn list(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let tasks: Vec<Value> = view.tools.background().iter().map(described).collect();
        json!({ "tasks": tasks })
    })
}

fn described(command: &Background) -> Value {
    let status = match command.progress {
        CommandProgress::Running => "running",
        CommandProgress::Exited(0) => "completed",
        CommandProgress::Exited(_) => "failed",
        CommandProgress::Ended => "cancelled",
    };
    json!({
        "type": "shell",
        "id": command.id,
        "command": command.command,
        "description": command.command,
        "status": status,
        "startedAt": command.started,
        "pid": command.pid,
        "attachmentMode": "attached",
        "executionMode": "background",
        "canPromoteToBackground": false,
    })
}

/// The list is always fresh; and nothing is told to the model later that could be waited for.
pub(super) fn settled(call: &Call<'_>) -> Handling {
    call.session()?;
    call.now(json!({}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    session_id: SessionId,
    id: String,
}

/// How a command does. What it prints is the model's to read.
pub(super) fn progress(call: &Call<'_>) -> Handling {
    let Task { id, .. } = call.parse()?;
    call.view(move |view| {
        let commands = view.tools.background();
        let found = commands.iter().find(|command| command.id == id);
        let progress =
            found.map(|command| json!({ "type": "shell", "pid": command.pid, "recentOutput": "" }));
        json!({ "progress": progress })
    })
}

pub(super) fn cancel(call: &Call<'_>) -> Handling {
    let Task { session_id, id } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let room = handle.look(|view| view.tools.clone()).await.map_err(|f| errors::of(&method, &f))?;
        Ok(json!({ "cancelled": room.end_background(&id).await }))
    })
}

pub(super) fn remove(call: &Call<'_>) -> Handling {
    let Task { id, .. } = call.parse()?;
    call.view(move |view| json!({ "removed": view.tools.forget_background(&id) }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartAgent {
    agent_type: String,
}

pub(super) fn start_agent(call: &Call<'_>) -> Handling {
    call.session()?;
    let StartAgent { agent_type } = call.parse()?;
    let why = format!("Unknown agent type: {agent_type}. This server has no sub-agents yet.");
    Err(errors::failed(call.method, why))
}
