//! Lists of models for clients.

use baton_model::ModelError;
use baton_model::catalog::ModelInfo;
use baton_model::endpoint::Auth;
use baton_protocol::provider::{ProviderKind, ProviderModel};
use serde_json::{Value, json};

use crate::recordings::REPLAY;
use crate::{DEFAULT_MODEL, DEFAULT_WINDOW, DEMO, Models, ServerEndpoint, SessionProviders};

impl Models {
    /// Lists the models of the server's endpoint.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or has no list.
    pub async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let settings = SessionProviders::default();
        let endpoint = match self.default(None) {
            ServerEndpoint::Demo => return Ok(vec![demo_entry()]),
            ServerEndpoint::Copilot { url, token } => {
                self.endpoint(&url, token.as_deref().map_or(Auth::None, Auth::bearer), &settings)?
            }
            ServerEndpoint::Provider { provider, .. } if provider.kind == Some(ProviderKind::Replay) => {
                let recorded = ProviderModel { id: REPLAY.to_owned(), ..ProviderModel::default() };
                let mut entry = client_model_entry(&recorded);
                entry["id"] = REPLAY.into();
                return Ok(vec![entry]);
            }
            ServerEndpoint::Provider { provider, model } => {
                self.endpoint_of(&provider, &settings, model.as_deref())?.0
            }
        };
        let models = self.listed(None, &endpoint, false).await?;
        Ok(models.iter().map(entry).collect())
    }

    /// Returns the id of the server's default model.
    pub async fn usual(&self) -> String {
        if let ServerEndpoint::Provider { model: Some(model), .. } = self.default(None) {
            return model;
        }
        let first =
            self.list().await.ok().and_then(|models| Some(models.first()?["id"].as_str()?.to_owned()));
        first.unwrap_or_else(|| DEFAULT_MODEL.to_owned())
    }
}

/// Combines the models of a session: those of its client's providers come first.
///
/// # Errors
/// When the server's own models cannot be listed and the client configured none.
pub fn with_client_models(
    of_client: &[ProviderModel],
    of_server: Result<Vec<Value>, ModelError>,
) -> Result<Vec<Value>, ModelError> {
    let of_client: Vec<Value> = of_client.iter().map(client_model_entry).collect();
    match of_server {
        Ok(of_server) => Ok(of_client.into_iter().chain(of_server).collect()),
        // A client that configures models does not need the server's.
        Err(_) if !of_client.is_empty() => Ok(of_client),
        Err(error) => Err(error),
    }
}

/// Returns the list entry of a model that a client configured.
pub fn client_model_entry(model: &ProviderModel) -> Value {
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

/// Returns the list entry of a model of the server's endpoint.
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
