//! Tasks of a session: background commands and sub-agents.

use baton_agent::tools::shell::{Background, CommandProgress};
use baton_ask::View;
use baton_ask::{EndBackground, ForgetBackground, ListBackground, NewTask, StartTask};
use baton_core::ask::StopAgent;
use baton_core::{Change, SubAgent};
use baton_protocol::AgentId;
use baton_protocol::event::{AgentForgotten, ExecutionMode};
use baton_runtime::work;
use baton_service::{AskError, LiveSession};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, amend};

pub(super) fn list(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.later(async move {
        let (view, commands) = tasks(&handle).await?;
        let agents = view.session.durable.known_agents().map(described_agent);
        let tasks: Vec<Value> = agents.chain(commands.iter().map(described_command)).collect();
        Ok(json!({ "tasks": tasks }))
    })
}

/// Returns the state of a session, with its sub-agents, and its background commands.
async fn tasks(handle: &LiveSession) -> Result<(View, Vec<Background>), AskError> {
    let (view, commands) = (handle.inspect(), handle.ask(ListBackground {}));
    Ok((view.await?, commands.await?))
}

fn described_agent(agent: &SubAgent) -> Value {
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

fn described_command(command: &Background) -> Value {
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

/// Answers methods with nothing to do: the list is always current, and no notice to the model is pending.
pub(super) fn acknowledge(call: &Call<'_>) -> Handled {
    call.session()?;
    call.now(json!({}))
}

#[derive(Deserialize)]
struct Task {
    id: String,
}

/// Returns the progress of a task. The output of a command is for the model only.
pub(super) fn progress(call: &Call<'_>) -> Handled {
    let (handle, Task { id }) = call.parse_for_session()?;
    call.later(async move {
        let (view, commands) = tasks(&handle).await?;
        if let Some(agent) = view.session.durable.known_agents().find(|agent| agent.id.as_str() == id) {
            let activity = json!([{ "message": agent.description, "timestamp": agent.started }]);
            return Ok(json!({ "progress": { "type": "agent", "recentActivity": activity } }));
        }
        let found = commands.iter().find(|command| command.id == id);
        let progress =
            found.map(|command| json!({ "type": "shell", "pid": command.pid, "recentOutput": "" }));
        Ok(json!({ "progress": progress }))
    })
}

pub(super) fn cancel(call: &Call<'_>) -> Handled {
    let (handle, Task { id }) = call.parse_for_session()?;
    call.later(async move {
        let stopped = handle.ask(StopAgent { agent: AgentId::from(id.as_str()) }).await?;
        let cancelled = stopped || handle.ask(EndBackground { id }).await?;
        Ok(json!({ "cancelled": cancelled }))
    })
}

/// Removes an ended command or sub-agent from the list.
pub(super) fn remove(call: &Call<'_>) -> Handled {
    let (handle, Task { id }) = call.parse_for_session()?;
    let by = call.author();
    call.later(async move {
        let view = handle.inspect().await?;
        let mut agents = view.session.durable.known_agents();
        if agents.any(|agent| agent.id.as_str() == id && agent.ending.is_some()) {
            let agent_id = AgentId::from(id.as_str());
            amend(&handle, by, Change::Noted(Box::new(AgentForgotten { agent_id }.into()))).await?;
            return Ok(json!({ "removed": true }));
        }
        let removed = handle.ask(ForgetBackground { id }).await?;
        Ok(json!({ "removed": removed }))
    })
}

/// Starts a sub-agent in the background. The model is notified when it has finished.
pub(super) fn start_agent(call: &Call<'_>) -> Handled {
    let (handle, task): (_, NewTask) = call.parse_for_session()?;
    call.ask_later(&handle, StartTask { task: Box::new(task) }, |agent| json!({ "agentId": agent }))
}
