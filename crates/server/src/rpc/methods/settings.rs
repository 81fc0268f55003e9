//! Settings of a session: model, mode, name, permissions, options; and notes for its log.

use std::path::PathBuf;

use baton_core::{Change, LogLevel, Reply};
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_protocol::provider::ProviderConfig;
use baton_protocol::rpc::RpcError;
use baton_protocol::{Json, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, state, success, void};
use crate::session::Mail;

/// Changes a setting, and answers with `value` once that is durable.
fn change(call: &Call<'_>, session: &SessionId, change: Change, value: Value) -> Handling {
    let handle = call.attached(session)?;
    call.by_responder(&handle, |respond| Mail::Change(Box::new(change), respond), |_| Ok(value))
}

pub(super) fn current_model(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let facts = &view.session.durable.facts;
        let mut current = json!({});
        if let Some(model) = &facts.model {
            current["modelId"] = json!(model);
        }
        if let Some(effort) = &facts.reasoning_effort {
            current["reasoningEffort"] = json!(effort);
        }
        current
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SwitchModel {
    session_id: SessionId,
    model_id: String,
    reasoning_effort: Option<String>,
    model_capabilities: Option<Json>,
}

/// Another model, from the next model call on. Names that nobody knows are accepted: the provider decides.
pub(super) fn switch_model(call: &Call<'_>) -> Handling {
    let params: SwitchModel = call.parse()?;
    let answer = json!({ "modelId": params.model_id });
    if let Some(capabilities) = params.model_capabilities {
        let handle = call.attached(&params.session_id)?;
        let adjust = Mail::Adjust(Box::new(move |settings| settings.model_capabilities = Some(capabilities)));
        handle.send(adjust).map_err(|failure| crate::rpc::errors::of(call.method, &failure))?;
    }
    let to = Change::Model { model: params.model_id, reasoning_effort: params.reasoning_effort };
    change(call, &params.session_id, to, answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Effort {
    session_id: SessionId,
    reasoning_effort: String,
}

pub(super) fn reasoning_effort(call: &Call<'_>) -> Handling {
    let Effort { session_id, reasoning_effort } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let method = call.method.to_owned();
    call.later(async move {
        let told = |failure| crate::rpc::errors::of(&method, &failure);
        let current = handle.look(|view| view.session.durable.facts.model.clone()).await.map_err(told)?;
        let model = current.unwrap_or_default();
        let to = Change::Model { model, reasoning_effort: Some(reasoning_effort.clone()) };
        handle.ask(|respond| Mail::Change(Box::new(to), respond)).await.map_err(told)?;
        Ok(json!({ "reasoningEffort": reasoning_effort }))
    })
}

pub(super) fn mode(call: &Call<'_>) -> Handling {
    call.view(|view| json!(view.session.durable.facts.mode))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode {
    session_id: SessionId,
    mode: AgentMode,
}

pub(super) fn set_mode(call: &Call<'_>) -> Handling {
    let params: SetMode = call.parse()?;
    let answer = json!({ "modelChanged": false, "status": "applied" });
    change(call, &params.session_id, Change::Mode(params.mode), answer)
}

pub(super) fn name(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "name": view.session.durable.facts.name }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetName {
    session_id: SessionId,
    name: String,
}

pub(super) fn set_name(call: &Call<'_>) -> Handling {
    let params: SetName = call.parse()?;
    let name = params.name.trim().to_owned();
    if name.is_empty() {
        return Err(RpcError::bad_params("session.name.set: the name must not be empty"));
    }
    change(call, &params.session_id, Change::Name { name, by_user: true }, void())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetAutoName {
    session_id: SessionId,
    summary: String,
}

/// A name that nobody chose. Applied unless somebody has chosen one.
pub(super) fn set_auto_name(call: &Call<'_>) -> Handling {
    let params: SetAutoName = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let name = params.summary.trim().to_owned();
    if name.is_empty() {
        return call.now(json!({ "applied": false }));
    }
    let change = Change::Name { name, by_user: false };
    call.by_responder(
        &handle,
        |respond| Mail::Change(Box::new(change), respond),
        |reply| Ok(json!({ "applied": matches!(reply, Reply::Done(Some(_))) })),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApproveAll {
    session_id: SessionId,
    enabled: bool,
}

pub(super) fn approve_all(call: &Call<'_>) -> Handling {
    let params: ApproveAll = call.parse()?;
    let mode = if params.enabled { PermissionMode::AllowAll } else { PermissionMode::Manual };
    change(call, &params.session_id, Change::Permissions(mode), success())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetPermissionMode {
    session_id: SessionId,
    mode: PermissionMode,
}

pub(super) fn set_permission_mode(call: &Call<'_>) -> Handling {
    let params: SetPermissionMode = call.parse()?;
    let answer = json!({ "success": true, "mode": params.mode });
    change(call, &params.session_id, Change::Permissions(params.mode), answer)
}

pub(super) fn permission_mode(call: &Call<'_>) -> Handling {
    call.view(|view| json!({ "mode": view.session.durable.facts.permissions }))
}

/// Options that can be changed while a session lives. Those that this server has no use for are accepted, as unknown
/// fields are everywhere.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateOptions {
    session_id: SessionId,
    client_name: Option<String>,
    available_tools: Option<Vec<String>>,
    excluded_tools: Option<Vec<String>>,
    enable_streaming: Option<bool>,
    skip_custom_instructions: Option<bool>,
    provider: Option<ProviderConfig>,
    model: Option<String>,
    reasoning_effort: Option<String>,
    working_directory: Option<PathBuf>,
    ask_user_disabled: Option<bool>,
}

pub(super) fn update_options(call: &Call<'_>) -> Handling {
    let options: UpdateOptions = call.parse()?;
    let handle = call.attached(&options.session_id)?;
    let model = options.model.clone();
    let model =
        model.map(|model| Change::Model { model, reasoning_effort: options.reasoning_effort.clone() });
    let directory = options.working_directory.clone();
    let client = call.connection.client;
    let adjust = Mail::Adjust(Box::new(move |settings| {
        if options.provider.is_some() {
            settings.provider_owner = Some(client);
        }
        settings.client_name = options.client_name.or(settings.client_name.take());
        settings.available_tools = options.available_tools.or(settings.available_tools.take());
        settings.provider = options.provider.or(settings.provider.take());
        if let Some(excluded) = options.excluded_tools {
            settings.excluded_tools = excluded;
        }
        settings.streaming = options.enable_streaming.unwrap_or(settings.streaming);
        settings.skip_custom_instructions =
            options.skip_custom_instructions.unwrap_or(settings.skip_custom_instructions);
        settings.ask_user_disabled = options.ask_user_disabled.unwrap_or(settings.ask_user_disabled);
    }));
    let method = call.method.to_owned();
    let told = move |failure| crate::rpc::errors::of(&method, &failure);
    // What comes next on this connection finds the settings changed, unless a directory has to be looked at first.
    let adjust = match directory {
        None => handle.send(adjust).map(|()| None).map_err(&told)?,
        Some(_) => Some(adjust),
    };
    call.later(async move {
        let place = match directory {
            Some(directory) => Some(state::change_of_place(directory).await?),
            None => None,
        };
        adjust.map_or(Ok(()), |adjust| handle.send(adjust)).map_err(&told)?;
        for change in [model, place].into_iter().flatten() {
            let changed = handle.ask(|respond| Mail::Change(Box::new(change), respond)).await;
            changed.map_err(&told)?;
        }
        Ok(success())
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    session_id: SessionId,
    message: String,
    level: Option<String>,
    url: Option<String>,
    #[serde(default)]
    ephemeral: Option<bool>,
}

pub(super) fn log(call: &Call<'_>) -> Handling {
    let params: Log = call.parse()?;
    let level = match params.level.as_deref() {
        None | Some("info") => LogLevel::Info,
        Some("warning") => LogLevel::Warning,
        Some("error") => LogLevel::Error,
        Some(other) => {
            return Err(RpcError::bad_params(format!(
                "session.log: unknown level {other:?}: use info, warning or error"
            )));
        }
    };
    let handle = call.attached(&params.session_id)?;
    let ephemeral = params.ephemeral.unwrap_or(false);
    let change = Change::Log { level, message: params.message, url: params.url, ephemeral };
    call.by_responder(
        &handle,
        |respond| Mail::Change(Box::new(change), respond),
        |reply| match reply {
            Reply::Done(Some(event)) => Ok(json!({ "eventId": event })),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}
