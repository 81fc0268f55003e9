//! Skills: those of a session, and those of projects and the user. Agents of projects and the user.

use baton_addons::skills::{self, Discovery};
use baton_ask::skills::{
    DisableSkill, EnableSkill, ListInvokedSkills, ListSessionPlugins, ListSkills, ReloadSkills,
};
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, void};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Calls the handler of a method about a session's skills.
pub(super) fn session(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    let named = || call.parse::<Named>().map(|named| named.name);
    match call.method {
        "session.skills.list" => {
            call.ask_later(&handle, ListSkills {}, |list| json!({ "skills": list.skills }))
        }
        "session.skills.ensureLoaded" => call.ask_later(&handle, ListSkills {}, |_| void()),
        "session.skills.enable" => call.ask_later(&handle, EnableSkill { name: named()? }, |()| void()),
        "session.skills.disable" => call.ask_later(&handle, DisableSkill { name: named()? }, |()| void()),
        "session.skills.reload" => call.ask_later(&handle, ReloadSkills {}, |problems| json!(problems)),
        "session.plugins.list" => {
            call.ask_later(&handle, ListSessionPlugins {}, |plugins| json!({ "plugins": plugins }))
        }
        "session.plugins.reload" => call.ask_later(&handle, ReloadSkills {}, |_| void()),
        "session.skills.getInvoked" => {
            call.ask_later(&handle, ListInvokedSkills {}, |skills| json!({ "skills": skills }))
        }
        unknown => Err(RpcError::unknown_method(unknown).into()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetDisabledSkills {
    disabled_skills: Vec<String>,
}

#[derive(Deserialize)]
struct SetSkillDisabled {
    name: String,
    disabled: bool,
}

/// Calls the handler of a method about skills of projects and the user.
pub(super) fn user(call: &Call<'_>) -> Handled {
    let runtime = call.runtime().clone();
    match call.method {
        "skills.discover" => {
            let discovery: Discovery = call.parse()?;
            call.later(async move {
                let found = skills::discover(&runtime.addons, &discovery).await;
                found.map(|found| json!(found)).map_err(CallError::failed)
            })
        }
        "agents.discover" => {
            let discovery: Discovery = call.parse()?;
            call.later(async move {
                let found = skills::discover_agents(&runtime.addons, &discovery).await;
                found.map(|found| json!(found)).map_err(CallError::failed)
            })
        }
        "agents.getDiscoveryPaths" => {
            call.now(json!(skills::agent_discovery_paths(&runtime.addons, &call.parse()?)))
        }
        "skills.getDiscoveryPaths" => {
            call.now(json!(skills::discovery_paths(&runtime.addons, &call.parse()?)))
        }
        "skills.config.setDisabledSkills" => {
            let SetDisabledSkills { disabled_skills } = call.parse()?;
            call.later(async move {
                skills::set_disabled(&runtime.addons, disabled_skills).await.map_err(CallError::failed)?;
                Ok(void())
            })
        }
        "skills.config.setSkillDisabled" => {
            let SetSkillDisabled { name, disabled } = call.parse()?;
            call.later(async move {
                skills::set_skill_disabled(&runtime.addons, name, disabled)
                    .await
                    .map_err(CallError::failed)?;
                Ok(void())
            })
        }
        unknown => Err(RpcError::unknown_method(unknown).into()),
    }
}
