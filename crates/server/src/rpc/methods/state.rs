//! What a session is doing, and where.

use std::path::PathBuf;

use baton_core::Change;
use baton_protocol::event::WorkContext;
use baton_protocol::rpc::RpcError;
use baton_protocol::{SessionId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Handling, files};
use crate::rpc::errors;
use crate::session::Mail;

pub(super) fn snapshot(call: &Call<'_>) -> Handling {
    let server = call.connection.server.clone();
    call.view(move |view| {
        let (session, facts) = (view.session, &view.session.durable.facts);
        let directory = server.session_directory(&session.id, view.settings.config_dir.as_deref());
        let mut snapshot = json!({
            "sessionId": session.id,
            "alreadyInUse": false,
            "isRemote": false,
            "currentMode": facts.mode,
            "startTime": session.durable.started,
            "modifiedTime": Timestamp::now(),
            "workingDirectory": facts.context.cwd,
            "workspacePath": directory,
            "workspace": files::described(&view),
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

pub(super) fn is_processing(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "processing": view.session.is_busy() }))
}

pub(super) fn activity(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let busy = view.session.is_busy();
        json!({ "hasActiveWork": busy, "abortable": busy })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetWorkingDirectory {
    session_id: SessionId,
    working_directory: PathBuf,
}

pub(super) fn set_working_directory(call: &Call<'_>) -> Handling {
    let params: SetWorkingDirectory = call.parse()?;
    let (handle, method) = (call.attached(&params.session_id)?, call.method.to_owned());
    call.later(async move {
        let answer = json!({ "workingDirectory": params.working_directory });
        let change = change_of_place(params.working_directory).await?;
        let changed = handle.ask(|respond| Mail::Change(Box::new(change), respond)).await;
        changed.map(|_| answer).map_err(|failure| errors::of(&method, &failure))
    })
}

/// To work somewhere else from here on.
pub(super) async fn change_of_place(directory: PathBuf) -> Result<Change, RpcError> {
    if crate::context::is_directory(directory.clone()).await {
        return Ok(Change::Context(crate::context::of(directory).await));
    }
    Err(RpcError::bad_params(format!("{} is not a directory", directory.display())))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordContextChange {
    session_id: SessionId,
    context: WorkContext,
}

pub(super) fn record_context_change(call: &Call<'_>) -> Handling {
    let params: RecordContextChange = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let change = Change::Context(params.context);
    call.by_responder(&handle, |respond| Mail::Change(Box::new(change), respond), |_| Ok(json!({})))
}

pub(super) fn usage(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let durable = &view.session.durable;
        let models: Map<String, Value> = durable
            .totals
            .models
            .iter()
            .map(|(model, (count, tokens))| {
                let usage = json!({
                    "inputTokens": tokens.input,
                    "outputTokens": tokens.output,
                    "cacheReadTokens": tokens.cache_read,
                    "cacheWriteTokens": tokens.cache_write,
                    "reasoningTokens": tokens.reasoning,
                });
                (model.clone(), json!({ "requests": { "count": count, "cost": 0.0 }, "usage": usage }))
            })
            .collect();
        let api_time = durable.totals.model_time_ms();
        let mut metrics = json!({
            "sessionStartTime": durable.started,
            "totalUserRequests": durable.totals.prompts,
            "totalApiDurationMs": api_time,
            "totalPremiumRequestCost": 0.0,
            "lastCallInputTokens": 0,
            "lastCallOutputTokens": 0,
            "modelMetrics": models,
            "codeChanges": { "linesAdded": 0, "linesRemoved": 0, "filesModified": [], "filesModifiedCount": 0 },
        });
        if let Some(model) = &durable.facts.model {
            metrics["currentModel"] = json!(model);
        }
        metrics
    })
}
