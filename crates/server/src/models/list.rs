//! The models that clients are told of.

use baton_model::ModelError;
use baton_model::catalog::ModelInfo;
use baton_model::endpoint::Auth;
use baton_protocol::provider::{ProviderKind, ProviderModel};
use serde_json::{Value, json};

use super::play::REPLAY;
use super::{DEFAULT_WINDOW, DEMO, FALLBACK_MODEL, Models};
use crate::options;
use crate::session::Settings;

impl Models {
    /// The models that can be chosen from.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let settings = Settings::default();
        let endpoint = match self.default() {
            options::Endpoint::Demo => return Ok(vec![demo_entry()]),
            options::Endpoint::Copilot { url, token } => {
                self.endpoint(&url, token.as_deref().map_or(Auth::None, Auth::bearer), &settings)?
            }
            options::Endpoint::Provider { provider, .. } if provider.kind == Some(ProviderKind::Replay) => {
                let recorded = ProviderModel { id: REPLAY.to_owned(), ..ProviderModel::default() };
                let mut entry = brought_entry(&recorded);
                entry["id"] = REPLAY.into();
                return Ok(vec![entry]);
            }
            options::Endpoint::Provider { provider, model } => {
                self.endpoint_of(&provider, &settings, model.as_deref())?.0
            }
        };
        let models = self.catalog.models(&*self.transport(None), &endpoint).await?;
        Ok(models.iter().map(entry).collect())
    }

    /// The name of the model that is asked when nobody chooses one.
    pub(crate) async fn usual(&self) -> String {
        if let options::Endpoint::Provider { model: Some(model), .. } = self.default() {
            return model;
        }
        let first =
            self.list().await.ok().and_then(|models| Some(models.first()?["id"].as_str()?.to_owned()));
        first.unwrap_or_else(|| FALLBACK_MODEL.to_owned())
    }
}

/// The models that a session can choose from: those that its client brought come first.
pub(crate) fn with_brought(
    brought: &[ProviderModel],
    ours: Result<Vec<Value>, ModelError>,
) -> Result<Vec<Value>, ModelError> {
    let brought: Vec<Value> = brought.iter().map(brought_entry).collect();
    match ours {
        Ok(ours) => Ok(brought.into_iter().chain(ours).collect()),
        // Who brings models needs no others.
        Err(_) if !brought.is_empty() => Ok(brought),
        Err(error) => Err(error),
    }
}

/// A model that a client brought.
pub(crate) fn brought_entry(model: &ProviderModel) -> Value {
    let window = model.max_context_window_tokens.or(model.max_prompt_tokens).unwrap_or(DEFAULT_WINDOW);
    let mut limits = json!({ "max_context_window_tokens": window });
    for (name, tokens) in
        [("max_prompt_tokens", model.max_prompt_tokens), ("max_output_tokens", model.max_output_tokens)]
    {
        if let Some(tokens) = tokens {
            limits[name] = tokens.into();
        }
    }
    let overrides: Value = model.capabilities.as_ref().and_then(|json| json.parse().ok()).unwrap_or_default();
    let flag = |name: &str| overrides["supports"][name].as_bool().unwrap_or(false);
    let supports = json!({ "vision": flag("vision"), "reasoningEffort": flag("reasoningEffort") });
    json!({
        "id": model.selection(),
        "name": model.name.as_deref().unwrap_or(&model.id),
        "capabilities": { "supports": supports, "limits": limits },
    })
}

/// A model of the endpoint's list.
fn entry(info: &ModelInfo) -> Value {
    let window = info.context_window.or(info.max_prompt_tokens).unwrap_or(DEFAULT_WINDOW);
    let mut limits = json!({ "max_context_window_tokens": window });
    if let Some(tokens) = info.max_prompt_tokens {
        limits["max_prompt_tokens"] = tokens.into();
    }
    if let Some(tokens) = info.max_output_tokens {
        limits["max_output_tokens"] = tokens.into();
    }
    let supports = json!({
        "vision": info.vision.unwrap_or(false),
        "reasoningEffort": !info.reasoning_efforts.is_empty(),
    });
    let mut entry = json!({
        "id": info.id,
        "name": info.name,
        "capabilities": { "supports": supports, "limits": limits },
    });
    if !info.reasoning_efforts.is_empty() {
        entry["supportedReasoningEfforts"] = info.reasoning_efforts.clone().into();
    }
    let raw: Value = info.raw.parse().unwrap_or_default();
    for key in ["policy", "billing"] {
        if let Some(value) = raw.get(key).filter(|value| value.is_object()) {
            entry[key] = value.clone();
        }
    }
    entry
}

fn demo_entry() -> Value {
    json!({
        "id": DEMO,
        "name": "Baton demo model (no AI)",
        "capabilities": {
            "supports": { "vision": false, "reasoningEffort": false },
            "limits": { "max_context_window_tokens": DEFAULT_WINDOW },
        },
    })
}
