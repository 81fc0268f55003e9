//! Restricts connections to allowed addresses: resolves names, and refuses those that have any other address.
//!
//! The check must happen at this point. A name that was checked earlier can resolve to another address by the
//! time a connection is made, so the addresses that are checked here are the very ones that are connected to.
//!
//! Names of proxies are resolved here as well and pass unchecked: a proxy is configured deliberately,
//! wherever it is. Therefore only the host names of requests are checked. Behind a proxy, the proxy resolves
//! them, beyond our control.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Decides whether an address may be connected to.
pub(super) type Allows = dyn Fn(IpAddr) -> bool + Send + Sync;

/// The resolver that checks addresses.
#[derive(Clone)]
pub(super) struct Gate {
    allows: Arc<Allows>,
    /// Host names to check. Never shrinks: a connection may be made after its request is gone.
    names: Arc<Mutex<HashSet<String>>>,
}

/// Error for a name that has forbidden addresses; with those.
#[derive(Debug, thiserror::Error)]
#[error("the name resolves to an address that is not allowed")]
pub(super) struct Closed(pub(super) Vec<IpAddr>);

impl Gate {
    pub(super) fn new(allows: Arc<Allows>) -> Self {
        Self { allows, names: Arc::default() }
    }

    /// Adds a host name to check.
    pub(super) fn watch(&self, host: &str) {
        self.lock().insert(host.to_ascii_lowercase());
    }

    /// Whether an address may be connected to.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        (self.allows)(address)
    }

    fn watches(&self, host: &str) -> bool {
        self.lock().contains(&host.to_ascii_lowercase())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses of a name, unless any of them is forbidden: a mixture is what a name looks like that its owner
    /// points at a private network.
    fn admit(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Closed> {
        if !self.watches(host) {
            return Ok(found);
        }
        let closed: Vec<_> = found.iter().map(SocketAddr::ip).filter(|at| !self.allows(*at)).collect();
        if closed.is_empty() { Ok(found) } else { Err(Closed(closed)) }
    }
}

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let admitted = gate.admit(name.as_str(), found)?;
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_any_forbidden_address_is_refused() {
        let gate = Gate::new(Arc::new(|address| !address.is_loopback()));
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (near, far) = (at("127.0.0.1:0"), at("192.0.2.1:0"));
        assert_eq!(gate.admit("proxy", vec![near]).unwrap(), [near], "no request was made to it");
        gate.watch("Name.example");
        assert_eq!(gate.admit("name.example", vec![far]).unwrap(), [far]);
        assert_eq!(gate.admit("name.example", vec![far, near]).unwrap_err().0, [near.ip()]);
        assert_eq!(gate.admit("name.example", vec![near]).unwrap_err().0, [near.ip()]);
        assert!(gate.admit("name.example", Vec::new()).unwrap().is_empty());
    }
}
