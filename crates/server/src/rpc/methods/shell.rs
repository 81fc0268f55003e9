//! Commands that people run in a session, past the model and past permissions: whoever may call this is a person's
//! program, not the model.

use std::path::PathBuf;
use std::time::Duration;

use baton_protocol::SessionId;
use baton_protocol::event::ShellRun;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Call, Handling};
use crate::rpc::errors;
use crate::session::Mail;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exec {
    session_id: SessionId,
    command: String,
    cwd: Option<PathBuf>,
    /// In milliseconds.
    timeout: Option<u64>,
}

/// Starts a command and leaves it to itself: the answer is a name to end it by.
pub(super) fn exec(call: &Call<'_>) -> Handling {
    let params: Exec = call.parse()?;
    not_empty(call, &params.command)?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    call.later(async move {
        let place =
            handle.look(|view| (view.tools.clone(), view.session.durable.facts.context.cwd.clone())).await;
        let (room, cwd) = place.map_err(|failure| errors::of(&method, &failure))?;
        let cwd = params.cwd.unwrap_or_else(|| cwd.into());
        if !crate::context::is_directory(cwd.clone()).await {
            return Err(errors::failed(&method, format_args!("{} is not a directory", cwd.display())));
        }
        let id = Uuid::new_v4().to_string();
        room.start_named(id.clone(), cwd, params.command, params.timeout.map(Duration::from_millis));
        Ok(json!({ "processId": id }))
    })
}

fn not_empty(call: &Call<'_>, command: &str) -> Result<(), RpcError> {
    if command.trim().is_empty() {
        return Err(RpcError::bad_params(format!("{}: `command` must not be empty", call.method)));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kill {
    session_id: SessionId,
    process_id: String,
}

/// Ends a command with all that it started: kindly first, whatever signal was named, and then for good.
pub(super) fn kill(call: &Call<'_>) -> Handling {
    let Kill { session_id, process_id } = call.parse()?;
    end(call, &session_id, process_id, "killed")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelUserRequested {
    session_id: SessionId,
    request_id: String,
}

pub(super) fn cancel_user_requested(call: &Call<'_>) -> Handling {
    let CancelUserRequested { session_id, request_id } = call.parse()?;
    end(call, &session_id, request_id, "cancelled")
}

fn end(call: &Call<'_>, session: &SessionId, name: String, done: &'static str) -> Handling {
    let (handle, method) = (call.attached(session)?, call.method.to_owned());
    call.later(async move {
        let room = handle.look(|view| view.tools.clone()).await.map_err(|f| errors::of(&method, &f))?;
        Ok(json!({ done: room.end_named(&name) }))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteUserRequested {
    session_id: SessionId,
    request_id: String,
    command: String,
}

/// Runs a command to its end. The model hears of it with the next prompt.
pub(super) fn execute_user_requested(call: &Call<'_>) -> Handling {
    let params: ExecuteUserRequested = call.parse()?;
    not_empty(call, &params.command)?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    call.later(async move {
        let told = |failure| errors::of(&method, &failure);
        let place =
            handle.look(|view| (view.tools.clone(), view.session.durable.facts.context.cwd.clone())).await;
        let (room, cwd) = place.map_err(told)?;
        let ran = room.run_named(&params.request_id, cwd.into(), &params.command).await;
        let Some(ran) = ran else {
            return Err(errors::failed(&method, "a command with this requestId is running already"));
        };
        let mut answer = json!({ "toolCallId": Uuid::new_v4(), "success": ran.exit_code == Some(0) });
        match ran.exit_code {
            Some(exit_code) => {
                answer["output"] = json!(ran.output);
                answer["exitCode"] = json!(exit_code);
                let run = ShellRun { command: params.command, output: ran.output, exit_code };
                handle.send(Mail::Note(None, Box::new(run.into()))).map_err(told)?;
            }
            None => {
                answer["output"] = Value::String(String::new());
                answer["error"] = json!("Shell command canceled.");
            }
        }
        Ok(answer)
    })
}
