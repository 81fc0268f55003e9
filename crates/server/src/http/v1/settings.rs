//! What a workspace is set to, in the form of crush's configuration. Models are the server's; keys are never shown, and
//! never taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fold::PROVIDER;
use super::workspace::{Workspace, lock};
use crate::models::Models;

/// How long the model endpoint may take to say which models there are.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long its answer, or that it gave none, is good for: the client asks all the time.
const FRESH: Duration = Duration::from_secs(30);

/// A model that is chosen, in the client's form.
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

/// What clients have changed. Lives as long as the workspace.
#[derive(Debug, Default)]
pub(crate) struct Preferences {
    pub(super) large: Option<SelectedModel>,
    pub(super) small: Option<SelectedModel>,
    /// Values below `options`, by their place: `tui.compact_mode`.
    pub(super) options: BTreeMap<String, Value>,
}

/// The models of the server, in the client's form.
pub(crate) struct Offer {
    pub(super) models: Vec<Value>,
    pub(super) default: String,
}

impl Offer {
    /// Asks the endpoint. One that does not answer in time leaves the model that would be asked.
    async fn ask(models: &Models) -> Self {
        let usual = tokio::time::timeout(PATIENCE, models.usual()).await.ok();
        let listed = tokio::time::timeout(PATIENCE, models.list()).await;
        let mut listed: Vec<Value> =
            listed.ok().and_then(Result::ok).unwrap_or_default().iter().map(model).collect();
        let default = usual.unwrap_or_else(|| "default".to_owned());
        if !listed.iter().any(|model| model["id"] == *default) {
            listed.push(model(&json!({ "id": default, "name": default })));
        }
        Self { models: listed, default }
    }

    /// What is known about a model, by its name.
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

    /// All providers, as the client's lists have them.
    pub(super) fn providers(&self) -> Value {
        json!([self.provider()])
    }
}

/// A model of our own list, in the client's form.
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
    /// The models of the server. Whoever comes while they are asked for waits for the same answer.
    pub(super) async fn offer(&self) -> Arc<Offer> {
        let mut offer = self.offer.lock().await;
        match &*offer {
            Some((asked, known)) if asked.elapsed() < FRESH => known.clone(),
            _ => {
                let new = Arc::new(Offer::ask(&self.server.models).await);
                *offer = Some((Instant::now(), new.clone()));
                new
            }
        }
    }

    /// The models that are chosen: the large one, which runs, and the small one, which the client wants to see.
    pub(super) fn selected(&self, offer: &Offer) -> (SelectedModel, SelectedModel) {
        let preferences = lock(&self.preferences);
        let large = preferences.large.clone().unwrap_or_else(|| SelectedModel::named(&offer.default));
        let small = preferences.small.clone().unwrap_or_else(|| large.clone());
        (large, small)
    }

    /// The configuration, as the client wants it. It fails without `options` and `providers`.
    pub(super) fn config(&self, offer: &Offer) -> Value {
        let (large, small) = self.selected(offer);
        let directory = self.server.options.home.join("crush").to_string_lossy().into_owned();
        let mut config = json!({
            "models": { "large": large, "small": small },
            "providers": { PROVIDER: offer.provider() },
            "mcp": {},
            "lsp": {},
            "options": {
                "data_directory": directory, "disable_metrics": true, "disable_provider_auto_update": true,
                "debug": self.founding.debug, "tui": {},
            },
            "permissions": {},
        });
        for (place, value) in &lock(&self.preferences).options {
            put(&mut config["options"], place, value.clone());
        }
        config
    }

    /// The workspace, as the client sees it. Its environment is not kept: whoever may list workspaces would read it.
    pub(super) fn shown(&self, offer: &Offer) -> Value {
        let founding = &self.founding;
        json!({
            "id": self.id, "path": founding.path, "yolo": self.skips_permissions(), "debug": founding.debug,
            "data_dir": founding.data_dir, "version": founding.version, "channels": founding.channels,
            "keep_running": founding.keep_running, "config": self.config(offer), "skills": [],
        })
    }
}

/// Sets a value at a place such as `tui.compact_mode`.
fn put(object: &mut Value, place: &str, value: Value) {
    let (first, rest) = place.split_once('.').map_or((place, None), |(first, rest)| (first, Some(rest)));
    match rest {
        None => object[first] = value,
        Some(rest) => {
            if !object[first].is_object() {
                object[first] = json!({});
            }
            put(&mut object[first], rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_put_in_their_place() {
        let mut options = json!({ "tui": { "diff_mode": "split" }, "debug": 1 });
        put(&mut options, "tui.compact_mode", json!(true));
        put(&mut options, "debug.deep.er", json!(2));
        put(&mut options, "progress", json!(false));
        let expected = json!({
            "tui": { "diff_mode": "split", "compact_mode": true }, "debug": { "deep": { "er": 2 } }, "progress": false,
        });
        assert_eq!(options, expected);
    }

    #[test]
    fn a_model_has_all_that_the_client_needs() {
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
