//! Skills: those of a session, and those of projects and the user. Agents of projects and the user.

use baton_protocol::rpc::RpcError;
use baton_runtime::session::ask::Skills;
use baton_runtime::skills::{self, Discovery, SkillsRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, void};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Calls the handler of a method about a session's skills.
pub(super) fn session(call: &Call<'_>) -> Handled {
    let named = || call.parse::<Named>().map(|named| named.name);
    match call.method {
        "session.skills.list" => {
            ask(call, SkillsRequest::List, |mut reply| json!({ "skills": reply["skills"].take() }))
        }
        "session.skills.ensureLoaded" => ask(call, SkillsRequest::List, |_| void()),
        "session.skills.enable" => ask(call, SkillsRequest::Enable { name: named()? }, |_| void()),
        "session.skills.disable" => ask(call, SkillsRequest::Disable { name: named()? }, |_| void()),
        "session.skills.reload" => ask(call, SkillsRequest::Reload, |reply| reply),
        "session.plugins.list" => ask(call, SkillsRequest::Plugins, |reply| reply),
        "session.plugins.reload" => ask(call, SkillsRequest::Reload, |_| void()),
        "session.skills.getInvoked" => ask(call, SkillsRequest::Invoked, |reply| reply),
        unknown => Err(RpcError::unknown_method(unknown).into()),
    }
}

fn ask(
    call: &Call<'_>,
    request: SkillsRequest,
    encode: impl FnOnce(Value) -> Value + Send + 'static,
) -> Handled {
    let handle = call.session()?;
    call.ask_later(&handle, Skills { request: Box::new(request) }, encode)
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
                skills::discover(&runtime.addons, &discovery).await.map_err(CallError::failed)
            })
        }
        "agents.discover" => {
            let discovery: Discovery = call.parse()?;
            call.later(async move {
                skills::discover_agents(&runtime.addons, &discovery).await.map_err(CallError::failed)
            })
        }
        "agents.getDiscoveryPaths" => {
            call.now(skills::agent_discovery_paths(&runtime.addons, &call.parse()?))
        }
        "skills.getDiscoveryPaths" => call.now(skills::discovery_paths(&runtime.addons, &call.parse()?)),
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
