//! Custom agents: listing and selecting them, and settings of sub-agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_agent::agents::{self, AgentKind};
use baton_ask::Configure;
use baton_ask::skills::{ListSkills, ReloadSkills};
use baton_core::Change;
use baton_core::ask::SendPrompt;
use baton_protocol::agent::CustomAgent;
use baton_protocol::event::{Prompt, SubagentDeselected, SubagentSelected};
use baton_service::{ClientAsk, LiveSession, Service};
use baton_settings::{Settings, SettingsEdit};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, amend};
use crate::errors::CallError;

/// Instruction to the model to give the work to sub-agents.
const FLEET: &str = "Use sub-agents for this. Split it into independent pieces, record them as todos, and give each piece to \
an agent with the task tool, several at a time in the background. A piece that depends on another waits for it. When agents \
have finished, check their work before you rely on it, and make sure that all of the following is done:";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct List {
    include_built_in_agents: Option<bool>,
    include_prompt: Option<bool>,
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    let options: List = call.parse()?;
    let (handle, service) = (call.session()?, call.service().clone());
    call.later(async move {
        let settings = with_found_agents(&service, &handle, ListSkills {}).await?;
        Ok(json!({ "agents": listed(&settings, &options) }))
    })
}

/// Looks for agents again, and lists them.
pub(super) fn reload(call: &Call<'_>) -> Handled {
    let (handle, service) = (call.session()?, call.service().clone());
    call.later(async move {
        let settings = with_found_agents(&service, &handle, ReloadSkills {}).await?;
        Ok(json!({ "agents": listed(&settings, &List::default()) }))
    })
}

/// Returns the settings of a session, with the agents of plugins, the project and the user.
async fn with_found_agents<A: ClientAsk>(
    service: &Service,
    handle: &LiveSession,
    look: A,
) -> Result<Arc<Settings>, CallError> {
    let settings = handle.inspect().await?.settings;
    if !settings.finds_agents() && !service.has_server_plugins() {
        return Ok(settings);
    }
    handle.ask(look).await?;
    Ok(handle.inspect().await?.settings)
}

fn listed(settings: &Settings, options: &List) -> Vec<Value> {
    let built_in = agents::built_in();
    let built_in = built_in.iter().filter(|kind| {
        options.include_built_in_agents == Some(true) && !settings.excluded_agents.contains(&kind.name)
    });
    let own = settings.agents().map(|agent| {
        let mut shown = described(agent);
        if options.include_prompt == Some(true) {
            shown["prompt"] = json!(agent.prompt);
        }
        shown
    });
    own.chain(built_in.map(described_kind)).collect()
}

fn described_kind(kind: &AgentKind) -> Value {
    json!({
        "name": kind.name,
        "id": kind.name,
        "displayName": kind.display_name,
        "description": kind.description,
        "source": "builtin",
    })
}

/// Encodes an agent. Fields that its definition left out are left out.
fn described(agent: &CustomAgent) -> Value {
    let mut shown = json!({
        "name": agent.name,
        "id": agent.name,
        "displayName": agent.display(),
        "description": agent.description.as_deref().unwrap_or_default(),
    });
    let optional = [
        ("model", json!(agent.model)),
        ("tools", json!(agent.tools)),
        ("skills", json!(agent.skills)),
        ("mcpServers", json!(agent.mcp_servers)),
    ];
    for (name, value) in optional {
        if !value.is_null() {
            shown[name] = value;
        }
    }
    shown
}

pub(super) fn current(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "agent": view.settings.agent_in_charge().map(described) }))
}

#[derive(Deserialize)]
struct Select {
    name: String,
}

/// Selects an agent for the conversation, from the next prompt on.
pub(super) fn select(call: &Call<'_>) -> Handled {
    let (handle, Select { name }) = call.parse_for_session()?;
    let (service, by) = (call.service().clone(), call.author());
    call.later(async move {
        let settings = with_found_agents(&service, &handle, ListSkills {}).await?;
        let Some(agent) = settings.agents().find(|agent| agent.name == name) else {
            let names: Vec<&str> = settings.agents().map(|agent| agent.name.as_str()).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            let reason = format!("Agent '{name}' not found. The session's custom agents: {known}.");
            return Err(CallError::failed(reason));
        };
        let selected = SubagentSelected {
            agent_name: agent.name.clone(),
            agent_display_name: agent.display().to_owned(),
            tools: agent.tools.clone(),
        };
        let edit = Box::new(SettingsEdit::SelectAgent(Some(agent.name.clone())));
        handle.tell(Configure { edit })?;
        amend(&handle, by, Change::Noted(Box::new(selected.into()))).await?;
        Ok(json!({ "agent": described(agent) }))
    })
}

/// Returns the conversation to the default agent.
pub(super) fn deselect(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    let edit = Box::new(SettingsEdit::SelectAgent(None));
    handle.tell(Configure { edit })?;
    let change = Change::Noted(Box::new(SubagentDeselected {}.into()));
    call.amend(&handle, change, json!({}))
}

#[derive(Deserialize)]
struct UpdateSettings {
    subagents: Option<SubagentSettings>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubagentSettings {
    agents: BTreeMap<String, SubagentEntry>,
    disabled_subagents: Vec<String>,
}

/// Settings of one kind of agent. Reasoning effort and context window are those of the model here, whatever a client sends.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SubagentEntry {
    model: Option<String>,
}

/// Sets the models of kinds of agents, and disables kinds. Replaces earlier settings; without any, resets them.
pub(super) fn update_settings(call: &Call<'_>) -> Handled {
    let (handle, UpdateSettings { subagents }) = call.parse_for_session()?;
    let SubagentSettings { agents, disabled_subagents } = subagents.unwrap_or_default();
    let models = agents.into_iter().filter_map(|(kind, entry)| Some((kind, entry.model?))).collect();
    let edit = Box::new(SettingsEdit::SubAgents { models, disabled: disabled_subagents });
    call.ask(&handle, Configure { edit }, |()| json!({}))
}

#[derive(Deserialize)]
struct StartFleet {
    prompt: Option<String>,
}

/// Sends a prompt with the instruction to use sub-agents. It is queued like any other prompt.
pub(super) fn start_fleet(call: &Call<'_>) -> Handled {
    let (handle, StartFleet { prompt }) = call.parse_for_session()?;
    let task = prompt.unwrap_or_else(|| "Continue with the remaining work.".into());
    let prompt = Prompt {
        text: format!("{FLEET}\n\n{task}"),
        display: Some(task),
        by: Some(call.author()),
        ..Prompt::default()
    };
    call.ask(&handle, SendPrompt { prompt: Box::new(prompt) }, |_| json!({ "started": true }))
}
