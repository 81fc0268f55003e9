//! The server's own endpoint, for sessions that have no provider.

use baton_protocol::provider::ProviderConfig;

/// Model endpoint of the server.
#[derive(Clone)]
pub enum ServerEndpoint {
    /// The Copilot API, or a server that speaks it.
    Copilot {
        /// Base URL.
        url: String,
        /// Bearer token.
        token: Option<String>,
    },
    /// Another provider.
    Provider {
        /// Base URL, wire format and key.
        provider: Box<ProviderConfig>,
        /// Default model of sessions.
        model: Option<String>,
    },
    /// The built-in demo model.
    Demo,
}

impl ServerEndpoint {
    /// Returns the credentials of the endpoint.
    pub(crate) fn keys(&self) -> Vec<String> {
        match self {
            Self::Copilot { token, .. } => token.iter().cloned().collect(),
            Self::Provider { provider, .. } => keys_of(provider).collect(),
            Self::Demo => Vec::new(),
        }
    }
}

/// Returns the credentials of a provider.
pub(crate) fn keys_of(provider: &ProviderConfig) -> impl Iterator<Item = String> {
    provider.api_key.clone().into_iter().chain(provider.bearer_token.clone())
}

impl std::fmt::Debug for ServerEndpoint {
    /// Formats the endpoint without credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Copilot { url, .. } => write!(f, "Copilot({url})"),
            Self::Provider { provider, .. } => write!(f, "Provider({})", provider.base_url),
            Self::Demo => write!(f, "Demo"),
        }
    }
}
