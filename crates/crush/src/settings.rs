//! Configuration of a workspace, in crush's format. The models are the server's; API keys are neither shown nor accepted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_providers::Models;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fold::PROVIDER;
use super::lock;
use super::workspace::Workspace;

/// Time limit for listing the models of a provider.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a list of models, or a failure to get one, is reused: the client reads it often.
const MAX_AGE: Duration = Duration::from_secs(30);

/// A selected model, in the client's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SelectedModel {
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<String>,
}

impl SelectedModel {
    fn named(model: &str) -> Self {
        Self { model: model.to_owned(), provider: PROVIDER.to_owned(), reasoning_effort: None }
    }
}

/// Settings that clients have changed. They are lost when the workspace is closed.
#[derive(Debug, Default)]
pub(crate) struct ChangedSettings {
    pub(super) large: Option<SelectedModel>,
    pub(super) small: Option<SelectedModel>,
    /// Values below `options`, by path, such as `tui.compact_mode`.
    pub(super) options: BTreeMap<String, Value>,
}

/// The models of the server, in the client's format.
pub(crate) struct ModelCatalog {
    pub(super) models: Vec<Value>,
    pub(super) default: String,
}

impl ModelCatalog {
    /// Lists the models. If a provider does not respond in time, the catalog contains the default model only.
    async fn load(models: &Models) -> Self {
        let usual = tokio::time::timeout(LIST_TIMEOUT, models.usual()).await.ok();
        let listed = tokio::time::timeout(LIST_TIMEOUT, models.list()).await;
        let mut listed: Vec<Value> =
            listed.ok().and_then(Result::ok).unwrap_or_default().iter().map(model).collect();
        let default = usual.unwrap_or_else(|| "default".to_owned());
        if !listed.iter().any(|model| model["id"] == *default) {
            listed.push(model(&json!({ "id": default, "name": default })));
        }
        Self { models: listed, default }
    }

    /// Returns the entry of a model, or a default one if the model is not listed.
    pub(super) fn find(&self, id: &str) -> Value {
        let found = self.models.iter().find(|model| model["id"] == id).cloned();
        found.unwrap_or_else(|| model(&json!({ "id": id, "name": id })))
    }

    fn provider(&self) -> Value {
        json!({
            "id": PROVIDER, "name": "Baton", "type": "openai-compat", "base_url": "", "models": self.models,
            "default_large_model_id": self.default, "default_small_model_id": self.default,
        })
    }

    /// Returns the list of providers: only Baton.
    pub(super) fn providers(&self) -> Value {
        json!([self.provider()])
    }
}

/// Converts an entry of the runtime's model list to the client's format.
fn model(entry: &Value) -> Value {
    let window = entry.pointer("/capabilities/limits/max_context_window_tokens").and_then(Value::as_u64);
    let output = entry.pointer("/capabilities/limits/max_output_tokens").and_then(Value::as_u64);
    let efforts = entry.get("supportedReasoningEfforts").cloned().unwrap_or_else(|| json!([]));
    json!({
        "id": entry["id"], "name": entry["name"],
        "cost_per_1m_in": 0, "cost_per_1m_out": 0, "cost_per_1m_in_cached": 0, "cost_per_1m_out_cached": 0,
        "context_window": window.unwrap_or(128_000), "default_max_tokens": output.unwrap_or(8192),
        "can_reason": efforts.as_array().is_some_and(|efforts| !efforts.is_empty()), "reasoning_levels": efforts,
        "supports_attachments": entry.pointer("/capabilities/supports/vision") == Some(&json!(true)),
        "options": {},
    })
}

impl Workspace {
    /// Returns the models of the server. Concurrent calls wait for the same list.
    pub(super) async fn catalog(&self) -> Arc<ModelCatalog> {
        let mut catalog = self.catalog.lock().await;
        match &*catalog {
            Some((loaded, known)) if loaded.elapsed() < MAX_AGE => known.clone(),
            _ => {
                let new = Arc::new(ModelCatalog::load(&self.runtime.models).await);
                *catalog = Some((Instant::now(), new.clone()));
                new
            }
        }
    }

    /// Returns the selected models: the large one, which turns use, and the small one, which the client only shows.
    pub(super) fn selected(&self, catalog: &ModelCatalog) -> (SelectedModel, SelectedModel) {
        let preferences = lock(&self.preferences);
        let large = preferences.large.clone().unwrap_or_else(|| SelectedModel::named(&catalog.default));
        let small = preferences.small.clone().unwrap_or_else(|| large.clone());
        (large, small)
    }

    /// Returns the configuration in the client's format. The client fails without `options` and `providers`.
    pub(super) fn config(&self, catalog: &ModelCatalog, servers: &Value) -> Value {
        let (large, small) = self.selected(catalog);
        let directory = self.runtime.options.home.join("crush").to_string_lossy().into_owned();
        let mut config = json!({
            "models": { "large": large, "small": small },
            "providers": { PROVIDER: catalog.provider() },
            "mcp": servers,
            "lsp": {},
            "options": {
                "data_directory": directory, "disable_metrics": true, "disable_provider_auto_update": true,
                "debug": self.settings.debug, "tui": {},
            },
            "permissions": {},
        });
        for (path, value) in &lock(&self.preferences).options {
            set(&mut config["options"], path, value.clone());
        }
        config
    }

    /// Returns the workspace in the client's format. The client's environment is not stored: every client that lists
    /// workspaces would see it.
    pub(super) fn view(&self, catalog: &ModelCatalog, servers: &Value, skills: &Value) -> Value {
        let settings = &self.settings;
        json!({
            "id": self.id, "path": settings.path, "yolo": self.skips_permissions(), "debug": settings.debug,
            "data_dir": settings.data_dir, "version": settings.version, "channels": settings.channels,
            "keep_running": settings.keep_running, "config": self.config(catalog, servers), "skills": skills,
        })
    }
}

/// Sets the value at a path such as `tui.compact_mode`.
fn set(object: &mut Value, path: &str, value: Value) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match rest {
        None => object[first] = value,
        Some(rest) => {
            if !object[first].is_object() {
                object[first] = json!({});
            }
            set(&mut object[first], rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_by_path() {
        let mut options = json!({ "tui": { "diff_mode": "split" }, "debug": 1 });
        set(&mut options, "tui.compact_mode", json!(true));
        set(&mut options, "debug.deep.er", json!(2));
        set(&mut options, "progress", json!(false));
        let expected = json!({
            "tui": { "diff_mode": "split", "compact_mode": true }, "debug": { "deep": { "er": 2 } }, "progress": false,
        });
        assert_eq!(options, expected);
    }

    #[test]
    fn model_has_all_fields_that_the_client_reads() {
        let known = model(&json!({
            "id": "m", "name": "M", "supportedReasoningEfforts": ["low"],
            "capabilities": { "supports": { "vision": true }, "limits": { "max_context_window_tokens": 7 } },
        }));
        assert_eq!((&known["context_window"], &known["can_reason"]), (&json!(7), &json!(true)));
        assert_eq!(known["supports_attachments"], true);
        let unknown = model(&json!({ "id": "m", "name": "m" }));
        assert_eq!((&unknown["context_window"], &unknown["can_reason"]), (&json!(128_000), &json!(false)));
    }
}
