//! The way to the network, as the tools see it.

use std::net::IpAddr;

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
pub enum FetchError {
    /// It could not be had.
    #[error("{0}")]
    Failed(String),
    /// The name leads to these addresses alone, and none of them was allowed.
    #[error("the name leads into the private network")]
    Private(Vec<IpAddr>),
}

/// Which addresses a name may lead to. Whoever allowed a name of the internet did not allow the machines behind the
/// firewall, and a name can be made to lead to any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Those of the public internet, and these.
    Public(Vec<IpAddr>),
    /// All: the name itself says that it is one of this machine or its network.
    Anywhere,
}

/// Fetches pages.
pub trait Fetch: Send + Sync {
    /// Sends one GET request and gives back the answer with at most `limit` bytes of its body.
    ///
    /// Redirects are *not* followed: a person has allowed one host, and it is not for the client to go to
    /// another. Connections are made to addresses in `reach` only, except to a proxy, which finds the address itself.
    /// It has a time limit of its own; dropping the future ends the request.
    fn get<'a>(
        &'a self,
        url: &'a str,
        limit: usize,
        reach: &'a Reach,
    ) -> Working<'a, Result<Page, FetchError>>;
}

/// For sessions that must not reach the network.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNetwork;

impl Fetch for NoNetwork {
    fn get<'a>(&'a self, _: &'a str, _: usize, _: &'a Reach) -> Working<'a, Result<Page, FetchError>> {
        Box::pin(async { Err(FetchError::Failed("this server has no access to the network".into())) })
    }
}
