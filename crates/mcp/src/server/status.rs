//! The status of a server.

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerStatus {
    /// Not connected yet, or connecting.
    Pending,
    /// Connected.
    Connected,
    /// It could not be connected, or its connection ended; with the reason.
    Failed(String),
    /// It requires authorization.
    NeedsAuth,
    /// The session does not use it.
    Disabled,
    /// It was stopped.
    Stopped,
    /// It is about to be configured again.
    NotConfigured,
}

impl ServerStatus {
    /// Returns the name that SDKs use.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::Failed(_) => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
            Self::NotConfigured => "not_configured",
        }
    }

    /// Returns the reason of a failure.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}
