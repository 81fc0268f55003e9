//! Model endpoints configured by clients, and their models. Never stored: they contain credentials.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// A model endpoint configured by a client.
///
/// A session has at most one unnamed endpoint and any number of named ones, whose models are listed beside
/// them.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderConfig {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<ProviderKind>,
    pub wire_api: Option<WireApi>,
    pub transport: Option<ProviderTransport>,
    pub base_url: String,
    pub api_key: Option<String>,
    pub bearer_token: Option<String>,
    /// Whether to request a token from the client before every request.
    pub has_bearer_token_provider: Option<bool>,
    pub headers: Option<BTreeMap<String, String>>,
    pub model_id: Option<String>,
    pub wire_model: Option<String>,
    pub max_prompt_tokens: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub azure: Option<AzureConfig>,
}

/// The kind of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI and compatible endpoints.
    #[default]
    OpenAi,
    /// OpenAI models on Azure, with different routes and keys.
    Azure,
    /// Anthropic and compatible endpoints.
    Anthropic,
    /// A recording that is replayed without a network.
    Replay,
}

/// The OpenAI API to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireApi {
    #[default]
    Completions,
    Responses,
}

/// The transport of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderTransport {
    #[default]
    Http,
    WebSockets,
}

/// Additional settings of Azure endpoints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureConfig {
    pub api_version: Option<String>,
}

/// A model of a named provider. Selected as `provider/id`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderModel {
    pub id: String,
    pub provider: String,
    pub name: Option<String>,
    pub model_id: Option<String>,
    pub wire_model: Option<String>,
    pub max_prompt_tokens: Option<u64>,
    pub max_context_window_tokens: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub capabilities: Option<Json>,
}

impl ProviderModel {
    /// Returns the name by which it is selected.
    #[must_use]
    pub fn selection(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

impl std::fmt::Debug for ProviderConfig {
    /// Omits credentials: this may end up in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("wire_api", &self.wire_api)
            .field("base_url", &self.base_url)
            .field("model_id", &self.model_id)
            .field("wire_model", &self.wire_model)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_credentials() {
        let provider = ProviderConfig { api_key: Some("sk-secret".into()), ..ProviderConfig::default() };
        assert!(!format!("{provider:?}").contains("sk-secret"));
    }

    #[test]
    fn unknown_provider_kind_is_an_error() {
        let parse = |text: &str| baton_json::from_str::<ProviderConfig>(text).map(|p| p.kind);
        assert_eq!(parse(r#"{"type":"anthropic","baseUrl":"x"}"#).unwrap(), Some(ProviderKind::Anthropic));
        assert!(parse(r#"{"type":"antropic","baseUrl":"x"}"#).unwrap_err().to_string().contains("antropic"));
        let sockets: ProviderConfig =
            baton_json::from_str(r#"{"transport":"websockets","headers":null}"#).unwrap();
        assert_eq!(sockets.transport, Some(ProviderTransport::WebSockets));
    }
}
