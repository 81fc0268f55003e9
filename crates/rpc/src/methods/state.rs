//! State of a session: metadata, activity, working directory, usage.

use std::path::PathBuf;

use baton_core::Change;
use baton_files::context;
use baton_protocol::Timestamp;
use baton_protocol::event::WorkContext;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, files};

pub(super) fn snapshot(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let (session, facts) = (&view.session, &view.session.durable.facts);
        let mut snapshot = json!({
            "sessionId": session.id,
            "alreadyInUse": false,
            "isRemote": false,
            "currentMode": facts.mode,
            "startTime": session.durable.started,
            "modifiedTime": Timestamp::now(),
            "workingDirectory": facts.context.cwd,
            "workspacePath": view.files.path(),
            "workspace": files::described(view),
        });
        let optional = [
            ("clientName", &view.settings.client_name),
            ("selectedModel", &facts.model),
            ("summary", if facts.name.is_some() { &facts.name } else { &facts.title }),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                snapshot[key] = json!(value);
            }
        }
        snapshot
    })
}

pub(super) fn is_processing(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "processing": view.session.is_busy() }))
}

pub(super) fn activity(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let busy = view.session.is_busy();
        json!({ "hasActiveWork": busy, "abortable": busy })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetWorkingDirectory {
    working_directory: PathBuf,
}

pub(super) fn set_working_directory(call: &Call<'_>) -> Handled {
    let (handle, SetWorkingDirectory { working_directory }) = call.parse_for_session()?;
    let by = call.author();
    call.later(async move {
        let result = json!({ "workingDirectory": working_directory });
        amend(&handle, by, context_change(working_directory).await?).await?;
        Ok(result)
    })
}

/// Returns the change to another working directory.
pub(super) async fn context_change(directory: PathBuf) -> Result<Change, RpcError> {
    if context::is_directory(directory.clone()).await {
        return Ok(Change::Context(context::of(directory).await));
    }
    Err(RpcError::bad_params(format!("{} is not a directory", directory.display())))
}

#[derive(Deserialize)]
struct RecordContextChange {
    context: WorkContext,
}

pub(super) fn record_context_change(call: &Call<'_>) -> Handled {
    let (handle, RecordContextChange { context }) = call.parse_for_session()?;
    call.amend(&handle, Change::Context(context), json!({}))
}

pub(super) fn usage_metrics(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let durable = &view.session.durable;
        let mut metrics = json!({
            "sessionStartTime": durable.started,
            "totalUserRequests": durable.totals.prompts,
            "totalApiDurationMs": durable.totals.model_time_ms(),
            "totalPremiumRequestCost": 0.0,
            "lastCallInputTokens": 0,
            "lastCallOutputTokens": 0,
            "modelMetrics": durable.totals.model_metrics(),
            "codeChanges": { "linesAdded": 0, "linesRemoved": 0, "filesModified": [], "filesModifiedCount": 0 },
        });
        if let Some(model) = &durable.facts.model {
            metrics["currentModel"] = json!(model);
        }
        metrics
    })
}
