//! Which model endpoint a session talks to, and what is known about its model.
//!
//! In order: the provider that the session's client brings, else the endpoint that the server was started with, else
//! the built-in demo model.

use std::sync::Arc;

use baton_model::catalog::{Catalog, ModelInfo};
use baton_model::chat::{ChatModel, Dialect};
use baton_model::demo::DemoModel;
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::HttpClient;
use baton_model::retry::Retries;
use baton_model::{ErrorKind, Model, ModelError};
use baton_protocol::Json;
use baton_protocol::params::ProviderConfig;
use serde_json::Value;

use crate::options::{self, Options};
use crate::session::Settings;

/// The context that a model is taken to have when nobody says.
const DEFAULT_WINDOW: u64 = 128_000;

/// Asked for when neither the session nor the endpoint names a model.
const FALLBACK_MODEL: &str = "gpt-4.1";

/// The demo model's name.
pub(crate) const DEMO: &str = "baton-demo";

/// The server's way to models.
pub(crate) struct Models {
    transport: Arc<HttpClient>,
    catalog: Catalog,
    default: options::Endpoint,
    version: String,
    pub(crate) retries: Retries,
}

/// A model, ready to be asked.
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    /// Its name on the wire.
    pub(crate) wire_name: String,
    /// How many tokens a prompt may have.
    pub(crate) token_limit: u64,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) vision: bool,
    /// Whether the client brought the endpoint.
    pub(crate) byok: bool,
}

impl Models {
    pub(crate) fn new(options: &Options) -> Self {
        let transport = Arc::new(HttpClient::new());
        Self {
            catalog: Catalog::new(transport.clone()),
            transport,
            default: options.endpoint.clone(),
            version: options.version.clone(),
            retries: Retries::default(),
        }
    }

    /// The way to the network, for others who need it.
    pub(crate) fn transport(&self) -> Arc<HttpClient> {
        self.transport.clone()
    }

    /// The model that a session's next question goes to.
    pub(crate) async fn choose(
        &self,
        settings: &Settings,
        wanted: Option<&str>,
    ) -> Result<Chosen, ModelError> {
        if let Some(provider) = &settings.provider {
            return self.brought(provider, settings, wanted);
        }
        match &self.default {
            options::Endpoint::Demo => Ok(Chosen {
                model: Arc::new(DemoModel::default()),
                wire_name: wanted.unwrap_or(DEMO).to_owned(),
                token_limit: DEFAULT_WINDOW,
                max_output_tokens: None,
                vision: false,
                byok: false,
            }),
            options::Endpoint::Copilot { url, token } => {
                let token = settings.github_token.as_ref().or(token.as_ref());
                let auth = token.map_or(Auth::None, |token| Auth::bearer(token));
                let endpoint = self.endpoint(url, auth, settings)?;
                self.catalogued(endpoint, Dialect::Copilot, settings, wanted, None).await
            }
            options::Endpoint::OpenAi { url, key, model } => {
                let auth = key.as_ref().map_or(Auth::None, |key| Auth::bearer(key));
                let endpoint = self.endpoint(url, auth, settings)?;
                let dialect =
                    if url.contains("api.openai.com") { Dialect::OpenAi } else { Dialect::Compatible };
                self.catalogued(endpoint, dialect, settings, wanted, model.as_deref()).await
            }
        }
    }

    /// A model at one of our own endpoints, with what its list says about it. An endpoint without a list is fine.
    async fn catalogued(
        &self,
        endpoint: Endpoint,
        dialect: Dialect,
        settings: &Settings,
        wanted: Option<&str>,
        configured: Option<&str>,
    ) -> Result<Chosen, ModelError> {
        let known = match self.catalog.models(&endpoint).await {
            Ok(models) => models,
            Err(error) => {
                tracing::debug!(%error, "the endpoint has no list of models");
                Arc::from([])
            }
        };
        let name = wanted.or(configured).map(str::to_owned);
        let name =
            name.or_else(|| Some(known.first()?.id.clone())).unwrap_or_else(|| FALLBACK_MODEL.to_owned());
        let info = known.iter().find(|info| info.id == name);
        let model = Arc::new(ChatModel::new(endpoint, dialect, self.transport.clone()));
        Ok(Chosen {
            model,
            wire_name: name,
            token_limit: info.and_then(limit_of).unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: None,
            vision: overridden_vision(settings).or_else(|| info.and_then(|i| i.vision)).unwrap_or(true),
            byok: false,
        })
    }

    /// A model at an endpoint that the client brought.
    fn brought(
        &self,
        provider: &ProviderConfig,
        settings: &Settings,
        wanted: Option<&str>,
    ) -> Result<Chosen, ModelError> {
        let refuse = |why: String| ModelError::new(ErrorKind::BadRequest, &provider.base_url, why);
        let name = provider.wire_model.as_deref().or(provider.model_id.as_deref()).or(wanted);
        let Some(name) = name else {
            return Err(refuse(
                "The session's provider needs a model: set `model`, or `modelId` of the provider.".into(),
            ));
        };
        if provider.wire_api.as_deref() == Some("responses") {
            return Err(refuse(
                "This version of Baton does not speak the Responses API yet; use `wireApi: \"completions\"`."
                    .into(),
            ));
        }
        let (url, auth, dialect) = match provider.kind.as_deref() {
            None | Some("openai") => {
                let key = provider.bearer_token.as_ref().or(provider.api_key.as_ref());
                let openai = provider.base_url.contains("api.openai.com");
                let dialect = if openai { Dialect::OpenAi } else { Dialect::Compatible };
                (provider.base_url.clone(), key.map_or(Auth::None, |key| Auth::bearer(key)), dialect)
            }
            Some("azure") => (azure_url(provider, name), azure_auth(provider), Dialect::OpenAi),
            Some(other) => {
                return Err(refuse(format!(
                    "This version of Baton has no provider of the type {other:?} yet."
                )));
            }
        };
        let mut endpoint = self.endpoint(&url, auth, settings)?;
        endpoint.headers.extend(provider.headers.clone());
        Ok(Chosen {
            model: Arc::new(ChatModel::new(endpoint, dialect, self.transport.clone())),
            wire_name: name.to_owned(),
            token_limit: provider.max_prompt_tokens.unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: provider.max_output_tokens,
            vision: overridden_vision(settings).unwrap_or(true),
            byok: true,
        })
    }

    fn endpoint(&self, url: &str, auth: Auth, settings: &Settings) -> Result<Endpoint, ModelError> {
        let bad = |error| {
            ModelError::new(
                ErrorKind::BadRequest,
                url,
                format!("{url:?} is not the address of a model: {error}"),
            )
        };
        let mut endpoint = Endpoint::new(url).map_err(bad)?.with_auth(auth);
        let client = settings.client_name.as_deref().unwrap_or("sdk");
        endpoint.user_agent = format!("baton/{} (GitHub Copilot SDK; {client})", self.version);
        Ok(endpoint)
    }

    /// The models that can be chosen from, as clients are told.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let (url, auth) = match &self.default {
            options::Endpoint::Demo => return Ok(vec![demo_entry()]),
            options::Endpoint::Copilot { url, token } => {
                (url, token.as_ref().map_or(Auth::None, |t| Auth::bearer(t)))
            }
            options::Endpoint::OpenAi { url, key, .. } => {
                (url, key.as_ref().map_or(Auth::None, |k| Auth::bearer(k)))
            }
        };
        let endpoint = self.endpoint(url, auth, &Settings::default())?;
        Ok(self.catalog.models(&endpoint).await?.iter().map(entry).collect())
    }
}

fn limit_of(info: &ModelInfo) -> Option<u64> {
    info.max_prompt_tokens.or(info.context_window)
}

/// Whether the client says that the model sees images, whatever the endpoint's list says.
fn overridden_vision(settings: &Settings) -> Option<bool> {
    let overrides: Value = settings.model_capabilities.as_ref().and_then(|json: &Json| json.parse().ok())?;
    overrides.pointer("/supports/vision")?.as_bool()
}

fn azure_url(provider: &ProviderConfig, model: &str) -> String {
    let base = provider.base_url.trim_end_matches('/');
    match provider.azure.as_ref().and_then(|azure| azure.api_version.as_deref()) {
        Some(version) => format!("{base}/openai/deployments/{model}/chat/completions?api-version={version}"),
        None => format!("{base}/openai/v1"),
    }
}

fn azure_auth(provider: &ProviderConfig) -> Auth {
    match (&provider.api_key, &provider.bearer_token) {
        (_, Some(token)) => Auth::bearer(token),
        (Some(key), None) => Auth::api_key(key),
        (None, None) => Auth::None,
    }
}

/// A model of the endpoint's list, as clients are told.
fn entry(info: &ModelInfo) -> Value {
    let window = info.context_window.or(info.max_prompt_tokens).unwrap_or(DEFAULT_WINDOW);
    let mut limits = serde_json::json!({ "max_context_window_tokens": window });
    if let Some(tokens) = info.max_prompt_tokens {
        limits["max_prompt_tokens"] = tokens.into();
    }
    if let Some(tokens) = info.max_output_tokens {
        limits["max_output_tokens"] = tokens.into();
    }
    let supports = serde_json::json!({
        "vision": info.vision.unwrap_or(false),
        "reasoningEffort": !info.reasoning_efforts.is_empty(),
    });
    let mut entry = serde_json::json!({
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
    serde_json::json!({
        "id": DEMO,
        "name": "Baton demo model (no AI)",
        "capabilities": {
            "supports": { "vision": false, "reasoningEffort": false },
            "limits": { "max_context_window_tokens": DEFAULT_WINDOW },
        },
    })
}
