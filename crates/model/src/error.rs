//! Errors of model providers, with messages for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kind of a failure: enough to decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The credentials were refused.
    Auth,
    /// The rate limit is exceeded.
    RateLimited,
    /// The account's quota is exhausted.
    Quota,
    /// The provider rejected the request.
    BadRequest,
    /// The URL or the model does not exist.
    NotFound,
    /// The conversation exceeds the model's context window.
    ContextTooLong,
    /// The provider failed.
    Server,
    /// The provider is unreachable, or the connection broke.
    Network,
    /// Nothing listens at an address on this machine. Unlike a remote provider, such a server comes back only when somebody
    /// starts it.
    NotRunning,
    /// The provider's certificate is not trusted.
    Certificate,
    /// The provider stopped sending.
    Stalled,
    /// The response is invalid.
    Protocol,
    /// The provider's content filter blocked the request or the answer.
    Filtered,
}

impl ErrorKind {
    /// Returns a short name for logs and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::BadRequest => "bad_request",
            Self::NotFound => "not_found",
            Self::ContextTooLong => "context_too_long",
            Self::Server => "server",
            Self::Network => "network",
            Self::NotRunning => "not_running",
            Self::Certificate => "certificate",
            Self::Stalled => "stalled",
            Self::Protocol => "protocol",
            Self::Filtered => "filtered",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed request.
///
/// Returned by value throughout the crate, so it is small: rarely used fields are boxed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's error code, such as `context_length_exceeded`.
    pub code: Option<Box<str>>,
    /// Full sentences for people: which host failed, how, the provider's message, and advice. Never contains
    /// a secret.
    pub message: String,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
    /// The host of the endpoint.
    pub endpoint: Arc<str>,
    /// The provider's id of the HTTP request.
    pub request_id: Option<Box<str>>,
    /// The text received before the failure.
    pub partial: Box<str>,
}

impl ModelError {
    /// Creates an error with a message for people.
    #[must_use]
    pub fn new(kind: ErrorKind, endpoint: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: None,
            message: message.into(),
            retry_after: None,
            endpoint: Arc::from(endpoint),
            request_id: None,
            partial: Box::from(""),
        }
    }

    pub(crate) fn with_partial(self, text: &str) -> Self {
        Self { partial: Box::from(text), ..self }
    }
}
