//! The model endpoint: which API is used, with which key, and why.

use std::collections::BTreeMap;

use baton_client::discovery::{PublishedEndpoint, RunningServer};
use baton_protocol::provider::{AzureConfig, ProviderConfig, ProviderKind, ProviderTransport, WireApi};
use baton_providers::ServerEndpoint;
use serde::Deserialize;

use super::{Environment, Sourced};
use crate::args::ModelArgs;

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// The `[model]` table of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ModelTable {
    pub(super) name: Option<String>,
    /// `openai` (or a compatible API), `azure` or `anthropic`.
    provider: Option<ProviderKind>,
    /// `completions` or `responses`.
    wire_api: Option<WireApi>,
    /// `http` or `websockets`.
    transport: Option<ProviderTransport>,
    base_url: Option<String>,
    /// API version in Azure's older routes.
    api_version: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    max_prompt_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    /// Name of the variable that holds the key. Keys themselves do not belong into files that people share.
    api_key_env: Option<String>,
}

impl ModelTable {
    /// Whether the table sets more than the model's name.
    fn configures_endpoint(&self) -> bool {
        let Self {
            name: _,
            provider,
            wire_api,
            transport,
            base_url,
            api_version,
            headers,
            max_prompt_tokens,
            max_output_tokens,
            api_key_env,
        } = self;
        let texts = [base_url, api_version, api_key_env].into_iter().any(Option::is_some);
        let limits = [max_prompt_tokens, max_output_tokens].into_iter().any(Option::is_some);
        texts
            || limits
            || provider.is_some()
            || wire_api.is_some()
            || transport.is_some()
            || headers.is_some()
    }

    fn provider_config(&self, environment: &Environment) -> ProviderConfig {
        let kind = self.provider.unwrap_or_default();
        let (default_url, default_key) = match kind {
            ProviderKind::Anthropic => (ANTHROPIC, "ANTHROPIC_API_KEY"),
            ProviderKind::OpenAi | ProviderKind::Azure | ProviderKind::Replay => (OPENAI, "OPENAI_API_KEY"),
        };
        // The default key belongs to the default address: no other server may see it.
        let key = self.api_key_env.as_deref().or(self.base_url.is_none().then_some(default_key));
        let key = key.and_then(|name| environment.get(name));
        ProviderConfig {
            wire_api: self.wire_api,
            transport: self.transport,
            headers: self.headers.clone(),
            max_prompt_tokens: self.max_prompt_tokens,
            max_output_tokens: self.max_output_tokens,
            azure: self.api_version.clone().map(|version| AzureConfig { api_version: Some(version) }),
            ..provider(kind, self.base_url.as_deref().unwrap_or(default_url), key)
        }
    }
}

/// Chooses the endpoint: by flags, else by variables that name an address, else by the file, else by a key, else the demo
/// model. A key alone comes after the file, which may name the variable that holds the key.
pub(super) fn endpoint(
    flags: &ModelArgs,
    token_variable: Option<&str>,
    environment: &Environment,
    file: &ModelTable,
    file_source: &str,
) -> Sourced<ServerEndpoint> {
    let openai_key = environment.get("OPENAI_API_KEY");
    let name = flags
        .model
        .clone()
        .or_else(|| environment.get("OPENAI_MODEL").map(str::to_owned))
        .or(file.name.clone());
    let sourced = |provider: ProviderConfig, source: &str| Sourced {
        value: ServerEndpoint::Provider { provider: Box::new(provider), model: name.clone() },
        source: source.to_owned(),
    };
    if flags.demo {
        return Sourced { value: ServerEndpoint::Demo, source: "flag".into() };
    }
    if let Some(file) = environment.get("BATON_REPLAY") {
        return sourced(provider(ProviderKind::Replay, file, None), "$BATON_REPLAY");
    }
    if let Some(url) = &flags.base_url {
        return sourced(provider(ProviderKind::OpenAi, url, openai_key), "flag");
    }
    if let Some(url) = environment.get("COPILOT_API_URL") {
        let variables =
            [token_variable.unwrap_or_default(), "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
        let token = environment.first(&variables).map(|(_, token)| token);
        return Sourced {
            value: ServerEndpoint::Copilot { url: url.to_owned(), token },
            source: "$COPILOT_API_URL".into(),
        };
    }
    if let Some(url) = environment.get("OPENAI_BASE_URL") {
        return sourced(provider(ProviderKind::OpenAi, url, openai_key), "$OPENAI_BASE_URL");
    }
    if file.configures_endpoint() {
        return sourced(file.provider_config(environment), file_source);
    }
    if openai_key.is_some() {
        return sourced(provider(ProviderKind::OpenAi, OPENAI, openai_key), "$OPENAI_API_KEY");
    }
    if let Some(key) = environment.get("ANTHROPIC_API_KEY") {
        let url = environment.get("ANTHROPIC_BASE_URL").unwrap_or(ANTHROPIC);
        return sourced(provider(ProviderKind::Anthropic, url, Some(key)), "$ANTHROPIC_API_KEY");
    }
    Sourced { value: ServerEndpoint::Demo, source: "default".into() }
}

/// Returns further variables that hold keys and tokens for models, besides those that Baton always reads. GitHub's own
/// tokens are read only for a Copilot-style API; otherwise they belong to the user, who may pass them on to commands.
pub(super) fn key_variables(
    token_variable: Option<&str>,
    environment: &Environment,
    file: &ModelTable,
) -> Vec<String> {
    let of_github = environment.get("COPILOT_API_URL").map(|_| ["GH_TOKEN", "GITHUB_TOKEN"]);
    let named = [token_variable, file.api_key_env.as_deref()];
    named.into_iter().flatten().chain(of_github.into_iter().flatten()).map(str::to_owned).collect()
}

fn provider(kind: ProviderKind, url: &str, key: Option<&str>) -> ProviderConfig {
    ProviderConfig {
        kind: Some(kind),
        base_url: url.to_owned(),
        api_key: key.map(str::to_owned),
        ..ProviderConfig::default()
    }
}

/// A salted digest of an endpoint with its key, by which two processes find out whether they use the same one.
fn fingerprint(endpoint: &ServerEndpoint, salt: &str) -> String {
    let text = match endpoint {
        ServerEndpoint::Demo => "demo".to_owned(),
        ServerEndpoint::Copilot { url, token } => {
            format!("copilot\n{url}\n{}", token.as_deref().unwrap_or_default())
        }
        // Serialised with its key; the model is a choice of the session.
        ServerEndpoint::Provider { provider, .. } => serde_json::to_string(provider).unwrap_or_default(),
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{salt}\n{text}").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the endpoint of sessions without their own, for other processes. The fingerprint is salted with the server's random
/// id: it reveals neither the key nor which servers share one.
pub(crate) fn published(server: &RunningServer, endpoint: &ServerEndpoint) -> PublishedEndpoint {
    PublishedEndpoint {
        description: describe(endpoint),
        fingerprint: fingerprint(endpoint, &server.owner.server),
    }
}

/// Describes an endpoint without its secrets.
pub(crate) fn describe(endpoint: &ServerEndpoint) -> String {
    match endpoint {
        ServerEndpoint::Copilot { url, token } => {
            let url = without_credentials(url);
            format!("{url} ({})", if token.is_some() { "with token" } else { "no token" })
        }
        ServerEndpoint::Provider { provider, .. } if provider.kind == Some(ProviderKind::Replay) => {
            format!("the recording {}", provider.base_url)
        }
        ServerEndpoint::Provider { provider, .. } => {
            let key = if provider.api_key.is_some() { "with key" } else { "no key" };
            format!("{} ({key})", without_credentials(&provider.base_url))
        }
        ServerEndpoint::Demo => "built-in demo model".into(),
    }
}

/// Removes user name and password from a URL.
pub(super) fn without_credentials(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (_, rest))) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::loaded;
    use super::*;

    #[test]
    fn endpoints_are_described_without_credentials() {
        for (url, shown) in [
            ("http://user:pass@host/v1", "http://host/v1"),
            ("http://host/v1", "http://host/v1"),
            ("https://u:p@h:8080", "https://h:8080"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn first_source_that_names_an_endpoint_wins() {
        let endpoint = |variables: &[(&str, &str)], file: &str| loaded(variables, file).unwrap().endpoint;
        assert!(matches!(endpoint(&[], "").value, ServerEndpoint::Demo));
        let copilot =
            endpoint(&[("COPILOT_API_URL", "http://c"), ("TOKEN", "t"), ("OPENAI_API_KEY", "k")], "");
        assert!(
            matches!(copilot.value, ServerEndpoint::Copilot { url, token: Some(_) } if url == "http://c")
        );
        let openai = endpoint(&[("OPENAI_API_KEY", "k"), ("OPENAI_MODEL", "m")], "[model]\nname = \"n\"");
        let provider = |endpoint: ServerEndpoint| match endpoint {
            ServerEndpoint::Provider { provider, model } => (*provider, model),
            other => panic!("{other:?}"),
        };
        let (openai, model) = provider(openai.value);
        assert_eq!((openai.base_url.as_str(), openai.api_key.as_deref()), (OPENAI, Some("k")));
        assert_eq!(model.as_deref(), Some("m"));
        let filed =
            endpoint(&[("MY_KEY", "k")], "[model]\nbase_url = \"http://f\"\napi_key_env = \"MY_KEY\"");
        let (filed, _) = provider(filed.value);
        assert_eq!((filed.base_url.as_str(), filed.api_key.as_deref()), ("http://f", Some("k")));
        let (anthropic, _) = provider(endpoint(&[("ANTHROPIC_API_KEY", "k")], "").value);
        assert_eq!((anthropic.kind, anthropic.base_url.as_str()), (Some(ProviderKind::Anthropic), ANTHROPIC));
    }

    #[test]
    fn default_key_is_not_sent_to_another_address() {
        let keyed = |file: &str| {
            let endpoint = loaded(&[("OPENAI_API_KEY", "k")], &format!("[model]\n{file}")).unwrap().endpoint;
            let ServerEndpoint::Provider { provider, .. } = endpoint.value else { panic!("{endpoint:?}") };
            (provider.base_url.clone(), provider.wire_api, provider.api_key)
        };
        let responses = Some(WireApi::Responses);
        assert_eq!(keyed("wire_api = \"responses\""), (OPENAI.into(), responses, Some("k".into())));
        assert_eq!(keyed("base_url = \"http://f\""), ("http://f".into(), None, None));
    }

    /// Returns the fenced blocks of a language in a page of the documentation.
    fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
        let fence = format!("```{language}\n");
        page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    }

    #[test]
    fn configurations_in_the_documentation_are_valid() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers");
        let mut seen = 0;
        for entry in std::fs::read_dir(pages).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap();
            for block in blocks(&page, "toml") {
                let config = loaded(&[], block).unwrap();
                let ServerEndpoint::Provider { provider, model } = config.endpoint.value else {
                    panic!("{block}")
                };
                assert!(provider.base_url.starts_with("http") && model.is_some(), "{block}");
                seen += 1;
            }
            for block in blocks(&page, "json") {
                let provider: serde_json::Value = baton_json::from_str(block).unwrap();
                let parsed: ProviderConfig = baton_json::from_value(&provider).unwrap();
                assert!(!parsed.base_url.is_empty() && parsed.model_id.is_some(), "{block}");
                seen += 1;
            }
        }
        assert!(seen >= 16, "every page has a configuration for the program and one for SDKs: {seen}");
    }
}
