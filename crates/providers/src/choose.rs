//! The choice of a model for a call.
//!
//! The first of these that a session has: a model of its provider registry, its single provider, the endpoint that the
//! server was started with, the built-in demo model.

use std::path::PathBuf;
use std::sync::Arc;

use baton_model::catalog::{Catalog, ModelInfo};
use baton_model::chat::{ChatModel, ChatVariant};
use baton_model::demo::DemoModel;
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::{HttpClient, Transport};
use baton_model::messages::MessagesModel;
use baton_model::responses::ResponsesModel;
use baton_model::retry::Retries;
use baton_model::{Carrier, ErrorKind, Model, ModelError};
use baton_protocol::provider::{ProviderConfig, ProviderKind, ProviderModel};
use baton_protocol::{Json, SessionId};
use serde_json::Value;

use crate::recordings::Recordings;
use crate::{
    ChosenModel, DEFAULT_MODEL, DEFAULT_WINDOW, DEMO, ModelCaller, ServerEndpoint, SessionProviders, Tunnel,
};

/// Endpoint for requests through a tunnel, when none is configured.
const COPILOT: &str = "https://api.githubcopilot.com";

/// Integration id for that endpoint.
const INTEGRATION: &str = "baton";
/// Version of its API.
const API_VERSION: &str = "2026-08-01";

/// Models of the server: endpoints, catalogue, recordings and transport.
pub struct Models {
    network: Arc<HttpClient>,
    catalog: Catalog,
    default: ServerEndpoint,
    version: String,
    pub(super) recordings: Recordings,
    /// Client that transports model requests itself, if there is one.
    pub tunnel: Arc<Tunnel>,
    /// Schedule of retries.
    pub retries: Retries,
}

/// Wire format of an endpoint, with its variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Chat(ChatVariant),
    Responses(Carrier),
    Messages,
}

impl Wire {
    pub(super) fn model(self, endpoint: Endpoint, transport: Arc<dyn Transport>) -> Arc<dyn Model> {
        match self {
            Self::Chat(dialect) => Arc::new(ChatModel::new(endpoint, dialect, transport)),
            Self::Responses(carrier) => Arc::new(ResponsesModel::new(endpoint, carrier, transport)),
            Self::Messages => Arc::new(MessagesModel::new(endpoint, transport)),
        }
    }
}

impl Models {
    /// Creates the models of a server with this endpoint and version. Model calls are recorded to `record_to`.
    #[must_use]
    pub fn new(endpoint: ServerEndpoint, version: &str, record_to: Option<PathBuf>) -> Self {
        Self {
            network: Arc::new(HttpClient::new()),
            catalog: Catalog::default(),
            recordings: Recordings::new(&endpoint, record_to),
            default: endpoint,
            version: version.to_owned(),
            tunnel: Arc::default(),
            retries: Retries::default(),
        }
    }

    /// Returns the HTTP client of the server.
    pub fn network(&self) -> Arc<HttpClient> {
        self.network.clone()
    }

    /// Returns the transport of a conversation to its model: the tunnel, if a client offers one, otherwise the network.
    pub(super) fn transport(&self, caller: &ModelCaller<'_>) -> Arc<dyn Transport> {
        match self.tunnel.transport(caller) {
            Some(tunnel) => tunnel,
            None => self.network.clone(),
        }
    }

    /// Lists the models of an endpoint, for a session if one is given. The list is shared by all sessions, so its request
    /// names none; a list that came through another server is for the sessions that it carries. An outdated list is fetched
    /// again with `renew`.
    pub(super) async fn listed(
        &self,
        session: Option<&SessionId>,
        endpoint: &Endpoint,
        renew: bool,
    ) -> Result<Arc<[ModelInfo]>, ModelError> {
        let transport = match self.tunnel.anonymous_transport(session) {
            Some(tunnel) => tunnel,
            None => self.network.clone(),
        };
        let carried = session.and_then(|session| self.tunnel.catalog(session));
        let catalog = carried.as_deref().unwrap_or(&self.catalog);
        match renew {
            true => catalog.renewed(&*transport, endpoint).await,
            false => catalog.models(&*transport, endpoint).await,
        }
    }

    /// Returns the endpoint of sessions without a provider, or of one of them.
    pub(super) fn default(&self, session: Option<&SessionId>) -> ServerEndpoint {
        match &self.default {
            // A client that opens a tunnel expects model requests; the demo model sends none.
            ServerEndpoint::Demo if self.tunnel.is_open(session) => {
                ServerEndpoint::Copilot { url: COPILOT.to_owned(), token: None }
            }
            other => other.clone(),
        }
    }

    /// Chooses the model of the next call.
    ///
    /// # Errors
    /// When the session names a provider that cannot be used; the message says why and what to do.
    pub async fn choose(&self, caller: &ModelCaller<'_>) -> Result<ChosenModel, ModelError> {
        let chosen = self.find(caller).await?;
        let settings = caller.settings;
        self.recordings.record(chosen, settings.provider.into_iter().chain(settings.providers)).await
    }

    async fn find(&self, caller: &ModelCaller<'_>) -> Result<ChosenModel, ModelError> {
        if caller.settings.carried && !self.tunnel.is_open(Some(caller.session)) {
            let why = "The client that carries the model requests of this session has disconnected; \
                       resume the session with a client that carries them.";
            return Err(ModelError::new(ErrorKind::BadRequest, "", why.to_owned()));
        }
        if let Some((provider, model)) = registered(&caller.settings, caller.model)? {
            return self.provider_model(caller, provider, Some(model)).await;
        }
        if let Some(provider) = caller.settings.provider {
            return self.provider_model(caller, provider, None).await;
        }
        if caller.settings.provider_lost {
            let why = format!(
                "The provider of this session was lost when the server restarted, because credentials are never stored; \
                 set it again: PATCH /api/sessions/{} with `provider`.",
                caller.session
            );
            return Err(ModelError::new(ErrorKind::BadRequest, "", why));
        }
        match self.default(Some(caller.session)) {
            ServerEndpoint::Demo => Ok(ChosenModel {
                model: Arc::new(DemoModel::default()),
                wire_name: caller.model.unwrap_or(DEMO).to_owned(),
                token_limit: DEFAULT_WINDOW,
                max_output_tokens: None,
                vision: false,
                byok: false,
            }),
            ServerEndpoint::Copilot { url, token } => {
                let endpoint = self.copilot(&url, token.as_deref(), caller)?;
                self.listed_model(endpoint, Wire::Chat(ChatVariant::Copilot), caller, None).await
            }
            ServerEndpoint::Provider { provider, .. } if provider.kind == Some(ProviderKind::Replay) => {
                self.provider_model(caller, &provider, None).await
            }
            ServerEndpoint::Provider { provider, model } => {
                let (endpoint, wire) =
                    self.endpoint_of(&provider, &caller.settings, caller.model.or(model.as_deref()))?;
                self.listed_model(endpoint, wire, caller, model.as_deref()).await
            }
        }
    }

    /// Returns a model of the server's endpoint, with the properties that the endpoint lists for it. An endpoint need not
    /// list its models.
    async fn listed_model(
        &self,
        endpoint: Endpoint,
        wire: Wire,
        caller: &ModelCaller<'_>,
        configured: Option<&str>,
    ) -> Result<ChosenModel, ModelError> {
        let transport = self.transport(caller);
        let known = match self.listed(Some(caller.session), &endpoint, false).await {
            Ok(models) => models,
            Err(error) => {
                tracing::debug!(%error, "the endpoint does not list its models");
                Arc::from([])
            }
        };
        let name = caller.model.or(configured).map(str::to_owned);
        let name =
            name.or_else(|| Some(known.first()?.id.clone())).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        let info = known.iter().find(|info| info.id == name);
        let sockets = caller.settings.sockets.unwrap_or(true);
        let wire = info.map_or(wire, |info| listed_wire(info, wire, sockets));
        let vision = overridden_vision(caller.settings.model_capabilities);
        Ok(ChosenModel {
            model: wire.model(endpoint, transport),
            wire_name: name,
            token_limit: info.and_then(limit_of).unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: None,
            vision: vision.or_else(|| info.and_then(|i| i.vision)).unwrap_or(true),
            byok: false,
        })
    }

    /// Returns the Copilot endpoint for a conversation. The session's token takes precedence over the server's.
    pub(super) fn copilot(
        &self,
        url: &str,
        token: Option<&str>,
        caller: &ModelCaller<'_>,
    ) -> Result<Endpoint, ModelError> {
        let token = caller.settings.github_token.or(token);
        let mut endpoint = self.endpoint(url, token.map_or(Auth::None, Auth::bearer), &caller.settings)?;
        let own = [
            ("Copilot-Integration-Id", INTEGRATION),
            ("X-GitHub-Api-Version", API_VERSION),
            ("X-Interaction-Id", caller.session.as_str()),
        ];
        endpoint.headers.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(endpoint)
    }

    pub(super) fn endpoint(
        &self,
        url: &str,
        auth: Auth,
        settings: &SessionProviders<'_>,
    ) -> Result<Endpoint, ModelError> {
        let bad = |error| {
            let why = format!("invalid model endpoint: {error}");
            ModelError::new(ErrorKind::BadRequest, url, why)
        };
        let mut endpoint = Endpoint::new(url).map_err(bad)?.with_auth(auth);
        let client = settings.client_name.unwrap_or("sdk");
        endpoint.user_agent = format!("baton/{} (GitHub Copilot SDK; {client})", self.version);
        Ok(endpoint)
    }
}

/// Finds a model in the session's registry. Without a name it is the first one, unless the session has a single provider.
pub(super) fn registered<'a>(
    settings: &SessionProviders<'a>,
    name: Option<&str>,
) -> Result<Option<(&'a ProviderConfig, &'a ProviderModel)>, ModelError> {
    let model = match name {
        Some(name) => settings.models.iter().find(|model| model.selection() == name),
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
                "The provider of model {:?} is not configured; add {:?} to `providers`.",
                model.selection(),
                model.provider
            ),
        )),
    }
}

/// Returns the wire format that the list states for a model, otherwise the usual one.
fn listed_wire(info: &ModelInfo, usual: Wire, sockets: bool) -> Wire {
    let offers = |path: &str| info.supported_endpoints.iter().any(|endpoint| endpoint == path);
    match usual {
        Wire::Chat(_) if info.supported_endpoints.is_empty() || offers("/chat/completions") => usual,
        Wire::Chat(_) if sockets && offers("ws:/responses") => Wire::Responses(Carrier::WebSocket),
        Wire::Chat(_) if offers("/responses") || offers("ws:/responses") => Wire::Responses(Carrier::Http),
        Wire::Chat(_) if offers("/v1/messages") => Wire::Messages,
        usual => usual,
    }
}

/// Returns the maximum number of tokens of a request.
fn limit_of(info: &ModelInfo) -> Option<u64> {
    info.max_prompt_tokens.or(info.context_window)
}

/// Returns the client's override of whether the model accepts images.
pub(super) fn overridden_vision(capabilities: Option<&Json>) -> Option<bool> {
    let overrides: Value = capabilities.and_then(|json: &Json| json.parse().ok())?;
    overrides.pointer("/supports/vision")?.as_bool()
}
