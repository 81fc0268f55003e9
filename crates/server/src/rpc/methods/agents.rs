//! Custom agents: which there are, and which of them the conversation is with.

use baton_agent::agents::{self, AgentKind};
use baton_core::Change;
use baton_protocol::SessionId;
use baton_protocol::agent::CustomAgent;
use baton_protocol::event::{Body, SubagentDeselected, SubagentSelected};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Mail, Settings};

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
