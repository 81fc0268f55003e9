//! Model endpoints that clients bring, and the models behind them. Never stored: they hold credentials.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// A model endpoint that a client brings.
///
/// A session has at most one without a name, and any number with one, whose models are listed beside them.
#[derive(Clone, PartialEq, Default, Deserialize)]
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
    /// Whether the client is to be asked for a token before every request.
    pub has_bearer_token_provider: Option<bool>,
    pub headers: Option<BTreeMap<String, String>>,
    pub model_id: Option<String>,
    pub wire_model: Option<String>,
    pub max_prompt_tokens: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub azure: Option<AzureConfig>,
}

/// What sort of endpoint it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI, and everybody who is compatible with it.
    #[default]
    OpenAi,
    /// OpenAI's models in Microsoft's cloud, with routes and keys of their own.
    Azure,
    /// Anthropic, and everybody who is compatible with it.
    Anthropic,
    /// A recording, that is answered from without a network.
    Replay,
}

/// Which of OpenAI's APIs is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireApi {
    #[default]
    Completions,
    Responses,
}

/// What requests travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderTransport {
    #[default]
    Http,
    WebSockets,
}

/// What Azure's endpoints need besides.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureConfig {
    pub api_version: Option<String>,
}

/// A model of a provider that has a name. It is chosen as `provider/id`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
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
    /// The name by which it is chosen.
    #[must_use]
    pub fn selection(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

impl std::fmt::Debug for ProviderConfig {
    /// Leaves credentials out: this may end up in a log.
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
    fn credentials_do_not_reach_logs() {
        let provider = ProviderConfig { api_key: Some("sk-secret".into()), ..ProviderConfig::default() };
        assert!(!format!("{provider:?}").contains("sk-secret"));
    }

    #[test]
    fn a_kind_that_nobody_knows_is_an_error_and_not_ignored() {
        let parse = |text: &str| serde_json::from_str::<ProviderConfig>(text).map(|p| p.kind);
        assert_eq!(parse(r#"{"type":"anthropic","baseUrl":"x"}"#).unwrap(), Some(ProviderKind::Anthropic));
        assert!(parse(r#"{"type":"antropic","baseUrl":"x"}"#).unwrap_err().to_string().contains("antropic"));
        let sockets: ProviderConfig =
            serde_json::from_str(r#"{"transport":"websockets","headers":null}"#).unwrap();
        assert_eq!(sockets.transport, Some(ProviderTransport::WebSockets));
    }
}
