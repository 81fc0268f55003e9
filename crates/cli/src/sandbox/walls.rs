//! What a command in the sandbox meets, without anybody to ask: hosts that no rule allows are refused.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::policy::address;
use baton_egress::{Admission, Gate, Proxy, ProxyOptions, Target};
use baton_sandbox::{Held, Watcher};
use futures_util::future::BoxFuture;

/// The walls around a command.
pub(super) struct Walls {
    gate: Arc<Rules>,
    /// Programs are prepared on blocking threads, which are outside of it.
    runtime: tokio::runtime::Handle,
    proxy: Mutex<Option<Proxy>>,
}

/// Allows the hosts of the rules.
struct Rules {
    hosts: Vec<String>,
    refused: Mutex<BTreeSet<String>>,
}

impl Walls {
    /// Creates walls that open for these hosts.
    pub(super) fn new(hosts: Vec<String>) -> Self {
        let gate = Arc::new(Rules { hosts, refused: Mutex::default() });
        Self { gate, runtime: tokio::runtime::Handle::current(), proxy: Mutex::default() }
    }

    /// Returns the hosts that were refused.
    pub(super) fn refused(&self) -> Vec<String> {
        self.gate.refused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Decides about an origin by the patterns of rules.
pub(super) fn admit(origin: &str, hosts: &[String]) -> Option<Admission> {
    let is_allowed = hosts.iter().any(|pattern| address::is_covered_by(origin, pattern));
    is_allowed.then(|| if address::is_private(origin) { Admission::AlsoPrivate } else { Admission::Public })
}

impl Gate for Rules {
    fn admit<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Admission> {
        let admission = admit(&target.url(), &self.hosts).unwrap_or_else(|| {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_string());
            Admission::Denied { reason: "no rule of this sandbox allows it".to_owned() }
        });
        Box::pin(std::future::ready(admission))
    }

    fn reached(&self, target: &Target) {
        tracing::info!(host = %target, "the command has reached a host");
    }
}

impl Watcher for Walls {
    fn serve(&self, listener: TcpListener) {
        let _entered = self.runtime.enter();
        match Proxy::serve(listener, self.gate.clone(), ProxyOptions::default()) {
            Ok(proxy) => *self.proxy.lock().unwrap_or_else(PoisonError::into_inner) = Some(proxy),
            Err(error) => {
                tracing::error!(%error, "cannot serve the proxy of the sandbox; programs reach no host");
            }
        }
    }

    // The command lists them when it has ended.
    fn set_aside(&self, _: &Held) {}
}
