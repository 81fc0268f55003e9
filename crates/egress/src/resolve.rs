//! Resolves hosts to the addresses that are connected to.
//!
//! A name is resolved once for each connection, and the connection goes to exactly the addresses that were checked. So a
//! name that resolves to another address a moment later (DNS rebinding) gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use baton_core::policy::address::is_public;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Host;

/// Time limit for a lookup.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);
/// Number of lookups at the same time. The system's resolver blocks one thread for each.
const MAX_LOOKUPS: usize = 16;

/// Looks up the addresses of names.
pub trait Lookup: Send + Sync {
    /// Returns the addresses of a name.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Looks up names with the resolver of the system.
#[derive(Debug)]
pub struct SystemLookup(Semaphore);

impl Default for SystemLookup {
    fn default() -> Self {
        Self(Semaphore::new(MAX_LOOKUPS))
    }
}

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let _slot = self.0.acquire().await.map_err(io::Error::other)?;
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Which addresses a host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// All addresses: the host was allowed by name as part of this machine or its network.
    AlsoPrivate,
}

/// Why a host has no addresses to connect to.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The name could not be resolved.
    #[error("{host} could not be resolved: {why}")]
    NotFound {
        /// The host.
        host: Host,
        /// What the resolver says.
        why: String,
    },
    /// At least one address is not public.
    #[error(
        "{host} has an address in a private network ({address}), which a permission for a public host does not cover"
    )]
    Private {
        /// The host.
        host: Host,
        /// The first address that is not public.
        address: IpAddr,
    },
}

/// Returns the addresses to connect to; at least one.
///
/// # Errors
/// When the name cannot be resolved, or has *any* address that may not be reached. A mixture of public and private addresses
/// is what a rebinding attack looks like.
pub async fn resolve(
    host: &Host,
    port: u16,
    reach: Reach,
    lookup: &dyn Lookup,
) -> Result<Vec<SocketAddr>, Refusal> {
    let addresses = match host.name_or_address() {
        Ok(name) => look_up(host, name, lookup).await?,
        Err(address) => vec![address],
    };
    let private = addresses.iter().copied().find(|address| reach == Reach::Public && !is_public(*address));
    match private {
        Some(address) => Err(Refusal::Private { host: host.clone(), address }),
        None => Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()),
    }
}

async fn look_up(host: &Host, name: &str, lookup: &dyn Lookup) -> Result<Vec<IpAddr>, Refusal> {
    let not_found = |why: String| Refusal::NotFound { host: host.clone(), why };
    let found = timeout(LOOKUP_LIMIT, lookup.lookup(name))
        .await
        .map_err(|_| not_found(format!("no answer within {} seconds", LOOKUP_LIMIT.as_secs())))?
        .map_err(|error| not_found(error.to_string()))?;
    if found.is_empty() { Err(not_found("it has no address".to_owned())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers each lookup with the next of these addresses.
    struct Rebinding(Mutex<Vec<&'static str>>);

    impl Lookup for Rebinding {
        fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            let next = self.0.lock().unwrap().remove(0);
            let addresses = next.split(',').map(|address| address.parse().unwrap()).collect();
            Box::pin(async move { Ok(addresses) })
        }
    }

    #[tokio::test]
    async fn each_lookup_is_checked_and_connected_to() {
        let lookup =
            Rebinding(Mutex::new(vec!["8.8.8.8", "127.0.0.1", "8.8.8.8,10.0.0.1", "10.0.0.1,8.8.8.8"]));
        let host = Host::parse("example.org").unwrap();
        let found = resolve(&host, 443, Reach::Public, &lookup).await.unwrap();
        assert_eq!(found, ["8.8.8.8:443".parse().unwrap()]);
        for private in ["127.0.0.1", "10.0.0.1", "10.0.0.1"] {
            let refused = resolve(&host, 443, Reach::Public, &lookup).await.unwrap_err();
            let Refusal::Private { address, .. } = refused else { panic!("{refused}") };
            assert_eq!(address.to_string(), private);
        }
        assert!(lookup.0.lock().unwrap().is_empty(), "one lookup for each connection");
    }

    #[tokio::test]
    async fn private_addresses_need_the_permission_for_them() {
        for text in ["127.0.0.1", "[::1]", "[::ffff:8.8.8.8]", "[64:ff9b::7f00:1]", "169.254.169.254"] {
            let host = Host::parse(text).unwrap();
            let lookup = Rebinding(Mutex::default());
            let refused = resolve(&host, 80, Reach::Public, &lookup).await;
            assert!(matches!(refused, Err(Refusal::Private { .. })), "{text}");
            let found = resolve(&host, 80, Reach::AlsoPrivate, &lookup).await.unwrap();
            assert_eq!(found.len(), 1, "{text}");
        }
    }

    #[tokio::test]
    async fn name_without_addresses_is_not_found() {
        struct Nothing;
        impl Lookup for Nothing {
            fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
                Box::pin(async { Ok(Vec::new()) })
            }
        }
        let host = Host::parse("example.org").unwrap();
        let refused = resolve(&host, 80, Reach::Public, &Nothing).await.unwrap_err();
        assert_eq!(refused.to_string(), "example.org could not be resolved: it has no address");
    }
}
