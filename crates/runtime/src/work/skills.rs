//! Skills in the work of a session: the tool `skill`, slash commands, and the skills of agents.

use std::ops::ControlFlow;
use std::sync::Arc;

use baton_agent::tools::skill;
use baton_ask::Configure;
use baton_ask::skills::{InvokedSkill, SkillPrompt, SkillsAsk, SkillsReply};
use baton_core::ask::Amend;
use baton_core::{Call, Change};
use baton_history::newest_first;
use baton_protocol::event::{Body, SkillInvoked, SkillTrigger};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Event, Json};
use baton_store::{Record, Seq};

use super::WorkScope;

use baton_addons::skills::Catalogue;
use baton_settings::{Settings, SettingsEdit};

/// Skills that one agent can have in its prompt.
const MOST_PRELOADED: usize = 16;

/// Looks for skills, agents and plugins, unless that was done.
pub(super) async fn ready(scope: &mut WorkScope) {
    if let Some(settings) = load(scope).await {
        scope.settings = Arc::new(settings);
    }
}

/// Does the same for work that continues with the agents it has. Returns the session's settings, if they have changed.
pub(super) async fn load(scope: &WorkScope) -> Option<Settings> {
    let context = &scope.session.durable.facts.context;
    let catalogue = scope.tools.skills().load(&scope.settings, context).await;
    with_agents(scope, &catalogue).await
}

/// Gives the session the agents that were found. Returns its settings, if they have changed.
async fn with_agents(scope: &WorkScope, catalogue: &Catalogue) -> Option<Settings> {
    if catalogue.agents == scope.settings.found_agents {
        return None;
    }
    let edit = SettingsEdit::FoundAgents(catalogue.agents.clone());
    let mut settings = Settings::clone(&scope.settings);
    settings.apply(edit.clone());
    // A session that ends needs no agents.
    let _ = scope.handle().ask(Configure { edit: Box::new(edit) }).await;
    Some(settings)
}

/// Runs a call of `skill`. Returns its result, and the skill if it was loaded.
pub(super) async fn run(
    scope: &WorkScope,
    call: &Call,
    arguments: &Json,
) -> (ToolResult, Option<SkillInvoked>) {
    let name = match skill::read(arguments) {
        Ok(name) => name,
        Err(refusal) => return (refusal, None),
    };
    let catalogue = scope.tools.skills().current();
    let found = catalogue.find(&name, &scope.settings).filter(|skill| skill.model_invocable);
    let Some(found) = found.filter(|_| !scope.settings.skills_disabled) else {
        return (skill::not_found(&name), None);
    };
    match scope.tools.skills().read(found, SkillTrigger::AgentInvoked).await {
        Err(why) => (ToolResult::failure(why), None),
        Ok(read) => {
            tracing::debug!(session = %scope.session.id, call = %call.id, skill = %read.name, "skill loaded");
            let read =
                SkillInvoked { model: scope.session.durable.facts.model.clone(), ..at_turn(scope, read) };
            (skill::loaded(&found.name), Some(read))
        }
    }
}

/// Returns the result of a call of `skill` in a session that offers no skills.
pub(super) fn refused(arguments: &Json) -> ToolResult {
    skill::read(arguments).map_or_else(|refusal| refusal, |name| skill::not_found(&name))
}

fn at_turn(scope: &WorkScope, skill: SkillInvoked) -> SkillInvoked {
    SkillInvoked { invoked_at_turn: Some(scope.session.durable.totals.prompts), ..skill }
}

/// Returns the prompt of an agent with the skills that it names, and records those that `known`, its prompt so far, does not
/// have.
pub(super) async fn with_skills(
    scope: &WorkScope,
    prompt: &str,
    names: &[String],
    known: Option<&str>,
) -> String {
    let mut prompt = prompt.to_owned();
    if names.is_empty() || scope.settings.skills_disabled {
        return prompt;
    }
    let catalogue = scope.tools.skills().load(&scope.settings, &scope.session.durable.facts.context).await;
    for name in names.iter().take(MOST_PRELOADED) {
        let Some(found) = catalogue.find(name, &scope.settings) else {
            tracing::warn!(session = %scope.session.id, skill = name, "skill of an agent not found");
            continue;
        };
        match scope.tools.skills().read(found, SkillTrigger::ContextLoad).await {
            Err(error) => tracing::warn!(session = %scope.session.id, "{error}"),
            Ok(read) => {
                let context = skill::context(&read);
                if known.is_none_or(|known| !known.contains(&context)) {
                    scope.note(at_turn(scope, read));
                }
                prompt.push_str("\n\n");
                prompt.push_str(&context);
            }
        }
    }
    prompt
}

/// Serves an ask of a client.
///
/// # Errors
/// With a message for the client.
pub(super) async fn serve(scope: &WorkScope, ask: SkillsAsk) -> Result<SkillsReply, String> {
    use SkillsReply as Reply;
    let edit = ask.settings_edit();
    let skills = scope.tools.skills();
    let (settings, context) = (&scope.settings, &scope.session.durable.facts.context);
    let reply = match ask {
        SkillsAsk::ListInvokedSkills(_) => {
            return Ok(Reply::ListInvokedSkills(Box::new(invoked(scope).await?)));
        }
        SkillsAsk::InvokeSkill(ask) => {
            return Ok(Reply::InvokeSkill(Box::new(invoke(scope, &ask.name, &ask.input).await?)));
        }
        SkillsAsk::EnableSkill(_) => Reply::EnableSkill(Box::new(switch(scope, edit).await?)),
        SkillsAsk::DisableSkill(_) => Reply::DisableSkill(Box::new(switch(scope, edit).await?)),
        SkillsAsk::ListSkills(_) => Reply::ListSkills(Box::new(skills.list(settings, context).await)),
        SkillsAsk::DescribeSkill(ask) => {
            Reply::DescribeSkill(Box::new(skills.describe(settings, context, &ask.name).await?))
        }
        SkillsAsk::ReloadSkills(_) => {
            Reply::ReloadSkills(Box::new(skills.look_again(settings, context).await))
        }
        SkillsAsk::ListSessionPlugins(_) => {
            Reply::ListSessionPlugins(Box::new(skills.list_plugins(settings, context).await))
        }
    };
    with_agents(scope, &skills.current()).await;
    Ok(reply)
}

/// Switches a skill on or off.
async fn switch(scope: &WorkScope, edit: Option<SettingsEdit>) -> Result<(), String> {
    let mut settings = Settings::clone(&scope.settings);
    if let Some(edit) = edit {
        settings.apply(edit.clone());
        let configured = scope.handle().ask(Configure { edit: Box::new(edit) }).await;
        configured.map_err(|failure| failure.to_string())?;
    }
    scope.tools.skills().show_switched(&settings, &scope.session.durable.facts.context).await;
    Ok(())
}

/// Gives the model a skill that a user has invoked. Replies the prompt that asks for it.
async fn invoke(scope: &WorkScope, name: &str, input: &str) -> Result<SkillPrompt, String> {
    let context = &scope.session.durable.facts.context;
    let catalogue = scope.tools.skills().load(&scope.settings, context).await;
    let found = catalogue.find(name, &scope.settings).filter(|skill| skill.user_invocable);
    let found = found.ok_or_else(|| format!("unknown command /{name}; see /help"))?;
    let read = scope.tools.skills().read(found, SkillTrigger::UserInvoked).await?;
    let body = Body::from(at_turn(scope, read));
    let recorded = scope.handle().ask(Amend::unsigned(Change::Noted(Box::new(body)))).await;
    recorded.map_err(|failure| failure.to_string())?;
    let display_prompt = format!("/{} {input}", found.command).trim_end().to_owned();
    let mut prompt = format!("Use the skill \"{}\" that was just loaded.", found.name);
    if !input.is_empty() {
        prompt.push_str(&format!("\n\nArguments: {input}"));
    }
    Ok(SkillPrompt { prompt, display_prompt })
}

/// Lists the skills that the model was given in the conversation, each with its newest text.
async fn invoked(scope: &WorkScope) -> Result<Vec<InvokedSkill>, String> {
    let mut skills: Vec<SkillInvoked> = Vec::new();
    let take = |record: Record| {
        if record.kind == "skill.invoked"
            && let Some(skill) = parsed(&record)
            && skills.iter().all(|known| known.name != skill.name)
        {
            skills.push(skill);
        }
        ControlFlow::Continue(())
    };
    let head = Seq(scope.session.durable.seq);
    let read = newest_first(&*scope.runtime.store, &scope.session.id, head, take).await;
    read.map_err(|error| error.to_string())?;
    let listed = skills.into_iter().rev().map(|skill| InvokedSkill {
        name: skill.name,
        path: skill.path,
        content: skill.content,
        allowed_tools: skill.allowed_tools,
        invoked_at_turn: skill.invoked_at_turn.unwrap_or(0),
    });
    Ok(listed.collect())
}

fn parsed(record: &Record) -> Option<SkillInvoked> {
    let event = Event::parse(std::str::from_utf8(&record.body).ok()?).ok()?;
    match event.body {
        Body::SkillInvoked(skill) => Some(skill),
        _ => None,
    }
}
