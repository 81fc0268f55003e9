//! Endpoints that somebody brings: a client with its session, or whoever configured the server.

use std::sync::Arc;

use baton_model::chat::Dialect;
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::{Carrier, ErrorKind, ModelError, messages};
use baton_protocol::provider::{ProviderConfig, ProviderKind, ProviderModel, ProviderTransport, WireApi};

use super::play::REPLAY;
use super::token::{FreshToken, Tokens};
use super::{Asker, Chosen, DEFAULT_WINDOW, Models, Wire, overridden_vision};
use crate::session::Settings;

impl Models {
    /// A model at an endpoint that the client brought.
    pub(super) async fn brought(
        &self,
        asker: &Asker<'_>,
        provider: &ProviderConfig,
        entry: Option<&ProviderModel>,
    ) -> Result<Chosen, ModelError> {
        if provider.kind == Some(ProviderKind::Replay) {
            return self.replayed(asker, provider).await;
        }
        let name = wire_name(provider, entry, asker.model)?;
        let (endpoint, wire) = self.endpoint_of(provider, asker.settings, Some(name))?;
        let transport = self.transport(Some(asker));
        let model = if provider.has_bearer_token_provider == Some(true) {
            let tokens = Tokens::new(asker, provider.name.as_deref());
            Arc::new(FreshToken::new(tokens, endpoint, wire, transport))
        } else {
            wire.model(endpoint, transport)
        };
        let limit = |of: fn(&ProviderModel) -> Option<u64>| entry.and_then(of);
        let token_limit = limit(|m| m.max_prompt_tokens).or_else(|| limit(|m| m.max_context_window_tokens));
        let vision = overridden_vision(asker.settings.model_capabilities.as_ref());
        let vision =
            vision.or_else(|| overridden_vision(entry.and_then(|entry| entry.capabilities.as_ref())));
        Ok(Chosen {
            model,
            wire_name: name.to_owned(),
            token_limit: token_limit.or(provider.max_prompt_tokens).unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: limit(|m| m.max_output_tokens).or(provider.max_output_tokens),
            vision: vision.unwrap_or(true),
            byok: true,
        })
    }

    /// A recording, whose base address is the path of its file.
    async fn replayed(&self, asker: &Asker<'_>, provider: &ProviderConfig) -> Result<Chosen, ModelError> {
        let path = provider.base_url.strip_prefix("file://").unwrap_or(&provider.base_url);
        Ok(Chosen {
            model: self.tapes.play(path.as_ref()).await?,
            wire_name: asker.model.unwrap_or(REPLAY).to_owned(),
            token_limit: provider.max_prompt_tokens.unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: provider.max_output_tokens,
            vision: overridden_vision(asker.settings.model_capabilities.as_ref()).unwrap_or(true),
            byok: true,
        })
    }

    /// Where a provider is and how it speaks. The name of the model is part of some routes.
    pub(super) fn endpoint_of(
        &self,
        provider: &ProviderConfig,
        settings: &Settings,
        model: Option<&str>,
    ) -> Result<(Endpoint, Wire), ModelError> {
        if provider.base_url.trim().is_empty() {
            return Err(refused(
                provider,
                "A provider needs a `baseUrl`, such as https://api.openai.com/v1.",
            ));
        }
        let mut endpoint = self.endpoint(&route(provider, model), auth(provider), settings)?;
        endpoint.headers.extend(provider.headers.clone().unwrap_or_default());
        let wire = wire(provider);
        let endpoint = if wire == Wire::Messages { messages::versioned(endpoint) } else { endpoint };
        Ok((endpoint, wire))
    }
}

fn refused(provider: &ProviderConfig, why: &str) -> ModelError {
    ModelError::new(ErrorKind::BadRequest, &provider.base_url, why)
}

/// The model's name for its provider: what the provider or the registry says it is called there, else what the
/// session calls it.
fn wire_name<'a>(
    provider: &'a ProviderConfig,
    entry: Option<&'a ProviderModel>,
    wanted: Option<&'a str>,
) -> Result<&'a str, ModelError> {
    let of_entry = entry.map(|entry| {
        let named = entry.wire_model.as_deref().or(entry.model_id.as_deref());
        named.unwrap_or(entry.id.as_str())
    });
    let of_provider = provider.wire_model.as_deref().or(provider.model_id.as_deref());
    of_entry.or(of_provider).or(wanted).ok_or_else(|| {
        refused(provider, "The session's provider needs a model: set `model`, or `modelId` of the provider.")
    })
}

fn wire(provider: &ProviderConfig) -> Wire {
    let carrier = match provider.transport.unwrap_or_default() {
        ProviderTransport::Http => Carrier::Http,
        ProviderTransport::WebSockets => Carrier::WebSocket,
    };
    match (provider.kind.unwrap_or_default(), provider.wire_api.unwrap_or_default()) {
        (ProviderKind::Anthropic, _) => Wire::Messages,
        (_, WireApi::Responses) => Wire::Responses(carrier),
        (ProviderKind::Azure, WireApi::Completions) => Wire::Chat(Dialect::OpenAi),
        (_, WireApi::Completions) if provider.base_url.contains("api.openai.com") => {
            Wire::Chat(Dialect::OpenAi)
        }
        (_, WireApi::Completions) => Wire::Chat(Dialect::Compatible),
    }
}

/// The address below which the wire's path is.
fn route(provider: &ProviderConfig, model: Option<&str>) -> String {
    let base = provider.base_url.trim().trim_end_matches('/');
    let version = provider.azure.as_ref().and_then(|azure| azure.api_version.as_deref());
    match provider.kind.unwrap_or_default() {
        // The base address of this API is given with and without its version.
        ProviderKind::Anthropic if base.ends_with("/v1") || base.ends_with("/messages") => base.to_owned(),
        ProviderKind::Anthropic => format!("{base}/v1"),
        ProviderKind::Azure => azure_route(base, version, provider.wire_api.unwrap_or_default(), model),
        ProviderKind::OpenAi | ProviderKind::Replay => base.to_owned(),
    }
}

/// Azure has two sorts of routes: the newer without a version, the older with one, where chat completions name the
/// deployment in the path. A base address may already contain a route, as it is copied from the portal.
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
    fn every_kind_has_its_route() {
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
    fn every_kind_has_its_key() {
        let keyed = |kind| ProviderConfig { api_key: Some("k".into()), ..provider(kind, "https://x") };
        assert_eq!(auth(&keyed(ProviderKind::OpenAi)), Auth::bearer("k"));
        assert_eq!(auth(&keyed(ProviderKind::Azure)), Auth::api_key("k"));
        assert_eq!(auth(&keyed(ProviderKind::Anthropic)), Auth::x_api_key("k"));
        let token = ProviderConfig { bearer_token: Some("t".into()), ..keyed(ProviderKind::Anthropic) };
        assert_eq!(auth(&token), Auth::bearer("t"));
    }

    #[test]
    fn every_kind_has_its_wire() {
        let api = |kind, wire_api| ProviderConfig { wire_api, ..provider(kind, "https://x") };
        assert_eq!(wire(&api(ProviderKind::OpenAi, None)), Wire::Chat(Dialect::Compatible));
        assert_eq!(
            wire(&provider(ProviderKind::OpenAi, "https://api.openai.com/v1")),
            Wire::Chat(Dialect::OpenAi)
        );
        assert_eq!(wire(&api(ProviderKind::Azure, Some(WireApi::Responses))), Wire::Responses(Carrier::Http));
        assert_eq!(wire(&api(ProviderKind::Anthropic, Some(WireApi::Responses))), Wire::Messages);
    }
}
