//! The provider of a session.

use std::collections::BTreeMap;
use std::fmt;

use baton_protocol::provider::{AzureConfig, ProviderConfig, ProviderKind, ProviderTransport, WireApi};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Model endpoint of one session, with its credentials, in place of the server's. Kept in memory and never stored: after a
/// restart of the server, prompts fail until the provider is set again.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Provider {
    /// Kind of endpoint; default: `openai`, which is also right for compatible servers.
    #[serde(default, rename = "type")]
    #[schema(value_type = Option<ProviderKindName>)]
    kind: Option<ProviderKind>,
    /// URL such as `https://api.openai.com/v1`; for `replay`, the path of a recording on the server's machine.
    #[schema(pattern = "^(https?://[A-Za-z0-9]|/)")]
    base_url: String,
    /// Key, sent as the kind of endpoint expects it.
    #[serde(default)]
    #[schema(write_only)]
    api_key: Option<String>,
    /// Token, sent as `Authorization: Bearer`; takes precedence over `apiKey`.
    #[serde(default)]
    #[schema(write_only)]
    bearer_token: Option<String>,
    /// API of `openai` and `azure` endpoints; default: `completions`.
    #[serde(default)]
    #[schema(value_type = Option<WireApiName>)]
    wire_api: Option<WireApi>,
    /// Transport of the Responses API; default: `http`.
    #[serde(default)]
    #[schema(value_type = Option<TransportName>)]
    transport: Option<ProviderTransport>,
    /// Additional headers of model requests.
    #[serde(default)]
    #[schema(write_only)]
    headers: Option<BTreeMap<String, String>>,
    /// Name of the model, if the session's `model` is not it.
    #[serde(default)]
    wire_model: Option<String>,
    /// Maximum number of tokens of a request.
    #[serde(default)]
    #[schema(value_type = Option<u32>, maximum = 2147483647)]
    max_prompt_tokens: Option<TokenCount>,
    /// Maximum number of tokens of a response.
    #[serde(default)]
    #[schema(value_type = Option<u32>, maximum = 2147483647)]
    max_output_tokens: Option<TokenCount>,
    /// `api-version` of Azure's older routes.
    #[serde(default)]
    api_version: Option<String>,
}

/// Number of tokens. Smaller than the largest `u32`, because some JSON libraries have signed integers only.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct TokenCount(u32);

impl TokenCount {
    fn get(self) -> u64 {
        self.0.into()
    }
}

impl TryFrom<u64> for TokenCount {
    type Error = String;

    fn try_from(count: u64) -> Result<Self, String> {
        let small = i32::try_from(count).ok().and_then(|count| u32::try_from(count).ok());
        small.map(Self).ok_or_else(|| format!("at most {} tokens are possible", i32::MAX))
    }
}

impl fmt::Debug for Provider {
    /// Omits credentials: this may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

impl TryFrom<Provider> for ProviderConfig {
    type Error = ApiError;

    fn try_from(provider: Provider) -> Result<Self, ApiError> {
        check_base_url(&provider)?;
        check_credentials(&provider)?;
        Ok(Self {
            kind: provider.kind,
            wire_api: provider.wire_api,
            transport: provider.transport,
            base_url: provider.base_url,
            api_key: provider.api_key,
            bearer_token: provider.bearer_token,
            headers: provider.headers,
            wire_model: provider.wire_model,
            max_prompt_tokens: provider.max_prompt_tokens.map(TokenCount::get),
            max_output_tokens: provider.max_output_tokens.map(TokenCount::get),
            azure: provider.api_version.map(|version| AzureConfig { api_version: Some(version) }),
            ..Self::default()
        })
    }
}

fn check_base_url(provider: &Provider) -> Result<(), ApiError> {
    let url = &provider.base_url;
    let invalid = |why: String| {
        let message = format!("provider.baseUrl {url:?} is not valid: {why}");
        Err(ApiError::unprocessable("invalid_provider", message))
    };
    match provider.kind {
        Some(ProviderKind::Replay) if url.starts_with('/') => Ok(()),
        Some(ProviderKind::Replay) => invalid("it must be an absolute path of a recording".to_owned()),
        _ => baton_model::endpoint::Endpoint::new(url).map(drop).or_else(|error| invalid(error.to_string())),
    }
}

/// Refuses credentials that cannot be sent: no prompt of the session would be answered, with an error that names no field.
fn check_credentials(provider: &Provider) -> Result<(), ApiError> {
    let headers = provider.headers.iter().flatten().map(|(name, value)| (format!("headers.{name}"), value));
    let keys = [("apiKey", &provider.api_key), ("bearerToken", &provider.bearer_token)];
    let keys = keys.into_iter().filter_map(|(name, key)| Some((name.to_owned(), key.as_ref()?)));
    for (name, value) in keys.chain(headers) {
        if value.chars().any(char::is_control) {
            let message = format!("provider.{name} has a line break or another control character");
            return Err(ApiError::unprocessable("invalid_provider", message));
        }
    }
    Ok(())
}

/// Kind of endpoint.
// The names of `ProviderKind`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase", as = ProviderKind)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum ProviderKindName {
    OpenAi,
    Azure,
    Anthropic,
    Replay,
}

/// API of OpenAI's endpoints.
// The names of `WireApi`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase", as = WireApi)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum WireApiName {
    Completions,
    Responses,
}

/// Transport of model requests.
// The names of `ProviderTransport`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase", as = Transport)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum TransportName {
    Http,
    WebSockets,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ProviderConfig, String> {
        let provider: Provider = baton_json::from_str(text).map_err(|error| error.to_string())?;
        ProviderConfig::try_from(provider).map_err(|error| error.message)
    }

    #[test]
    fn base_url_must_suit_the_kind() {
        assert!(parse(r#"{"baseUrl":"http://localhost:1/v1"}"#).is_ok());
        assert!(parse(r#"{"type":"replay","baseUrl":"/r.jsonl"}"#).is_ok());
        for wrong in
            [r#"{"baseUrl":""}"#, r#"{"baseUrl":"/r.jsonl"}"#, r#"{"type":"replay","baseUrl":"r.jsonl"}"#]
        {
            assert!(parse(wrong).unwrap_err().contains("not valid"), "{wrong}");
        }
        assert!(parse(r#"{"baseUrl":"http://x","apikey":"k"}"#).unwrap_err().contains("apikey"));
    }

    #[test]
    fn debug_output_omits_credentials() {
        let provider: Provider = baton_json::from_str(r#"{"baseUrl":"http://x","apiKey":"sk-1"}"#).unwrap();
        assert!(!format!("{provider:?}").contains("sk-1"));
    }
}
