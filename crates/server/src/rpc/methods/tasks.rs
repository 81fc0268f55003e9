//! What goes on in a session beside its conversation: commands in the background, and the sub-agents of its turn.

use baton_agent::tools::agents::{self, TaskMode};
use baton_agent::tools::shell::{Background, CommandProgress};
use baton_core::{Change, Delegate, Reply};
use baton_protocol::event::{AgentForgotten, ExecutionMode};
use baton_protocol::{AgentId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Mail, View};
use crate::work::{self, Bench};

pub(super) fn list(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let agents = view.session.durable.known_agents().map(described_agent);
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
        "prompt": agent.prompt,
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
        if let Some(agent) = view.session.durable.known_agents().find(|agent| agent.id.as_str() == id) {
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

/// Forgets what has ended: a command, or a sub-agent.
pub(super) fn remove(call: &Call<'_>) -> Handling {
    let Task { session_id, id } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let agent_id = AgentId::from(id.as_str());
        let look = move |view: View<'_>| {
            let mut agents = view.session.durable.known_agents();
            let is_agent = agents.any(|agent| agent.id.as_str() == id && agent.ending.is_some());
            (is_agent, !is_agent && view.tools.forget_background(&id))
        };
        let (is_agent, removed) = handle.look(look).await.map_err(told)?;
        if is_agent {
            let forgotten = Box::new(Change::Noted(Box::new(AgentForgotten { agent_id }.into())));
            handle.ask(|respond| Mail::Change(forgotten, respond)).await.map_err(told)?;
        }
        Ok(json!({ "removed": is_agent || removed }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartAgent {
    session_id: SessionId,
    agent_type: String,
    prompt: String,
    name: Option<String>,
    description: Option<String>,
    model: Option<String>,
}

/// Starts a sub-agent in the background. The model is told when it has ended.
pub(super) fn start_agent(call: &Call<'_>) -> Handling {
    let wish: StartAgent = call.parse()?;
    let (handle, method) = (call.attached(&wish.session_id)?, call.method.to_owned());
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let bench = handle.borrow().await.map_err(told)?;
        let kinds = bench.settings.agent_kinds();
        let Some(kind) = kinds.iter().find(|kind| kind.name == wish.agent_type) else {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
            let why = format!("Unknown agent type: {}. Valid types: {}", wish.agent_type, names.join(", "));
            return Err(errors::failed(&method, why));
        };
        if let Some(model) = &wish.model {
            check_model(&bench, model).await.map_err(|why| errors::failed(&method, why))?;
        }
        let task = agents::Task {
            agent_type: wish.agent_type,
            name: wish.name,
            description: wish.description.unwrap_or_default(),
            prompt: wish.prompt,
            mode: TaskMode::Background,
            model: wish.model,
        };
        let task = Box::new(work::delegation(&bench, task, kind).await);
        match handle.ask(|respond| Mail::StartAgent(task, respond)).await.map_err(told)? {
            Reply::AgentStarted(agent) => Ok(json!({ "agentId": agent })),
            Reply::Refused(why) => Err(errors::failed(&method, why)),
            other => Err(errors::failed(&method, format_args!("unexpected answer {other:?}"))),
        }
    })
}

/// Whether a model can be asked for, as far as that can be told: an endpoint that the client brought knows its own.
async fn check_model(bench: &Bench, model: &str) -> Result<(), String> {
    let settings = &bench.settings;
    if settings.provider.is_some() || settings.models.iter().any(|known| known.selection() == model) {
        return Ok(());
    }
    let known = bench.server.models.list().await.unwrap_or_default();
    let known: Vec<&str> = known.iter().filter_map(|entry| entry.get("id")?.as_str()).collect();
    if known.is_empty() || known.contains(&model) {
        return Ok(());
    }
    Err(format!("Model '{model}' is not available. Available models: {}", known.join(", ")))
}
