//! Custom agents: which there are, and which of them the conversation is with.

use std::collections::BTreeMap;

use baton_agent::agents::{self, AgentKind};
use baton_core::Change;
use baton_protocol::SessionId;
use baton_protocol::agent::CustomAgent;
use baton_protocol::event::{Body, Prompt, SubagentDeselected, SubagentSelected};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Mail, Settings};

/// What the model is told when agents are to do the work.
const FLEET: &str = "Have sub-agents do this. Take it apart into pieces that do not depend on each other, write them down \
as things to do, and hand each to an agent with the task tool, several at a time in the background. What depends on a piece \
waits for it. When agents have ended, look at what they did before you count on it, and see to it that all of the following \
is done:";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct List {
    include_built_in_agents: Option<bool>,
    include_prompt: Option<bool>,
}

pub(super) fn list(call: &Call<'_>) -> Handling {
    let wish: List = call.parse()?;
    call.view(move |view| json!({ "agents": listed(view.settings, &wish) }))
}

/// What a client brings is known as soon as it has brought it: there is nothing to read again.
pub(super) fn reload(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "agents": listed(view.settings, &List::default()) }))
}

fn listed(settings: &Settings, wish: &List) -> Vec<Value> {
    let built_in = agents::built_in();
    let built_in = built_in.iter().filter(|kind| {
        wish.include_built_in_agents == Some(true) && !settings.excluded_agents.contains(&kind.name)
    });
    let own = settings.custom_agents.iter().map(|agent| {
        let mut shown = described(agent);
        if wish.include_prompt == Some(true) {
            shown["prompt"] = json!(agent.prompt);
        }
        shown
    });
    own.chain(built_in.map(of_kind)).collect()
}

fn of_kind(kind: &AgentKind) -> Value {
    json!({
        "name": kind.name,
        "id": kind.name,
        "displayName": kind.display_name,
        "description": kind.description,
        "source": "builtin",
    })
}

/// An agent as clients are told of it: what was left out stays out.
fn described(agent: &CustomAgent) -> Value {
    let mut shown = json!({
        "name": agent.name,
        "id": agent.name,
        "displayName": agent.display(),
        "description": agent.description.as_deref().unwrap_or_default(),
    });
    let known = [
        ("model", json!(agent.model)),
        ("tools", json!(agent.tools)),
        ("skills", json!(agent.skills)),
        ("mcpServers", json!(agent.mcp_servers)),
    ];
    for (name, value) in known {
        if !value.is_null() {
            shown[name] = value;
        }
    }
    shown
}

pub(super) fn current(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "agent": view.settings.agent_in_charge().map(described) }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Select {
    session_id: SessionId,
    name: String,
}

/// Chooses an agent for the conversation, from the next prompt on.
pub(super) fn select(call: &Call<'_>) -> Handling {
    let Select { session_id, name } = call.parse()?;
    let (handle, method) = (call.attached(&session_id)?, call.method.to_owned());
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let agents = handle.look(|view| view.settings.custom_agents.clone()).await.map_err(told)?;
        let Some(agent) = agents.iter().find(|agent| agent.name == name) else {
            let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            let there = if names.is_empty() { "none".into() } else { names.join(", ") };
            let why = format!("Agent '{name}' not found. The session's custom agents: {there}.");
            return Err(errors::failed(&method, why));
        };
        let chosen = agent.name.clone();
        let selected = SubagentSelected {
            agent_name: chosen.clone(),
            agent_display_name: agent.display().to_owned(),
            tools: agent.tools.clone(),
        };
        handle
            .send(Mail::Adjust(Box::new(move |settings| settings.chosen_agent = Some(chosen))))
            .map_err(told)?;
        let change = Box::new(Change::Noted(Box::new(Body::from(selected))));
        handle.ask(|respond| Mail::Change(change, respond)).await.map_err(told)?;
        Ok(json!({ "agent": described(agent) }))
    })
}

/// The conversation is the default agent's again.
pub(super) fn deselect(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let adjust = Mail::Adjust(Box::new(|settings| settings.chosen_agent = None));
    handle.send(adjust).map_err(|failure| errors::of(call.method, &failure))?;
    let change = Box::new(Change::Noted(Box::new(Body::from(SubagentDeselected {}))));
    call.by_responder(&handle, |respond| Mail::Change(change, respond), |_| Ok(json!({})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateSettings {
    session_id: SessionId,
    subagents: Option<SubagentSettings>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubagentSettings {
    agents: BTreeMap<String, SubagentEntry>,
    disabled_subagents: Vec<String>,
}

/// How hard an agent thinks and how large its window is are the model's own here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SubagentEntry {
    model: Option<String>,
}

/// Chooses models for kinds of agents, and turns kinds off, until somebody says otherwise; nothing takes all of it back.
pub(super) fn update_settings(call: &Call<'_>) -> Handling {
    let UpdateSettings { session_id, subagents } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let SubagentSettings { agents, disabled_subagents } = subagents.unwrap_or_default();
    let models = agents.into_iter().filter_map(|(kind, entry)| Some((kind, entry.model?))).collect();
    let adjust = Mail::Adjust(Box::new(move |settings| {
        settings.agent_models = models;
        settings.disabled_agents = disabled_subagents;
    }));
    handle.send(adjust).map_err(|failure| errors::of(call.method, &failure))?;
    call.now(json!({}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartFleet {
    session_id: SessionId,
    prompt: Option<String>,
}

/// Sends a prompt that is to be worked on by agents. It is accepted like every other prompt.
pub(super) fn start_fleet(call: &Call<'_>) -> Handling {
    let StartFleet { session_id, prompt } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let wanted = prompt.unwrap_or_else(|| "Go on with what is left to do.".into());
    let prompt = Prompt { text: format!("{FLEET}\n\n{wanted}"), display: Some(wanted), ..Prompt::default() };
    let started = |_| Ok(json!({ "started": true }));
    call.by_responder(&handle, |respond| Mail::Prompt(Box::new(prompt), respond), started)
}
