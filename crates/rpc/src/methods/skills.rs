//! Skills: those of a session, and those of projects and the user. Agents of projects and the user.

use baton_ask::skills::{
    DisableSkill, EnableSkill, ListInvokedSkills, ListSessionPlugins, ListSkills, ReloadSkills,
};
use baton_service::skills::{
    self, DiscoverAgents, DiscoverSkills, ListAgentDirectories, ListSkillDirectories,
};
use serde::Deserialize;
use serde_json::json;

use super::call::perform;
use super::{Call, Handled, void};

#[derive(Deserialize)]
struct Named {
    name: String,
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListSkills {}, |list| json!({ "skills": list.skills }))
}

pub(super) fn load(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListSkills {}, |_| void())
}

pub(super) fn enable(call: &Call<'_>) -> Handled {
    let (session, Named { name }) = call.parse_for_session()?;
    call.ask_later(&session, EnableSkill { name }, |()| void())
}

pub(super) fn disable(call: &Call<'_>) -> Handled {
    let (session, Named { name }) = call.parse_for_session()?;
    call.ask_later(&session, DisableSkill { name }, |()| void())
}

pub(super) fn reload(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ReloadSkills {}, |problems| json!(problems))
}

pub(super) fn list_invoked(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListInvokedSkills {}, |skills| json!({ "skills": skills }))
}

pub(super) fn list_plugins(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListSessionPlugins {}, |plugins| json!({ "plugins": plugins }))
}

pub(super) fn reload_plugins(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ReloadSkills {}, |_| void())
}

pub(super) fn discover(call: &Call<'_>) -> Handled {
    perform(call, DiscoverSkills(call.parse()?), |found| json!(found))
}

pub(super) fn discover_agents(call: &Call<'_>) -> Handled {
    perform(call, DiscoverAgents(call.parse()?), |found| json!(found))
}

pub(super) fn directories(call: &Call<'_>) -> Handled {
    call.now(json!(call.service().perform_now(&call.caller(), ListSkillDirectories(call.parse()?))?))
}

pub(super) fn agent_directories(call: &Call<'_>) -> Handled {
    call.now(json!(call.service().perform_now(&call.caller(), ListAgentDirectories(call.parse()?))?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetDisabledSkills {
    disabled_skills: Vec<String>,
}

/// Replaces the list of skills that no new session uses.
pub(super) fn set_disabled(call: &Call<'_>) -> Handled {
    let SetDisabledSkills { disabled_skills: names } = call.parse()?;
    perform(call, skills::SetDisabledSkills { names }, |()| void())
}

#[derive(Deserialize)]
struct SetSkillDisabled {
    name: String,
    disabled: bool,
}

/// Turns a skill on or off for new sessions.
pub(super) fn turn(call: &Call<'_>) -> Handled {
    let SetSkillDisabled { name, disabled } = call.parse()?;
    match disabled {
        true => perform(call, skills::DisableSkill { name }, |()| void()),
        false => perform(call, skills::EnableSkill { name }, |()| void()),
    }
}
