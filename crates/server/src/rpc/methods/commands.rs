//! Slash commands: those of the clients that are attached, and the few that the server has itself.

use baton_core::Change;
use baton_protocol::SessionId;
use baton_protocol::event::PermissionMode;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, compaction};
use crate::rpc::errors;
use crate::session::{Handle, Mail, View};
use crate::work::Wish;

/// The server's own commands: name, hint for what follows it, what it does.
const OWN: [(&str, &str, &str); 6] = [
    ("help", "", "Show the commands that there are"),
    ("model", "[model]", "Show or change the model of this session"),
    ("rename", "<name>", "Give this session another name"),
    ("allow-all", "[on|off|show]", "Allow all tools without asking, or ask again"),
    ("compact", "[instructions]", "Summarise the conversation, to make room for more"),
    ("usage", "", "Show what this session has used so far"),
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Which {
    include_builtins: Option<bool>,
    include_client_commands: Option<bool>,
}

pub(super) fn list(call: &Call<'_>) -> Handling {
    let which: Which = call.parse()?;
    call.view(move |view| {
        let mut commands = Vec::new();
        if which.include_builtins.unwrap_or(true) {
            commands.extend(of_server());
        }
        if which.include_client_commands.unwrap_or(true) {
            commands.extend(of_clients(&view));
        }
        json!({ "commands": commands })
    })
}

/// The commands that need no client.
pub(super) fn own(call: &Call<'_>) -> Handling {
    call.now(json!({ "commands": of_server().collect::<Vec<_>>() }))
}

fn of_server() -> impl Iterator<Item = Value> {
    OWN.iter().map(|(name, hint, does)| {
        let mut command = described(name, does, "builtin");
        if !hint.is_empty() {
            command["input"] = json!({ "hint": hint });
        }
        command
    })
}

fn of_clients(view: &View<'_>) -> Vec<Value> {
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
#[serde(rename_all = "camelCase")]
struct Invoke {
    session_id: SessionId,
    name: String,
    input: Option<String>,
}

/// Runs one of the server's own commands. Those of clients are run by clients, with `session.commands.execute`.
pub(super) fn invoke(call: &Call<'_>) -> Handling {
    let params: Invoke = call.parse()?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    let name = params.name.trim().trim_start_matches('/').to_lowercase();
    let input = params.input.unwrap_or_default().trim().to_owned();
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let refuse = |why: String| Err(RpcError::bad_params(format!("session.commands.invoke: {why}")));
        let change = match (name.as_str(), input.as_str()) {
            ("help", _) => return handle.look(|view| text(&help(&view))).await.map_err(told),
            ("usage", _) => return handle.look(|view| text(&usage(&view))).await.map_err(told),
            ("model", "") => return handle.look(|view| text(&model(&view))).await.map_err(told),
            ("model", model) => Change::Model { model: model.to_owned(), reasoning_effort: None },
            ("compact", wanted) => {
                let custom_instructions = Some(wanted.to_owned()).filter(|wanted| !wanted.is_empty());
                let wish = Wish { custom_instructions, ..Wish::default() };
                compaction::summarise(handle, method, wish).await?;
                return Ok(json!({ "kind": "completed" }));
            }
            ("rename", "") => return refuse("/rename needs a name".into()),
            ("rename", name) => Change::Name { name: name.to_owned(), by_user: true },
            ("allow-all", "show") => {
                return handle.look(|view| text(&permissions(&view))).await.map_err(told);
            }
            ("allow-all", "" | "on") => Change::Permissions(PermissionMode::AllowAll),
            ("allow-all", "off") => Change::Permissions(PermissionMode::Manual),
            ("allow-all", other) => {
                return refuse(format!("/allow-all takes on, off or show, not {other:?}"));
            }
            (unknown, _) => return refuse(format!("there is no command /{unknown}; see /help")),
        };
        apply(&handle, change).await.map_err(told)?;
        Ok(json!({ "kind": "completed" }))
    })
}

async fn apply(handle: &Handle, change: Change) -> Result<(), crate::session::Failure> {
    handle.ask(|respond| Mail::Change(Box::new(change), respond)).await.map(drop)
}

fn text(text: &str) -> Value {
    json!({ "kind": "text", "text": text })
}

fn help(view: &View<'_>) -> String {
    let own =
        OWN.iter().map(|(name, hint, does)| format!("/{name} {hint}").trim_end().to_owned() + ": " + does);
    let commands = view.session.live.clients.values().flat_map(|client| &client.commands);
    let theirs = commands.map(|command| {
        format!("/{}: {}", command.name, command.description.as_deref().unwrap_or("a command of a client"))
    });
    own.chain(theirs).collect::<Vec<_>>().join("\n")
}

fn model(view: &View<'_>) -> String {
    match &view.session.durable.facts.model {
        Some(model) => format!("This session uses {model}."),
        None => "This session uses the default model of the server.".into(),
    }
}

fn permissions(view: &View<'_>) -> String {
    match view.session.durable.facts.permissions {
        PermissionMode::AllowAll => "All tools are allowed without asking.".into(),
        _ => "Tools are asked for.".into(),
    }
}

fn usage(view: &View<'_>) -> String {
    let totals = &view.session.durable.totals;
    let mut lines = vec![format!("{} prompts", totals.prompts)];
    lines.extend(totals.models.iter().map(|(model, (calls, tokens))| {
        format!("{model}: {calls} calls, {} tokens in, {} tokens out", tokens.input, tokens.output)
    }));
    lines.join("\n")
}
