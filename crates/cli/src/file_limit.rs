//! The limit of open files, and how connections share it.
//!
//! Every connection is an open file, and the default limit of a process is low. JSON-RPC and HTTP each have a share, so
//! that a flood of connections at one leaves enough for the other, and for files and processes of sessions.

use baton_http::HttpOptions;
use baton_rpc::RpcLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections: the store, pipes of commands, files of tools.
const RESERVED: u64 = 1024;

/// Raises the limit to what the listeners may need, and lowers their limits to what the system allows.
pub(crate) fn share(rpc: &mut RpcLimits, http: Option<&mut HttpOptions>) {
    let connections = rpc.max_connections + http.as_ref().map_or(0, |http| http.max_connections);
    let allowed = raise(connections as u64 + RESERVED);
    fit(allowed, rpc, http);
}

/// Raises the limit as far as wanted and allowed, and returns it. Not further: commands inherit the limit, and some iterate
/// over all possible descriptors.
fn raise(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let higher = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum)).max(current);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(higher), maximum: limit.maximum });
    if raised.is_ok() { higher } else { current }
}

/// Gives JSON-RPC at most a quarter of the descriptors, and HTTP at most half.
fn fit(allowed: u64, rpc: &mut RpcLimits, http: Option<&mut HttpOptions>) {
    let most = |part: u64| usize::try_from(part).unwrap_or(usize::MAX).max(1);
    rpc.max_connections = rpc.max_connections.min(most(allowed / 4));
    rpc.max_per_peer = rpc.max_per_peer.min(rpc.max_connections);
    rpc.max_per_person = rpc.max_per_person.min(most(rpc.max_connections as u64 / 8));
    rpc.max_waiting_per_peer = rpc.max_waiting_per_peer.min(most(allowed / 16));
    if let Some(http) = http {
        http.max_connections = http.max_connections.min(most(allowed / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limit_is_shared_and_high_limit_changes_nothing() {
        let (mut rpc, mut http) = (RpcLimits::default(), HttpOptions::default());
        fit(1 << 20, &mut rpc, Some(&mut http));
        assert_eq!((rpc, http.max_connections), (RpcLimits::default(), 4096));
        fit(1024, &mut rpc, Some(&mut http));
        assert_eq!((rpc.max_connections, rpc.max_per_peer, http.max_connections), (256, 256, 512));
        assert_eq!(rpc.max_per_person, 32);
        fit(0, &mut rpc, None);
        assert_eq!(rpc.max_connections, 1, "at least one connection");
    }

    #[test]
    fn limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(raise(1) >= before);
    }
}
