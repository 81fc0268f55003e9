//! The way to the network, as the tools see it.

use crate::tools::Working;

/// One answer to one GET request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The `Location` header.
    pub location: Option<String>,
    /// The body, cut to the limit that was asked for.
    pub body: Vec<u8>,
}

/// Why there is no answer, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(pub String);

/// Fetches pages.
pub trait Fetch: Send + Sync {
    /// Sends one GET request and gives back the answer with at most `limit` bytes of its body.
    ///
    /// Redirects are *not* followed: a person has allowed one host, and it is not for the client to go to
    /// another. It has a time limit of its own; dropping the future ends the request.
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> Working<'a, Result<Page, FetchError>>;
}

/// For sessions that must not reach the network.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNetwork;

impl Fetch for NoNetwork {
    fn get<'a>(&'a self, _: &'a str, _: usize) -> Working<'a, Result<Page, FetchError>> {
        Box::pin(async { Err(FetchError("this server has no access to the network".into())) })
    }
}
