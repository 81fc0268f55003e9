//! The question whether a target may be reached.

use futures_util::future::BoxFuture;

use crate::Target;

/// Decides which targets may be reached.
pub trait Gate: Send + Sync {
    /// Decides about one request. The proxy gives up after some seconds and drops the future, so a request for approval
    /// that this opens must stay open on its own, and a repeated call must not open a second one.
    fn admit<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Admission>;

    /// Notes that a connection to a host was made. Called for its first connection, not for the later ones.
    fn reached(&self, target: &Target);
}

/// The decision about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The target may be reached at public addresses.
    Public,
    /// The target may be reached wherever it is: it was allowed by name as part of this machine or its network.
    AlsoPrivate,
    /// The target may not be reached.
    Denied {
        /// The reason, as a sentence for the program and the model that reads its output.
        reason: String,
    },
}
