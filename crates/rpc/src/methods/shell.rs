//! Shell commands that a user runs in a session. They need no permission: the caller acts for the user, not for the model.

use std::path::PathBuf;
use std::time::Duration;

use baton_ask::{EndCommand, RunCommand, StartCommand};
use baton_service::LiveSession;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Exec {
    command: String,
    cwd: Option<PathBuf>,
    /// In milliseconds.
    timeout: Option<u64>,
}

/// Starts a command, and replies with the id to end it with.
pub(super) fn exec(call: &Call<'_>) -> Handled {
    let (handle, Exec { command, cwd, timeout }) = call.parse_for_session()?;
    require_command(&command)?;
    let name = Uuid::new_v4().to_string();
    let result = json!({ "processId": name });
    let (limit, by) = (timeout.map(Duration::from_millis), Some(call.author()));
    let ask = StartCommand { name, cwd, command, limit, by };
    call.ask_later(&handle, ask, |()| result)
}

fn require_command(command: &str) -> Result<(), CallError> {
    if command.trim().is_empty() {
        return Err(CallError::invalid("`command` must not be empty"));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kill {
    process_id: String,
}

/// Ends a command and all processes that it started: first with SIGTERM, whatever signal the client names, then with SIGKILL.
pub(super) fn kill(call: &Call<'_>) -> Handled {
    let (handle, Kill { process_id }) = call.parse_for_session()?;
    end(call, &handle, process_id, "killed")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelUserRequested {
    request_id: String,
}

pub(super) fn cancel_user_requested(call: &Call<'_>) -> Handled {
    let (handle, CancelUserRequested { request_id }) = call.parse_for_session()?;
    end(call, &handle, request_id, "cancelled")
}

fn end(call: &Call<'_>, handle: &LiveSession, name: String, field: &'static str) -> Handled {
    call.ask(handle, EndCommand { name }, move |ended| json!({ field: ended }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteUserRequested {
    request_id: String,
    command: String,
}

/// Runs a command to its end. The model sees command and output with the next prompt.
pub(super) fn execute_user_requested(call: &Call<'_>) -> Handled {
    let (handle, ExecuteUserRequested { request_id, command }) = call.parse_for_session()?;
    require_command(&command)?;
    let reply = handle.ask(RunCommand { name: request_id, command, by: Some(call.author()) });
    call.later(async move {
        let Some(run) = reply.await? else {
            return Err(CallError::failed("a command with this requestId is running already"));
        };
        let mut result = json!({ "toolCallId": Uuid::new_v4(), "success": run.exit_code == Some(0) });
        match run.exit_code {
            Some(exit_code) => {
                result["output"] = json!(run.output);
                result["exitCode"] = json!(exit_code);
            }
            None => {
                result["output"] = json!("");
                result["error"] = json!("Shell command canceled.");
            }
        }
        Ok(result)
    })
}
