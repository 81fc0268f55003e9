//! Slash commands: those of the clients that are attached, and the few that the server has itself.

use baton_core::Reply;
use baton_protocol::SessionId;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::{Mail, View};
use crate::work::own_command::{self, NotRun, OWN};

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
    call.later(async move {
        let ran = own_command::run(&handle, &params.name, params.input.as_deref().unwrap_or_default()).await;
        match ran {
            Ok(Some(text)) => Ok(json!({ "kind": "text", "text": text })),
            Ok(None) => Ok(json!({ "kind": "completed" })),
            Err(NotRun::Wrong(why)) => Err(RpcError::bad_params(format!("{method}: {why}"))),
            Err(NotRun::Failed(failure)) => Err(errors::of(&method, &failure)),
        }
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Enqueue {
    session_id: SessionId,
    command: String,
}

/// Has a command wait for its turn among the prompts.
pub(super) fn enqueue(call: &Call<'_>) -> Handling {
    let Enqueue { session_id, command } = call.parse()?;
    let handle = call.attached(&session_id)?;
    if command.trim_matches(['/', ' ']).is_empty() {
        return Err(RpcError::bad_params(format!("{}: give a command, such as /compact", call.method)));
    }
    let queued = |reply| match reply {
        Reply::Accepted(id) => Ok(json!({ "queued": true, "queueId": id })),
        other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
    };
    call.by_responder(&handle, |respond| Mail::Enqueue(command, respond), queued)
}
