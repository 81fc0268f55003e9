//! Model providers and credentials of sessions.
//!
//! This crate answers one question: which model does the next call of a conversation use, at which endpoint, with which
//! credentials? It knows what a session says about its models ([`SessionProviders`]) and no live session; it holds no
//! history, and calls no tool. What travels over the wire to a provider is in `baton-model`.
//!
//! # API
//!
//! * [`Models`] are the models of the server: [`Models::choose`] gives a [`ChosenModel`] for a [`ModelCaller`],
//!   [`Models::fallback`] the model that continues a turn, [`Models::list`] and [`Models::reveal`] serve clients.
//! * [`Tunnel`] is a client that transports model requests itself.
//! * [`Clients`] is what the runtime provides: a way to call a client, which supplies tokens.
//! * [`github`] and [`accounts`] identify users by their tokens; [`Secrets`] redacts credentials in what models see.
//!
//! # Parts
//!
//! * `choose`: the choice; `fallback`: the fallback model for a rate-limited one.
//! * `list`: lists of models for clients; `reveal`: the endpoint of a session, for its client.
//! * `provider`: configured providers, with their wire formats, routes and credentials; `cache`: providers of sessions whose
//!   clients do not stay.
//! * `recordings`: replay and recording of model calls.
//! * `token`: credentials that a client supplies before each request.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod accounts;
mod cache;
mod choose;
mod clients;
mod endpoint;
mod fallback;
pub mod github;
mod list;
pub mod prices;
mod provider;
mod recordings;
mod reveal;
mod secrets;
mod token;
mod tunnel;

use std::sync::Arc;

use baton_model::Model;
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use baton_protocol::{AgentId, ClientId, Json, SessionId};

pub use self::cache::ProviderCache;
pub use self::choose::Models;
pub use self::clients::{CallFailed, Calling, Clients};
pub use self::endpoint::ServerEndpoint;
pub use self::list::{client_model_entry, with_client_models};
pub use self::secrets::Secrets;
pub use self::tunnel::{ClientCall, EdgeOffer, RelayedPart, Relays, ResponsePart, Tunnel};

/// Context window of models for which neither client nor provider states one.
const DEFAULT_WINDOW: u64 = 128_000;

/// Model for sessions when neither the session nor the endpoint names one.
const DEFAULT_MODEL: &str = "gpt-4.1";

/// Name of the demo model.
const DEMO: &str = "baton-demo";

/// What a session says about its models.
#[derive(Clone, Copy, Default)]
pub struct SessionProviders<'a> {
    /// The client's provider, if it set only one.
    pub provider: Option<&'a ProviderConfig>,
    /// Whether the session had a provider whose credentials a restart of the server lost.
    pub provider_lost: bool,
    /// Whether the model requests of the session go through a client, and nowhere else.
    pub carried: bool,
    /// The client's providers, by name.
    pub providers: &'a [ProviderConfig],
    /// Models of the client's providers.
    pub models: &'a [ProviderModel],
    /// The client that set the providers, and supplies their tokens.
    pub owner: Option<ClientId>,
    /// The user's token for GitHub, in place of the server's.
    pub github_token: Option<&'a str>,
    /// Name of the client program.
    pub client_name: Option<&'a str>,
    /// Whether models of the server's endpoint may be called over a WebSocket, where the endpoint supports that.
    pub sockets: Option<bool>,
    /// Capabilities of the model, in place of the catalogue's.
    pub model_capabilities: Option<&'a Json>,
}

/// The conversation that calls a model.
pub struct ModelCaller<'a> {
    /// Its session.
    pub session: &'a SessionId,
    /// What the session says about its models.
    pub settings: SessionProviders<'a>,
    /// Clients of the session.
    pub clients: Arc<dyn Clients>,
    /// Sub-agent that calls; `None` for the main conversation.
    pub agent: Option<&'a AgentId>,
    /// Model that the conversation has chosen.
    pub model: Option<&'a str>,
}

/// Returns the interaction type of a model call, as SDKs name it.
#[must_use]
pub fn interaction_type(of_agent: bool) -> &'static str {
    if of_agent { "conversation-subagent" } else { "conversation-agent" }
}

/// A model, ready to be called.
pub struct ChosenModel {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Name on the wire.
    pub wire_name: String,
    /// Maximum number of tokens of a request.
    pub token_limit: u64,
    /// Maximum number of tokens of a response.
    pub max_output_tokens: Option<u64>,
    /// Whether the model accepts images.
    pub vision: bool,
    /// Whether the endpoint is the client's own ("bring your own key").
    pub byok: bool,
}
