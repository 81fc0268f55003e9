//! What can go wrong with a model, in words for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What sort of failure it was: enough to decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The credentials were refused.
    Auth,
    /// Too much was asked in too short a time.
    RateLimited,
    /// The account may ask no more until somebody pays.
    Quota,
    /// The provider does not accept the request.
    BadRequest,
    /// There is no such address or model.
    NotFound,
    /// The conversation is longer than the model can read.
    ContextTooLong,
    /// The provider failed.
    Server,
    /// The provider was not reached, or the connection broke.
    Network,
    /// The provider was reached but is not to be trusted.
    Certificate,
    /// The provider fell silent.
    Stalled,
    /// What came back makes no sense.
    Protocol,
    /// The provider's filter stopped the request or the answer.
    Filtered,
}

impl ErrorKind {
    /// A short name for logs and events.
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

/// A request that was not answered.
///
/// It is returned by value all over the crate, so it is kept small: rare parts are boxed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What sort of failure it was.
    pub kind: ErrorKind,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's own code, such as `context_length_exceeded`.
    pub code: Option<Box<str>>,
    /// Full sentences for people: who failed, how, in whose words, and what to do. Never contains a secret.
    pub message: String,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
    /// Who failed: the host of the endpoint.
    pub endpoint: Arc<str>,
    /// The provider's id of the HTTP request.
    pub request_id: Option<Box<str>>,
    /// The text that had arrived before it failed.
    pub partial: Box<str>,
}

impl ModelError {
    /// A failure, with sentences for people.
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
