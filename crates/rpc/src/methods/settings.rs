//! Settings of a session: model, mode, name, permission mode, options; and entries in its log.

use std::path::PathBuf;

use baton_ask::Configure;
use baton_core::ask::Amend;
use baton_core::{Change, LogLevel};
use baton_protocol::Json;
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_protocol::params::SandboxConfig;
use baton_protocol::provider::ProviderConfig;
use baton_runtime::session::JoinKind;
use baton_settings::{OptionsEdit, SettingsEdit};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend, ignored_options, permissions, sandbox, state, success, void};
use crate::errors::CallError;

pub(super) fn current_model(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
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
    model_id: String,
    reasoning_effort: Option<String>,
    model_capabilities: Option<Json>,
}

/// Changes the model, from the next model call on. Unknown names are accepted: the provider decides.
pub(super) fn switch_model(call: &Call<'_>) -> Handled {
    let (handle, params): (_, SwitchModel) = call.parse_for_session()?;
    let result = json!({ "modelId": params.model_id });
    if let Some(capabilities) = params.model_capabilities {
        let edit = Box::new(SettingsEdit::ModelCapabilities(capabilities));
        handle.tell(Configure { edit })?;
    }
    let change = Change::Model { model: params.model_id, reasoning_effort: params.reasoning_effort };
    call.amend(&handle, change, result)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Effort {
    reasoning_effort: String,
}

pub(super) fn reasoning_effort(call: &Call<'_>) -> Handled {
    let (handle, Effort { reasoning_effort }) = call.parse_for_session()?;
    let by = call.author();
    call.later(async move {
        let current = handle.inspect().await?.session.durable.facts.model;
        let (model, effort) = (current.unwrap_or_default(), Some(reasoning_effort.clone()));
        amend(&handle, by, Change::Model { model, reasoning_effort: effort }).await?;
        Ok(json!({ "reasoningEffort": reasoning_effort }))
    })
}

pub(super) fn mode(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!(view.session.durable.facts.mode))
}

#[derive(Deserialize)]
struct SetMode {
    mode: AgentMode,
}

pub(super) fn set_mode(call: &Call<'_>) -> Handled {
    let (handle, SetMode { mode }) = call.parse_for_session()?;
    call.amend(&handle, Change::Mode(mode), json!({ "modelChanged": false, "status": "applied" }))
}

pub(super) fn name(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "name": view.session.durable.facts.name }))
}

#[derive(Deserialize)]
struct SetName {
    name: String,
}

pub(super) fn set_name(call: &Call<'_>) -> Handled {
    let (handle, SetName { name }) = call.parse_for_session()?;
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err(CallError::invalid("the name must not be empty"));
    }
    call.amend(&handle, Change::Name { name, by_user: true }, void())
}

#[derive(Deserialize)]
struct SetAutoName {
    summary: String,
}

/// Sets a generated name, unless the user has chosen one.
pub(super) fn set_auto_name(call: &Call<'_>) -> Handled {
    let (handle, SetAutoName { summary }) = call.parse_for_session()?;
    let name = summary.trim().to_owned();
    if name.is_empty() {
        return call.now(json!({ "applied": false }));
    }
    let change = Change::Name { name, by_user: false };
    let ask = Amend::by(call.author(), change);
    call.ask(&handle, ask, |event| json!({ "applied": event.is_some() }))
}

#[derive(Deserialize)]
struct ApproveAll {
    enabled: bool,
}

pub(super) fn approve_all(call: &Call<'_>) -> Handled {
    let (handle, ApproveAll { enabled }) = call.parse_for_session()?;
    call.amend(&handle, Change::Permissions(permissions::approve_all_mode(enabled)), success())
}

#[derive(Deserialize)]
struct SetPermissionMode {
    mode: PermissionMode,
}

pub(super) fn set_permission_mode(call: &Call<'_>) -> Handled {
    let (handle, SetPermissionMode { mode }) = call.parse_for_session()?;
    call.amend(&handle, Change::Permissions(mode), json!({ "success": true, "mode": mode }))
}

pub(super) fn permission_mode(call: &Call<'_>) -> Handled {
    call.inspect(|view| json!({ "mode": view.session.durable.facts.permissions }))
}

/// Options of a live session. The session warns of those that have no effect.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateOptions {
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
    sandbox_config: Option<SandboxConfig>,
}

pub(super) fn update_options(call: &Call<'_>) -> Handled {
    let (handle, options): (_, UpdateOptions) = call.parse_for_session()?;
    let reasoning_effort = options.reasoning_effort;
    let model = options.model.map(|model| Change::Model { model, reasoning_effort });
    let directory = options.working_directory;
    let sandbox = options.sandbox_config.as_ref().map(sandbox::of_config).transpose()?;
    let sandbox = sandbox.map(|choice| Change::Sandbox(Some(choice)));
    let (client, by) = (call.connection.client, call.author());
    let edit = SettingsEdit::Options(Box::new(OptionsEdit {
        client_name: options.client_name,
        available_tools: options.available_tools,
        excluded_tools: options.excluded_tools,
        streaming: options.enable_streaming,
        skip_custom_instructions: options.skip_custom_instructions,
        provider: options.provider.map(|provider| (client, provider)),
        ask_user_disabled: options.ask_user_disabled,
        environment: None,
    }));
    let configure = Configure { edit: Box::new(edit) };
    ignored_options::warn(&handle, ignored_options::describe_update(&call.params), JoinKind::Resume);
    // The next call on this connection finds the settings changed, unless a directory has to be checked first.
    let Some(directory) = directory else {
        handle.tell(configure)?;
        return call.later(async move {
            for change in model.into_iter().chain(sandbox) {
                amend(&handle, by.clone(), change).await?;
            }
            Ok(success())
        });
    };
    call.later(async move {
        let context = state::context_change(directory).await?;
        handle.tell(configure)?;
        for change in model.into_iter().chain(sandbox).chain([context]) {
            amend(&handle, by.clone(), change).await?;
        }
        Ok(success())
    })
}

#[derive(Deserialize)]
struct Log {
    message: String,
    level: Option<String>,
    url: Option<String>,
    #[serde(default)]
    ephemeral: Option<bool>,
}

pub(super) fn log(call: &Call<'_>) -> Handled {
    let (handle, params): (_, Log) = call.parse_for_session()?;
    let level = match params.level.as_deref() {
        None | Some("info") => LogLevel::Info,
        Some("warning") => LogLevel::Warning,
        Some("error") => LogLevel::Error,
        Some(other) => {
            return Err(CallError::invalid(format_args!(
                "unknown level {other:?}: use info, warning or error"
            )));
        }
    };
    let ephemeral = params.ephemeral.unwrap_or(false);
    let change = Change::Log { level, message: params.message, url: params.url, ephemeral };
    call.ask(&handle, Amend::by(call.author(), change), |event| json!({ "eventId": event }))
}
