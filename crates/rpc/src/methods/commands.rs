//! Slash commands: those of attached clients, and those that the server executes itself.

use baton_ask::View;
use baton_ask::skills::{ListSkills, SkillEntry};
use baton_core::ask::EnqueueCommand;
use baton_runtime::work::own_command::{NotRun, OWN, Ran};
use baton_service::OperationError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct List {
    include_builtins: Option<bool>,
    include_client_commands: Option<bool>,
    include_skills: Option<bool>,
}

pub(super) fn list(call: &Call<'_>) -> Handled {
    let (handle, options): (_, List) = call.parse_for_session()?;
    call.later(async move {
        let mut commands = Vec::new();
        if options.include_builtins.unwrap_or(true) {
            commands.extend(built_in_commands());
        }
        if options.include_skills.unwrap_or(true) {
            let listed = handle.ask(ListSkills {}).await?;
            commands.extend(skill_commands(&listed.skills));
        }
        if options.include_client_commands.unwrap_or(true) {
            commands.extend(client_commands(&handle.inspect().await?));
        }
        Ok(json!({ "commands": commands }))
    })
}

/// Lists the commands of skills that users can invoke.
fn skill_commands(skills: &[SkillEntry]) -> Vec<Value> {
    let invocable = skills.iter().filter(|skill| skill.user_invocable && skill.enabled);
    let command = |skill: &SkillEntry| {
        let mut command = described(&skill.command_name, &skill.description, "skill");
        if let Some(hint) = &skill.argument_hint {
            command["input"] = json!({ "hint": hint });
        }
        command
    };
    invocable.map(command).collect()
}

/// Lists the commands that the server executes itself.
pub(super) fn built_in(call: &Call<'_>) -> Handled {
    call.now(json!({ "commands": built_in_commands().collect::<Vec<_>>() }))
}

fn built_in_commands() -> impl Iterator<Item = Value> {
    OWN.iter().map(|(name, hint, description)| {
        let mut command = described(name, description, "builtin");
        if !hint.is_empty() {
            command["input"] = json!({ "hint": hint });
        }
        command
    })
}

fn client_commands(view: &View) -> Vec<Value> {
    let commands = view.session.live.clients.values().flat_map(|client| &client.commands);
    commands
        .map(|command| described(&command.name, command.description.as_deref().unwrap_or_default(), "client"))
        .collect()
}

fn described(name: &str, description: &str, kind: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "kind": kind,
        "allowDuringAgentExecution": true,
        "schedulable": false,
    })
}

#[derive(Deserialize)]
struct Invoke {
    name: String,
    input: Option<String>,
}

/// Executes a command of the server. Commands of clients are executed with `session.commands.execute`.
pub(super) fn invoke(call: &Call<'_>) -> Handled {
    let (handle, Invoke { name, input }) = call.parse_for_session()?;
    call.later(async move {
        match handle.run_command(&name, input.as_deref().unwrap_or_default()).await {
            Ok(Ran::Text(text)) => Ok(json!({ "kind": "text", "text": text })),
            Ok(Ran::Done) => Ok(json!({ "kind": "completed" })),
            Ok(Ran::Prompt { prompt, display }) => {
                Ok(json!({ "kind": "agent-prompt", "prompt": prompt, "displayPrompt": display }))
            }
            Err(OperationError::Failed(NotRun::Wrong(reason))) => Err(CallError::invalid(reason)),
            Err(OperationError::Failed(NotRun::Failed(failure))) => Err(failure.into()),
            Err(OperationError::Denied(denied)) => Err(denied.into()),
        }
    })
}

#[derive(Deserialize)]
struct Enqueue {
    command: String,
}

/// Adds a command to the queue.
pub(super) fn enqueue(call: &Call<'_>) -> Handled {
    let (handle, Enqueue { command }) = call.parse_for_session()?;
    if command.trim_matches(['/', ' ']).is_empty() {
        return Err(CallError::invalid("`command` must name a command, such as /compact"));
    }
    call.ask(
        &handle,
        EnqueueCommand { command, by: Some(call.author()) },
        |id| json!({ "queued": true, "queueId": id }),
    )
}
