//! Configured providers, of a client's session or of the server: wire format, route and credentials.

use std::sync::Arc;

use baton_model::chat::ChatVariant;
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::{Carrier, ErrorKind, ModelError, messages};
use baton_protocol::provider::{ProviderConfig, ProviderKind, ProviderModel, ProviderTransport, WireApi};

use crate::choose::{Wire, overridden_vision};
use crate::recordings::REPLAY;
use crate::token::{TokenModel, TokenSource};
use crate::{ChosenModel, DEFAULT_WINDOW, ModelCaller, Models, SessionProviders};

impl Models {
    /// Returns a model of a configured provider.
    pub(super) async fn provider_model(
        &self,
        caller: &ModelCaller<'_>,
        provider: &ProviderConfig,
        entry: Option<&ProviderModel>,
    ) -> Result<ChosenModel, ModelError> {
        if provider.kind == Some(ProviderKind::Replay) {
            return self.replay_model(caller, provider).await;
        }
        let name = wire_name(provider, entry, caller.model)?;
        let (endpoint, wire) = self.endpoint_of(provider, &caller.settings, Some(name))?;
        let transport = self.transport(caller);
        let model = if provider.has_bearer_token_provider == Some(true) {
            let tokens = TokenSource::new(caller, provider.name.as_deref());
            Arc::new(TokenModel::new(tokens, endpoint, wire, transport))
        } else {
            wire.model(endpoint, transport)
        };
        let limit = |of: fn(&ProviderModel) -> Option<u64>| entry.and_then(of);
        let token_limit = limit(|m| m.max_prompt_tokens).or_else(|| limit(|m| m.max_context_window_tokens));
        let vision = overridden_vision(caller.settings.model_capabilities);
        let vision =
            vision.or_else(|| overridden_vision(entry.and_then(|entry| entry.capabilities.as_ref())));
        Ok(ChosenModel {
            model,
            wire_name: name.to_owned(),
            token_limit: token_limit.or(provider.max_prompt_tokens).unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: limit(|m| m.max_output_tokens).or(provider.max_output_tokens),
            vision: vision.unwrap_or(true),
            byok: true,
        })
    }

    /// Returns a model that replays a recording. The provider's base URL is the path of the file.
    async fn replay_model(
        &self,
        caller: &ModelCaller<'_>,
        provider: &ProviderConfig,
    ) -> Result<ChosenModel, ModelError> {
        let path = provider.base_url.strip_prefix("file://").unwrap_or(&provider.base_url);
        Ok(ChosenModel {
            model: self.recordings.replay(path.as_ref()).await?,
            wire_name: caller.model.unwrap_or(REPLAY).to_owned(),
            token_limit: provider.max_prompt_tokens.unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: provider.max_output_tokens,
            vision: overridden_vision(caller.settings.model_capabilities).unwrap_or(true),
            byok: true,
        })
    }

    /// Returns the endpoint and wire format of a provider. Some routes contain the name of the model.
    pub(super) fn endpoint_of(
        &self,
        provider: &ProviderConfig,
        settings: &SessionProviders<'_>,
        model: Option<&str>,
    ) -> Result<(Endpoint, Wire), ModelError> {
        if provider.base_url.trim().is_empty() {
            let why = "The provider has no `baseUrl`; set one such as https://api.openai.com/v1.";
            return Err(invalid(provider, why));
        }
        let mut endpoint = self.endpoint(&route(provider, model), auth(provider), settings)?;
        endpoint.headers.extend(provider.headers.clone().unwrap_or_default());
        let wire = wire(provider);
        let endpoint = if wire == Wire::Messages { messages::versioned(endpoint) } else { endpoint };
        Ok((endpoint, wire))
    }
}

fn invalid(provider: &ProviderConfig, why: &str) -> ModelError {
    ModelError::new(ErrorKind::BadRequest, &provider.base_url, why)
}

/// Returns the model's name on the wire: as the registry or the provider configures it, otherwise the session's name.
fn wire_name<'a>(
    provider: &'a ProviderConfig,
    entry: Option<&'a ProviderModel>,
    model: Option<&'a str>,
) -> Result<&'a str, ModelError> {
    let of_entry = entry.map(|entry| {
        let named = entry.wire_model.as_deref().or(entry.model_id.as_deref());
        named.unwrap_or(entry.id.as_str())
    });
    let of_provider = provider.wire_model.as_deref().or(provider.model_id.as_deref());
    of_entry.or(of_provider).or(model).ok_or_else(|| {
        invalid(provider, "The session's provider has no model; set `model`, or `modelId` of the provider.")
    })
}

/// Returns the wire format of a provider.
fn wire(provider: &ProviderConfig) -> Wire {
    let carrier = match provider.transport.unwrap_or_default() {
        ProviderTransport::Http => Carrier::Http,
        ProviderTransport::WebSockets => Carrier::WebSocket,
    };
    match (provider.kind.unwrap_or_default(), provider.wire_api.unwrap_or_default()) {
        (ProviderKind::Anthropic, _) => Wire::Messages,
        (_, WireApi::Responses) => Wire::Responses(carrier),
        (ProviderKind::Azure, WireApi::Completions) => Wire::Chat(ChatVariant::OpenAi),
        (_, WireApi::Completions) if provider.base_url.contains("api.openai.com") => {
            Wire::Chat(ChatVariant::OpenAi)
        }
        (_, WireApi::Completions) => Wire::Chat(ChatVariant::Compatible),
    }
}

/// Returns the URL to which the path of the wire format is appended.
fn route(provider: &ProviderConfig, model: Option<&str>) -> String {
    let base = provider.base_url.trim().trim_end_matches('/');
    let version = provider.azure.as_ref().and_then(|azure| azure.api_version.as_deref());
    match provider.kind.unwrap_or_default() {
        // Users configure the base URL of this API with and without the version.
        ProviderKind::Anthropic if base.ends_with("/v1") || base.ends_with("/messages") => base.to_owned(),
        ProviderKind::Anthropic => format!("{base}/v1"),
        ProviderKind::Azure => azure_route(base, version, provider.wire_api.unwrap_or_default(), model),
        ProviderKind::OpenAi | ProviderKind::Replay => base.to_owned(),
    }
}

/// Returns a route of Azure. Newer routes have no version; older ones do, and those of chat completions contain the
/// deployment. A base URL copied from the portal may already contain a route.
fn azure_route(base: &str, version: Option<&str>, api: WireApi, model: Option<&str>) -> String {
    let resource = base.strip_suffix("/openai/v1").or_else(|| base.strip_suffix("/openai")).unwrap_or(base);
    match (version, api) {
        _ if resource.contains("/openai/") => match version {
            Some(version) if !base.contains("api-version=") => format!("{base}?api-version={version}"),
            _ => base.to_owned(),
        },
        (None, _) => format!("{resource}/openai/v1"),
        (Some(version), WireApi::Responses) => format!("{resource}/openai?api-version={version}"),
        (Some(version), WireApi::Completions) => {
            let deployment = model.unwrap_or_default();
            format!("{resource}/openai/deployments/{deployment}?api-version={version}")
        }
    }
}

/// Returns the credentials of a provider. A bearer token takes precedence over an API key.
fn auth(provider: &ProviderConfig) -> Auth {
    let key: fn(&str) -> Auth = match provider.kind.unwrap_or_default() {
        ProviderKind::OpenAi | ProviderKind::Replay => Auth::bearer,
        ProviderKind::Azure => Auth::api_key,
        ProviderKind::Anthropic => Auth::x_api_key,
    };
    match (&provider.bearer_token, &provider.api_key) {
        (Some(token), _) => Auth::bearer(token),
        (None, Some(api_key)) => key(api_key),
        (None, None) => Auth::None,
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::provider::AzureConfig;

    use super::*;

    fn provider(kind: ProviderKind, base_url: &str) -> ProviderConfig {
        ProviderConfig { kind: Some(kind), base_url: base_url.into(), ..ProviderConfig::default() }
    }

    #[test]
    fn each_provider_kind_has_its_routes() {
        let check = |provider: &ProviderConfig, expected: &str| {
            assert_eq!(route(provider, Some("m")), expected, "{provider:?}");
        };
        check(&provider(ProviderKind::OpenAi, "http://localhost:11434/v1/"), "http://localhost:11434/v1");
        for base in
            ["https://api.anthropic.com", "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/"]
        {
            check(&provider(ProviderKind::Anthropic, base), "https://api.anthropic.com/v1");
        }
        let azure = |base: &str, version: Option<&str>, api| ProviderConfig {
            azure: version.map(|v| AzureConfig { api_version: Some(v.into()) }),
            wire_api: Some(api),
            ..provider(ProviderKind::Azure, base)
        };
        for base in ["https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/"] {
            check(&azure(base, None, WireApi::Completions), "https://r.openai.azure.com/openai/v1");
            check(&azure(base, None, WireApi::Responses), "https://r.openai.azure.com/openai/v1");
        }
        check(
            &azure("https://r.openai.azure.com", Some("2024-10-21"), WireApi::Completions),
            "https://r.openai.azure.com/openai/deployments/m?api-version=2024-10-21",
        );
        check(
            &azure("https://r.openai.azure.com", Some("2025-04-01-preview"), WireApi::Responses),
            "https://r.openai.azure.com/openai?api-version=2025-04-01-preview",
        );
        check(
            &azure("https://r.openai.azure.com/openai/deployments/d", Some("1"), WireApi::Completions),
            "https://r.openai.azure.com/openai/deployments/d?api-version=1",
        );
    }

    #[test]
    fn each_provider_kind_has_its_credentials() {
        let keyed = |kind| ProviderConfig { api_key: Some("k".into()), ..provider(kind, "https://x") };
        assert_eq!(auth(&keyed(ProviderKind::OpenAi)), Auth::bearer("k"));
        assert_eq!(auth(&keyed(ProviderKind::Azure)), Auth::api_key("k"));
        assert_eq!(auth(&keyed(ProviderKind::Anthropic)), Auth::x_api_key("k"));
        let token = ProviderConfig { bearer_token: Some("t".into()), ..keyed(ProviderKind::Anthropic) };
        assert_eq!(auth(&token), Auth::bearer("t"));
    }

    #[test]
    fn each_provider_kind_has_its_wire_format() {
        let api = |kind, wire_api| ProviderConfig { wire_api, ..provider(kind, "https://x") };
        assert_eq!(wire(&api(ProviderKind::OpenAi, None)), Wire::Chat(ChatVariant::Compatible));
        assert_eq!(
            wire(&provider(ProviderKind::OpenAi, "https://api.openai.com/v1")),
            Wire::Chat(ChatVariant::OpenAi)
        );
        assert_eq!(wire(&api(ProviderKind::Azure, Some(WireApi::Responses))), Wire::Responses(Carrier::Http));
        assert_eq!(wire(&api(ProviderKind::Anthropic, Some(WireApi::Responses))), Wire::Messages);
    }
}
