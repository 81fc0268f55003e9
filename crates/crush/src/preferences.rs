//! Configuration of a workspace, and empty responses for features of crush that Baton does not have, such as language servers and
//! file versions.

use axum::Json;
use axum::extract::Path;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{CrushError, CrushResult};
use super::extract::{JsonBody, SessionScope, WorkspaceScope};
use super::settings::SelectedModel;
use super::{events, lock};

pub(super) async fn config(scope: WorkspaceScope) -> Json<Value> {
    let workspace = &scope.workspace;
    Json(workspace.config(&*workspace.catalog().await, &workspace.configured_servers().await))
}

pub(super) async fn providers(scope: WorkspaceScope) -> Json<Value> {
    Json(scope.workspace.catalog().await.providers())
}

#[derive(Deserialize)]
pub(super) struct Field {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: Value,
}

/// Returns the path below `options` that a key names. Clients cannot set other keys.
fn option_path(key: &str) -> CrushResult<String> {
    const MAX_LENGTH: usize = 128;
    let path = key
        .strip_prefix("options.")
        .filter(|path| path.len() <= MAX_LENGTH && !path.split('.').any(str::is_empty));
    path.map(str::to_owned).ok_or_else(|| {
        let message =
            format!("clients can set options.* only; configure {key:?} where the server is started");
        CrushError::bad_request(message)
    })
}

pub(super) async fn set(scope: WorkspaceScope, JsonBody(field): JsonBody<Field>) -> CrushResult<StatusCode> {
    const MAX_OPTIONS: usize = 256;
    let path = option_path(&field.key)?;
    let mut preferences = lock(&scope.workspace.preferences);
    if preferences.options.len() >= MAX_OPTIONS && !preferences.options.contains_key(&path) {
        return Err(CrushError::bad_request("too many options are set; remove some first"));
    }
    preferences.options.insert(path, field.value);
    drop(preferences);
    Ok(publish_change(&scope))
}

pub(super) async fn remove(
    scope: WorkspaceScope,
    JsonBody(field): JsonBody<Field>,
) -> CrushResult<StatusCode> {
    lock(&scope.workspace.preferences).options.remove(&option_path(&field.key)?);
    Ok(publish_change(&scope))
}

#[derive(Deserialize)]
pub(super) struct Compact {
    #[serde(default)]
    enabled: bool,
}

pub(super) async fn compact(
    scope: WorkspaceScope,
    JsonBody(Compact { enabled }): JsonBody<Compact>,
) -> StatusCode {
    lock(&scope.workspace.preferences).options.insert("tui.compact_mode".into(), enabled.into());
    publish_change(&scope)
}

#[derive(Deserialize)]
pub(super) struct ModelChoice {
    #[serde(default)]
    model_type: String,
    model: SelectedModel,
}

pub(super) async fn model(
    scope: WorkspaceScope,
    JsonBody(choice): JsonBody<ModelChoice>,
) -> CrushResult<StatusCode> {
    if choice.model.model.trim().is_empty() {
        return Err(CrushError::bad_request("the name of the model is empty"));
    }
    let mut preferences = lock(&scope.workspace.preferences);
    match choice.model_type.as_str() {
        "large" => preferences.large = Some(choice.model),
        "small" => preferences.small = Some(choice.model),
        other => {
            return Err(CrushError::bad_request(format!("model_type must be large or small, not {other:?}")));
        }
    }
    drop(preferences);
    Ok(publish_change(&scope))
}

fn publish_change(scope: &WorkspaceScope) -> StatusCode {
    scope.workspace.feed.publish(&events::config_changed(scope.workspace.id));
    StatusCode::OK
}

/// Refuses API keys. They belong to the server's configuration; a key from a client would have to be stored.
pub(super) async fn no_keys(_: WorkspaceScope) -> CrushError {
    CrushError::bad_request("API keys are configured where the server is started; clients cannot set them")
}

pub(super) async fn empty_list(_: WorkspaceScope) -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn empty_map(_: WorkspaceScope) -> Json<Value> {
    Json(json!({}))
}

pub(super) async fn accepted(_: WorkspaceScope) -> StatusCode {
    StatusCode::OK
}

pub(super) async fn no_files(_: SessionScope) -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn never_read(_: WorkspaceScope) -> Json<Value> {
    Json(json!("0001-01-01T00:00:00Z"))
}

pub(super) async fn needs_init(_: WorkspaceScope) -> Json<Value> {
    Json(json!({ "needs_init": false }))
}

pub(super) async fn init_prompt(_: WorkspaceScope) -> Json<Value> {
    let prompt = "Look around in this project and write AGENTS.md: what it is, how it is built and tested, and what \
                  a contributor should know.";
    Json(json!({ "prompt": prompt }))
}

pub(super) async fn no_language_server(
    Path((_, name)): Path<(String, String)>,
    _: WorkspaceScope,
) -> CrushError {
    CrushError::not_found(format!("no such language server: {name:?}"))
}

pub(super) async fn unsupported(_: WorkspaceScope) -> CrushError {
    CrushError::not_found("not supported by this server")
}
