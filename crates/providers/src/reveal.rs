//! Endpoint and credentials of a session, for a client that calls models itself. Only if the server's options allow it.

use baton_model::ModelError;
use baton_protocol::provider::{ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use crate::choose::registered;
use crate::{ModelCaller, Models, ServerEndpoint};

impl Models {
    /// Returns the endpoint of the next model call; `None` for the demo model.
    ///
    /// # Errors
    /// When the session names a provider that cannot be used.
    pub fn reveal(&self, caller: &ModelCaller<'_>) -> Result<Option<Value>, ModelError> {
        let registered = registered(&caller.settings, caller.model)?.map(|(provider, _)| provider);
        if let Some(provider) = registered.or(caller.settings.provider) {
            return Ok(Some(endpoint_of(provider)));
        }
        match self.default(Some(caller.session)) {
            ServerEndpoint::Demo => Ok(None),
            ServerEndpoint::Provider { provider, .. } => Ok(Some(endpoint_of(&provider))),
            ServerEndpoint::Copilot { url, token } => {
                let endpoint = self.copilot(&url, token.as_deref(), caller)?;
                let token = caller.settings.github_token.or(token.as_deref());
                let mut headers: serde_json::Map<String, Value> =
                    endpoint.headers.into_iter().map(|(name, value)| (name, value.into())).collect();
                headers.insert("User-Agent".to_owned(), endpoint.user_agent.into());
                if let Some(token) = token {
                    headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
                }
                let mut revealed =
                    json!({ "type": "openai", "wireApi": "completions", "baseUrl": url, "headers": headers });
                if let Some(token) = token {
                    revealed["apiKey"] = json!(token);
                }
                Ok(Some(revealed))
            }
        }
    }
}

/// Returns the endpoint of a configured provider.
fn endpoint_of(provider: &ProviderConfig) -> Value {
    let kind = provider.kind.unwrap_or_default();
    let mut revealed = json!({
        "type": kind,
        "baseUrl": provider.base_url,
        "headers": provider.headers.clone().unwrap_or_default(),
    });
    if kind != ProviderKind::Anthropic {
        revealed["wireApi"] = json!(provider.wire_api.unwrap_or_default());
    }
    if let Some(transport) = provider.transport {
        revealed["transport"] = json!(transport);
    }
    if let Some(key) = provider.bearer_token.as_ref().or(provider.api_key.as_ref()) {
        revealed["apiKey"] = json!(key);
    }
    revealed
}
