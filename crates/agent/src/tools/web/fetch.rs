//! The interface of the tools to the network.

use std::net::IpAddr;

use crate::tools::Working;

/// The response to a GET request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedPage {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The `Location` header.
    pub location: Option<String>,
    /// The body, cut to the requested limit.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request failed.
    #[error("{0}")]
    Failed(String),
    /// The name has these private addresses, which were not allowed.
    #[error("the name leads into the private network")]
    Private(Vec<IpAddr>),
}

/// Which addresses a name may resolve to. The permission for an internet name does not cover machines behind the
/// firewall, and a name can be made to resolve to any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedAddresses {
    /// Public addresses, and these.
    Public(Vec<IpAddr>),
    /// All: the name itself belongs to this machine or its network.
    Anywhere,
}

/// Fetches pages.
pub trait Fetch: Send + Sync {
    /// Sends a GET request, and returns the response with at most `limit` bytes of its body.
    ///
    /// Redirects are *not* followed: the permission covers one host. Connections are made to addresses in `reach` only,
    /// except to a proxy, which resolves names itself. The implementation has a time limit; dropping the future aborts
    /// the request.
    fn get<'a>(
        &'a self,
        url: &'a str,
        limit: usize,
        reach: &'a AllowedAddresses,
    ) -> Working<'a, Result<FetchedPage, FetchError>>;
}

/// Refuses all requests, for sessions without network access.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNetwork;

impl Fetch for NoNetwork {
    fn get<'a>(
        &'a self,
        _: &'a str,
        _: usize,
        _: &'a AllowedAddresses,
    ) -> Working<'a, Result<FetchedPage, FetchError>> {
        Box::pin(async { Err(FetchError::Failed("this server has no access to the network".into())) })
    }
}
