//! What a client is told about the endpoint of its session, with the credentials for it, so that it can ask models
//! itself. Only where whoever started the server allows it.

use baton_model::ModelError;
use baton_protocol::provider::{ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{Asker, Models, registered};
use crate::options;

impl Models {
    /// The endpoint that a session's next question goes to; `None` when it is the demo model, which has none.
    pub(crate) fn reveal(&self, asker: &Asker<'_>) -> Result<Option<Value>, ModelError> {
        let brought = registered(asker.settings, asker.model)?.map(|(provider, _)| provider);
        if let Some(provider) = brought.or(asker.settings.provider.as_ref()) {
            return Ok(Some(revealed(provider)));
        }
        match self.default() {
            options::Endpoint::Demo => Ok(None),
            options::Endpoint::Provider { provider, .. } => Ok(Some(revealed(&provider))),
            options::Endpoint::Copilot { url, token } => {
                let endpoint = self.copilot(&url, token.as_deref(), asker)?;
                let token = asker.settings.github_token.as_ref().or(token.as_ref());
                let mut headers: serde_json::Map<String, Value> =
                    endpoint.headers.into_iter().map(|(name, value)| (name, value.into())).collect();
                headers.insert("User-Agent".to_owned(), endpoint.user_agent.into());
                if let Some(token) = token {
                    headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
                }
                let mut told =
                    json!({ "type": "openai", "wireApi": "completions", "baseUrl": url, "headers": headers });
                if let Some(token) = token {
                    told["apiKey"] = json!(token);
                }
                Ok(Some(told))
            }
        }
    }
}

fn revealed(provider: &ProviderConfig) -> Value {
    let kind = provider.kind.unwrap_or_default();
    let mut told = json!({
        "type": kind,
        "baseUrl": provider.base_url,
        "headers": provider.headers.clone().unwrap_or_default(),
    });
    if kind != ProviderKind::Anthropic {
        told["wireApi"] = json!(provider.wire_api.unwrap_or_default());
    }
    if let Some(transport) = provider.transport {
        told["transport"] = json!(transport);
    }
    if let Some(key) = provider.bearer_token.as_ref().or(provider.api_key.as_ref()) {
        told["apiKey"] = json!(key);
    }
    told
}
