//! A gate for connections: names are resolved, and only addresses that may be reached are given to the connector.
//!
//! This is the moment that counts. A name that was looked up before can lead elsewhere by the time a connection is made,
//! so the addresses that are checked here are the very ones that are connected to.
//!
//! Names of proxies come through here as well, and are let through: whoever configured a proxy means it, wherever it is.
//! So only names that requests were made to are checked. A proxy resolves those itself, out of our sight.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Says which addresses may be reached.
pub(super) type Allows = dyn Fn(IpAddr) -> bool + Send + Sync;

/// See the module.
#[derive(Clone)]
pub(super) struct Gate {
    allows: Arc<Allows>,
    /// Never shrinks: a connection may be made after the request that wanted it has gone.
    names: Arc<Mutex<HashSet<String>>>,
}

/// A name that leads to these addresses, none of which may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that must not be reached")]
pub(super) struct Closed(pub(super) Vec<IpAddr>);

impl Gate {
    pub(super) fn new(allows: Arc<Allows>) -> Self {
        Self { allows, names: Arc::default() }
    }

    /// Checks this name from now on.
    pub(super) fn watch(&self, host: &str) {
        self.lock().insert(host.to_ascii_lowercase());
    }

    fn watches(&self, host: &str) -> bool {
        self.lock().contains(&host.to_ascii_lowercase())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Closed> {
        if !self.watches(host) {
            return Ok(found);
        }
        let (open, closed): (Vec<_>, Vec<_>) = found.into_iter().partition(|at| (self.allows)(at.ip()));
        match (open.is_empty(), closed.is_empty()) {
            (true, false) => Err(Closed(closed.iter().map(SocketAddr::ip).collect())),
            _ => Ok(open),
        }
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
    fn only_addresses_that_may_be_reached_are_admitted() {
        let gate = Gate::new(Arc::new(|address| !address.is_loopback()));
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (near, far) = (at("127.0.0.1:0"), at("192.0.2.1:0"));
        assert_eq!(gate.admit("proxy", vec![near]).unwrap(), [near], "nobody asked for a page of it");
        gate.watch("Name.example");
        assert_eq!(gate.admit("name.example", vec![near, far]).unwrap(), [far]);
        assert_eq!(gate.admit("name.example", vec![near]).unwrap_err().0, [near.ip()]);
        assert!(gate.admit("name.example", Vec::new()).unwrap().is_empty());
    }
}
