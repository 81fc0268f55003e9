//! The interface between servers and the session that uses them.

use baton_sandbox::Place;
use serde_json::Value;
use url::Url;

use crate::Working;
use crate::config::{Reach, ServerConfig};
use crate::expand::Variables;
use crate::oauth::OAuthConfig;
use crate::server::ServerStatus;
use crate::wire::Challenge;

/// A change of a server, reported to its session.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// Its status changed.
    Status(ServerStatus),
    /// It was stopped, or disabled.
    Removed,
    /// Its tools changed; the new list is read before the next turn.
    ToolsChanged,
    /// Its resources changed.
    ResourcesChanged,
    /// A resource that a client subscribed to changed; with its URI.
    ResourceUpdated(String),
    /// Its prompts changed.
    PromptsChanged,
}

/// A request of a server, to be answered by a person or a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerQuestion {
    /// `elicitation/create`, with its parameters. The answer is an `ElicitResult`.
    Elicitation(Value),
    /// `sampling/createMessage`, with its parameters. The answer is a `CreateMessageResult`.
    Sampling {
        /// The server's id of the request.
        id: Value,
        /// Its parameters.
        params: Value,
    },
}

/// Why a server needs a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthReason {
    /// There is none yet.
    Initial,
    /// The server no longer accepts it.
    Refresh,
    /// There was no new one, and the server still accepts none.
    Reauth,
    /// It lacks a scope.
    Upscope,
}

impl AuthReason {
    /// Returns the name that SDKs use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Refresh => "refresh",
            Self::Reauth => "reauth",
            Self::Upscope => "upscope",
        }
    }
}

/// Why a client is asked for headers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadersReason {
    /// The server is connected for the first time.
    Startup,
    /// The earlier headers have expired.
    Expired,
    /// The server rejected the earlier headers.
    Rejected,
}

impl HeadersReason {
    /// Returns the name that SDKs use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Expired => "ttl-expired",
            Self::Rejected => "auth-failed",
        }
    }
}

/// A remote server, as far as its authorization is concerned.
#[derive(Clone, PartialEq, Eq)]
pub struct Protected {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: Url,
    /// The client of its configuration.
    pub oauth: OAuthConfig,
    /// Whether the declaration was written by anybody but the user and the user's programs.
    pub is_foreign: bool,
}

impl Protected {
    /// Returns what the authorization of a remote server needs; none for a local one. A value with a
    /// variable that the declaration may not see stays as it is written.
    pub(crate) fn of(name: &str, config: &ServerConfig, variables: &Variables<'_>) -> Option<Self> {
        let Reach::Remote(remote) = &config.reach else { return None };
        let mut oauth = OAuthConfig::of(config);
        for value in [&mut oauth.client, &mut oauth.secret].into_iter().flatten() {
            *value = variables.expand(value).unwrap_or_else(|_| value.clone());
        }
        let is_foreign = variables.origin.is_foreign();
        Some(Self { name: name.to_owned(), url: remote.url.clone(), oauth, is_foreign })
    }
}

/// The session that uses a set of servers. What an implementation leaves out, the session cannot do: it has no answers, no
/// tokens and nothing to offer.
pub trait McpClient: Send + Sync {
    /// Receives a notice. Must not block.
    fn notice(&self, server: &str, notice: Notice);

    /// Returns where the program of a server runs that a repository brings: in the session's sandbox, if it has one.
    ///
    /// # Errors
    /// With the reason, when the session needs a sandbox and there is none.
    fn place(&self) -> Working<'_, Result<Place, String>>;

    /// Receives credentials that a server is configured with, before it is started. They must not be shown.
    fn keep_secret(&self, _credentials: Vec<String>) {}

    /// Answers a server's request. Dropped when the server cancels it, or when its connection ends.
    ///
    /// # Errors
    /// With a message for the server, when there is no answer.
    fn answer(&self, _server: &str, _question: ServerQuestion) -> Working<'_, Result<Value, String>> {
        Box::pin(async { Err("nobody can answer".to_owned()) })
    }

    /// Returns a token from an earlier login, before the first connection.
    fn token(&self, _server: &Protected) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Returns another token for a remote server that requires authorization, without asking a person; `None` if that is
    /// not possible.
    fn renew(
        &self,
        _server: &Protected,
        _challenge: &Challenge,
        _reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Asks for a token for a remote server that requires authorization; `None` if there is none.
    fn authorize(
        &self,
        _server: &Protected,
        _challenge: Challenge,
        _reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Asks for the headers of a remote server; `None` if there are no new ones. The address has no credentials.
    fn headers(
        &self,
        _server: &str,
        _url: &str,
        _reason: HeadersReason,
    ) -> Working<'_, Option<Vec<(String, String)>>> {
        Box::pin(async { None })
    }

    /// Whether sampling is offered to servers.
    fn samples(&self) -> bool {
        false
    }

    /// Whether elicitation is offered to servers.
    fn elicits(&self) -> bool {
        false
    }
}
