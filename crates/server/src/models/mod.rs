//! Which model endpoint a session talks to, and what is known about its model.
//!
//! In order: a model of the providers that the session's client brought, else the one provider that it brought, else the
//! endpoint that the server was started with, else the built-in demo model.
//!
//! * `another`: the model to go on with when one may not be asked for a while.
//! * `brought`: endpoints that somebody brings, with their wires, routes and credentials.
//! * `list`: the models that clients are told of.
//! * `play`: recordings that are answered from, or made.
//! * `reveal`: what a client is told about the endpoint of its session.
//! * `token`: credentials that a client is asked for before every request.
//! * `tunnel`: a client that carries the requests itself.

mod another;
mod brought;
mod list;
mod play;
mod reveal;
mod token;
mod tunnel;

use std::sync::Arc;

use baton_model::catalog::{Catalog, ModelInfo};
use baton_model::chat::{ChatModel, Dialect};
use baton_model::demo::DemoModel;
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::{HttpClient, Transport};
use baton_model::messages::MessagesModel;
use baton_model::responses::ResponsesModel;
use baton_model::retry::Retries;
use baton_model::{Carrier, ErrorKind, Model, ModelError};
use baton_protocol::provider::{ProviderConfig, ProviderKind, ProviderModel};
use baton_protocol::{AgentId, Json, SessionId};
use serde_json::Value;

pub(crate) use self::list::{brought_entry, with_brought};
use self::play::Tapes;
pub(crate) use self::tunnel::{Piece, Tunnel};
use crate::options::{self, Options};
use crate::session::{Hub, Settings};

/// The context that a model is taken to have when nobody says.
const DEFAULT_WINDOW: u64 = 128_000;

/// Asked for when neither the session nor the endpoint names a model.
const FALLBACK_MODEL: &str = "gpt-4.1";

/// The demo model's name.
pub(crate) const DEMO: &str = "baton-demo";

/// Where a client that carries requests itself is sent them, when nothing else is configured.
const COPILOT: &str = "https://api.githubcopilot.com";

/// How we introduce ourselves there, and the version of its API that we speak.
const INTEGRATION: &str = "baton";
const API_VERSION: &str = "2026-08-01";

/// The server's way to models.
pub(crate) struct Models {
    network: Arc<HttpClient>,
    catalog: Catalog,
    default: options::Endpoint,
    version: String,
    tapes: Tapes,
    pub(crate) tunnel: Arc<Tunnel>,
    pub(crate) retries: Retries,
}

/// Who asks, and for what.
pub(crate) struct Asker<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) settings: &'a Settings,
    pub(crate) hub: &'a Arc<Hub>,
    /// The sub-agent that asks; none for the main conversation.
    pub(crate) agent: Option<&'a AgentId>,
    /// The model that the session has chosen.
    pub(crate) model: Option<&'a str>,
}

/// What a model is asked for, in the words that clients know.
pub(crate) fn interaction_type(of_agent: bool) -> &'static str {
    if of_agent { "conversation-subagent" } else { "conversation-agent" }
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

/// An API that an endpoint speaks, with its accent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Chat(Dialect),
    Responses(Carrier),
    Messages,
}

impl Wire {
    fn model(self, endpoint: Endpoint, transport: Arc<dyn Transport>) -> Arc<dyn Model> {
        match self {
            Self::Chat(dialect) => Arc::new(ChatModel::new(endpoint, dialect, transport)),
            Self::Responses(carrier) => Arc::new(ResponsesModel::new(endpoint, carrier, transport)),
            Self::Messages => Arc::new(MessagesModel::new(endpoint, transport)),
        }
    }
}

impl Models {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            network: Arc::new(HttpClient::new()),
            catalog: Catalog::default(),
            default: options.endpoint.clone(),
            version: options.version.clone(),
            tapes: Tapes::new(options),
            tunnel: Arc::default(),
            retries: Retries::default(),
        }
    }

    /// The way to the network, for others who need it.
    pub(crate) fn network(&self) -> Arc<HttpClient> {
        self.network.clone()
    }

    /// The way to models: through a client that carries requests itself, if there is one.
    fn transport(&self, asker: Option<&Asker<'_>>) -> Arc<dyn Transport> {
        match self.tunnel.transport(asker) {
            Some(tunnel) => tunnel,
            None => self.network.clone(),
        }
    }

    /// The endpoint that is asked when the client brought none.
    fn default(&self) -> options::Endpoint {
        match &self.default {
            // Nobody carries requests to a model that needs none.
            options::Endpoint::Demo if self.tunnel.is_open() => {
                options::Endpoint::Copilot { url: COPILOT.to_owned(), token: None }
            }
            other => other.clone(),
        }
    }

    /// The model that a session's next question goes to.
    pub(crate) async fn choose(&self, asker: &Asker<'_>) -> Result<Chosen, ModelError> {
        let chosen = self.find(asker).await?;
        let settings = asker.settings;
        self.tapes.recorded(chosen, settings.provider.iter().chain(&settings.providers)).await
    }

    async fn find(&self, asker: &Asker<'_>) -> Result<Chosen, ModelError> {
        if let Some((provider, model)) = registered(asker.settings, asker.model)? {
            return self.brought(asker, provider, Some(model)).await;
        }
        if let Some(provider) = &asker.settings.provider {
            return self.brought(asker, provider, None).await;
        }
        match self.default() {
            options::Endpoint::Demo => Ok(Chosen {
                model: Arc::new(DemoModel::default()),
                wire_name: asker.model.unwrap_or(DEMO).to_owned(),
                token_limit: DEFAULT_WINDOW,
                max_output_tokens: None,
                vision: false,
                byok: false,
            }),
            options::Endpoint::Copilot { url, token } => {
                let endpoint = self.copilot(&url, token.as_deref(), asker)?;
                self.catalogued(endpoint, Wire::Chat(Dialect::Copilot), asker, None).await
            }
            options::Endpoint::Provider { provider, .. } if provider.kind == Some(ProviderKind::Replay) => {
                self.brought(asker, &provider, None).await
            }
            options::Endpoint::Provider { provider, model } => {
                let (endpoint, wire) =
                    self.endpoint_of(&provider, asker.settings, asker.model.or(model.as_deref()))?;
                self.catalogued(endpoint, wire, asker, model.as_deref()).await
            }
        }
    }

    /// A model at one of our own endpoints, with what its list says about it. An endpoint without a list is fine.
    async fn catalogued(
        &self,
        endpoint: Endpoint,
        wire: Wire,
        asker: &Asker<'_>,
        configured: Option<&str>,
    ) -> Result<Chosen, ModelError> {
        let transport = self.transport(Some(asker));
        // The list is everybody's, so nobody's session is named when it is asked for.
        let known = match self.catalog.models(&*self.transport(None), &endpoint).await {
            Ok(models) => models,
            Err(error) => {
                tracing::debug!(%error, "the endpoint has no list of models");
                Arc::from([])
            }
        };
        let name = asker.model.or(configured).map(str::to_owned);
        let name =
            name.or_else(|| Some(known.first()?.id.clone())).unwrap_or_else(|| FALLBACK_MODEL.to_owned());
        let info = known.iter().find(|info| info.id == name);
        let sockets = asker.settings.sockets.unwrap_or(true);
        let wire = info.map_or(wire, |info| offered_wire(info, wire, sockets));
        let vision = overridden_vision(asker.settings.model_capabilities.as_ref());
        Ok(Chosen {
            model: wire.model(endpoint, transport),
            wire_name: name,
            token_limit: info.and_then(limit_of).unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: None,
            vision: vision.or_else(|| info.and_then(|i| i.vision)).unwrap_or(true),
            byok: false,
        })
    }

    fn copilot(&self, url: &str, token: Option<&str>, asker: &Asker<'_>) -> Result<Endpoint, ModelError> {
        let token = asker.settings.github_token.as_deref().or(token);
        let mut endpoint = self.endpoint(url, token.map_or(Auth::None, Auth::bearer), asker.settings)?;
        let own = [
            ("Copilot-Integration-Id", INTEGRATION),
            ("X-GitHub-Api-Version", API_VERSION),
            ("X-Interaction-Id", asker.session.as_str()),
        ];
        endpoint.headers.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(endpoint)
    }

    fn endpoint(&self, url: &str, auth: Auth, settings: &Settings) -> Result<Endpoint, ModelError> {
        let bad = |error| {
            let why = format!("{url:?} is not the address of a model: {error}");
            ModelError::new(ErrorKind::BadRequest, url, why)
        };
        let mut endpoint = Endpoint::new(url).map_err(bad)?.with_auth(auth);
        let client = settings.client_name.as_deref().unwrap_or("sdk");
        endpoint.user_agent = format!("baton/{} (GitHub Copilot SDK; {client})", self.version);
        Ok(endpoint)
    }
}

/// The model of a session's registry that is wanted; the first one, if the session has nothing else and wants nothing
/// in particular.
fn registered<'a>(
    settings: &'a Settings,
    wanted: Option<&str>,
) -> Result<Option<(&'a ProviderConfig, &'a ProviderModel)>, ModelError> {
    let model = match wanted {
        Some(wanted) => settings.models.iter().find(|model| model.selection() == wanted),
        None if settings.provider.is_none() => settings.models.first(),
        None => None,
    };
    let Some(model) = model else { return Ok(None) };
    let provider = settings.providers.iter().find(|p| p.name.as_deref() == Some(model.provider.as_str()));
    match provider {
        Some(provider) => Ok(Some((provider, model))),
        None => Err(ModelError::new(
            ErrorKind::BadRequest,
            &model.provider,
            format!(
                "The model {:?} belongs to a provider that the session does not have: add {:?} to `providers`.",
                model.selection(),
                model.provider
            ),
        )),
    }
}

/// The wire that a model is to be asked over, where its entry in the list says so.
fn offered_wire(info: &ModelInfo, usual: Wire, sockets: bool) -> Wire {
    let offers = |path: &str| info.supported_endpoints.iter().any(|endpoint| endpoint == path);
    match usual {
        Wire::Chat(_) if info.supported_endpoints.is_empty() || offers("/chat/completions") => usual,
        Wire::Chat(_) if sockets && offers("ws:/responses") => Wire::Responses(Carrier::WebSocket),
        Wire::Chat(_) if offers("/responses") || offers("ws:/responses") => Wire::Responses(Carrier::Http),
        Wire::Chat(_) if offers("/v1/messages") => Wire::Messages,
        usual => usual,
    }
}

fn limit_of(info: &ModelInfo) -> Option<u64> {
    info.max_prompt_tokens.or(info.context_window)
}

/// Whether the client says that the model sees images, whatever the endpoint's list says.
fn overridden_vision(capabilities: Option<&Json>) -> Option<bool> {
    let overrides: Value = capabilities.and_then(|json: &Json| json.parse().ok())?;
    overrides.pointer("/supports/vision")?.as_bool()
}
