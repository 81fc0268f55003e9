//! What goes on in a session beside its conversation: commands in the background, and the sub-agents of its turn.

use baton_agent::tools::shell::{Background, CommandProgress};
use baton_core::{Delegate, Reply};
use baton_protocol::event::ExecutionMode;
use baton_protocol::{AgentId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::Mail;
use crate::work;

pub(super) fn list(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let agents = view.session.durable.turn.iter().flat_map(|turn| &turn.agents).map(described_agent);
        let tasks: Vec<Value> = agents.chain(view.tools.background().iter().map(described)).collect();
        json!({ "tasks": tasks })
    })
}

fn described_agent(agent: &Delegate) -> Value {
    let mode = match agent.mode {
        ExecutionMode::Sync => "sync",
        ExecutionMode::Background => "background",
    };
    let mut shown = json!({
        "type": "agent",
        "id": agent.id,
        "toolCallId": agent.call,
        "displayName": agent.name,
        "description": agent.description,
        "status": work::agent_status(agent),
        "agentType": agent.kind,
        "prompt": agent.description,
        "executionMode": mode,
        "canPromoteToBackground": false,
        "startedAt": agent.started,
    });
    if !agent.answer.is_empty() {
        shown["latestResponse"] = json!(agent.answer);
    }
    if let Some(ending) = &agent.ending {
        shown["completedAt"] = json!(ending.at);
    }
    if let Some(model) = &agent.model {
        shown["model"] = json!(model);
    }
    shown
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
        let mut agents = view.session.durable.turn.iter().flat_map(|turn| &turn.agents);
        if let Some(agent) = agents.find(|agent| agent.id.as_str() == id) {
            let activity = json!([{ "message": agent.description, "timestamp": agent.started }]);
            return json!({ "progress": { "type": "agent", "recentActivity": activity } });
        }
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
        let stop = |respond| Mail::StopAgent(AgentId::from(id.as_str()), respond);
        let stopped = handle.ask(stop).await.map_err(|f| errors::of(&method, &f))?;
        if stopped == (Reply::Aborted { had_work: true }) {
            return Ok(json!({ "cancelled": true }));
        }
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
    session_id: SessionId,
    agent_type: String,
}

/// Agents belong to a turn, and are started by its model; a client asks the model for one.
pub(super) fn start_agent(call: &Call<'_>) -> Handling {
    let StartAgent { session_id, agent_type } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let kinds =
            handle.look(|view| view.settings.agent_kinds()).await.map_err(|f| errors::of(&method, &f))?;
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let why = if names.contains(&agent_type.as_str()) {
            "Agents are started by the model here: send a prompt that asks for one.".to_owned()
        } else {
            format!("Unknown agent type: {agent_type}. Valid types: {}", names.join(", "))
        };
        Err(errors::failed(&method, why))
    })
}
