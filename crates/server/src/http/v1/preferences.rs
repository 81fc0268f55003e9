//! Changes of the configuration, and the parts of crush that a Baton workspace has nothing of: servers of its own for
//! languages and tools, skills, file versions. The client is content with an empty answer.

use axum::Json;
use axum::extract::Path;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{Answer, V1Error};
use super::extract::{Body, Here, SessionHere};
use super::settings::SelectedModel;
use super::telling;
use super::workspace::lock;

pub(super) async fn config(here: Here) -> Json<Value> {
    Json(here.workspace.config(&*here.workspace.offer().await))
}

pub(super) async fn providers(here: Here) -> Json<Value> {
    Json(here.workspace.offer().await.providers())
}

#[derive(Deserialize)]
pub(super) struct Field {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: Value,
}

/// The place below `options` that a key names. Nothing else is for clients to set.
fn option_of(key: &str) -> Answer<String> {
    const MOST: usize = 128;
    let place = key
        .strip_prefix("options.")
        .filter(|place| place.len() <= MOST && !place.split('.').any(str::is_empty));
    place.map(str::to_owned).ok_or_else(|| {
        V1Error::bad_request(format!(
            "{key:?} is set where the server is started; clients set options.* only"
        ))
    })
}

pub(super) async fn set(here: Here, Body(field): Body<Field>) -> Answer<StatusCode> {
    const MOST_OPTIONS: usize = 256;
    let place = option_of(&field.key)?;
    let mut preferences = lock(&here.workspace.preferences);
    if preferences.options.len() >= MOST_OPTIONS && !preferences.options.contains_key(&place) {
        return Err(V1Error::bad_request("too many options are set"));
    }
    preferences.options.insert(place, field.value);
    drop(preferences);
    Ok(changed(&here))
}

pub(super) async fn remove(here: Here, Body(field): Body<Field>) -> Answer<StatusCode> {
    lock(&here.workspace.preferences).options.remove(&option_of(&field.key)?);
    Ok(changed(&here))
}

#[derive(Deserialize)]
pub(super) struct Compact {
    #[serde(default)]
    enabled: bool,
}

pub(super) async fn compact(here: Here, Body(Compact { enabled }): Body<Compact>) -> StatusCode {
    lock(&here.workspace.preferences).options.insert("tui.compact_mode".into(), enabled.into());
    changed(&here)
}

#[derive(Deserialize)]
pub(super) struct ModelChoice {
    #[serde(default)]
    model_type: String,
    model: SelectedModel,
}

pub(super) async fn model(here: Here, Body(choice): Body<ModelChoice>) -> Answer<StatusCode> {
    if choice.model.model.trim().is_empty() {
        return Err(V1Error::bad_request("the model has no name"));
    }
    let mut preferences = lock(&here.workspace.preferences);
    match choice.model_type.as_str() {
        "large" => preferences.large = Some(choice.model),
        "small" => preferences.small = Some(choice.model),
        other => {
            return Err(V1Error::bad_request(format!("model_type must be large or small, not {other:?}")));
        }
    }
    drop(preferences);
    Ok(changed(&here))
}

fn changed(here: &Here) -> StatusCode {
    here.workspace.feed.tell(&telling::config_changed(here.workspace.id));
    StatusCode::OK
}

/// Keys belong to the server's configuration; one that came over a socket would have to be kept somewhere.
pub(super) async fn no_keys(_: Here) -> V1Error {
    V1Error::bad_request("keys are configured where the server is started, not by its clients")
}

pub(super) async fn empty_list(_: Here) -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn empty_map(_: Here) -> Json<Value> {
    Json(json!({}))
}

pub(super) async fn nothing_to_do(_: Here) -> StatusCode {
    StatusCode::OK
}

pub(super) async fn no_files(_: SessionHere) -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn never_read(_: Here) -> Json<Value> {
    Json(json!("0001-01-01T00:00:00Z"))
}

pub(super) async fn needs_init(_: Here) -> Json<Value> {
    Json(json!({ "needs_init": false }))
}

pub(super) async fn init_prompt(_: Here) -> Json<Value> {
    let prompt = "Look around in this project and write AGENTS.md: what it is, how it is built and tested, and what \
                  somebody who changes it should know.";
    Json(json!({ "prompt": prompt }))
}

pub(super) async fn no_language_server(Path((_, name)): Path<(String, String)>, _: Here) -> V1Error {
    V1Error::not_found(format!("there is no language server {name:?}"))
}

pub(super) async fn not_here(_: Here) -> V1Error {
    V1Error::not_found("this server has none of these")
}
