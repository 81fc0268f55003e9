//! How many files and connections the process may have open, and who gets how many of them.
//!
//! A system allows a process few open files unless it asks for more, and every connection is one. Each door has its own
//! share, so that a flood at one leaves the other, and the sessions' own files and processes, enough to go on.

use baton_server::{HttpOptions, RpcLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the sessions need beside connections: the store, pipes of commands, files of tools.
const REST: u64 = 1024;

/// Asks the system for as many as the doors may use, and makes their limits fit what it allows.
pub(crate) fn share(rpc: &mut RpcLimits, http: Option<&mut HttpOptions>) {
    let connections = rpc.max_connections + http.as_ref().map_or(0, |http| http.max_connections);
    let allowed = raise(connections as u64 + REST);
    fit(allowed, rpc, http);
}

/// Raises the limit to what is wanted, or as far as it may be raised; returns what it is then. No further: commands of
/// sessions inherit it, and some go through all descriptors that they might have.
fn raise(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let higher = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum)).max(current);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(higher), maximum: limit.maximum });
    if raised.is_ok() { higher } else { current }
}

/// A quarter is for the JSON-RPC door at most, half for the HTTP door.
fn fit(allowed: u64, rpc: &mut RpcLimits, http: Option<&mut HttpOptions>) {
    let most = |part: u64| usize::try_from(part).unwrap_or(usize::MAX).max(1);
    rpc.max_connections = rpc.max_connections.min(most(allowed / 4));
    rpc.max_per_peer = rpc.max_per_peer.min(rpc.max_connections);
    rpc.max_waiting_per_peer = rpc.max_waiting_per_peer.min(most(allowed / 16));
    if let Some(http) = http {
        http.max_connections = http.max_connections.min(most(allowed / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_and_many_change_nothing() {
        let (mut rpc, mut http) = (RpcLimits::default(), HttpOptions::default());
        fit(1 << 20, &mut rpc, Some(&mut http));
        assert_eq!((rpc, http.max_connections), (RpcLimits::default(), 4096));
        fit(1024, &mut rpc, Some(&mut http));
        assert_eq!((rpc.max_connections, rpc.max_per_peer, http.max_connections), (256, 256, 512));
        fit(0, &mut rpc, None);
        assert_eq!(rpc.max_connections, 1, "a door that nobody can use is of no use");
    }

    #[test]
    fn limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(raise(1) >= before);
    }
}
