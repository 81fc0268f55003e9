//! Host names that resolve to private addresses.
//!
//! A name is resolved only to fetch: a lookup before permission was given would reveal the request to the owner of the
//! name. So the first fetch of such a name fails, and its addresses are remembered; from then on, every call for it
//! requests permission, names the addresses, and may reach them if it is approved.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;

use baton_protocol::ToolCallId;

use crate::tools::lock;

/// The host names of one session that resolve to private addresses.
#[derive(Debug, Default)]
pub struct PrivateHosts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Addresses that the requests of recent calls named.
    requested: VecDeque<(ToolCallId, String, Vec<IpAddr>)>,
}

impl PrivateHosts {
    /// More than the number of calls that can be pending.
    const CAPACITY: usize = 1024;

    /// Records the addresses of a name.
    pub(super) fn remember(&self, host: &str, addresses: &[IpAddr]) {
        let mut state = lock(&self.0);
        if state.addresses.len() < Self::CAPACITY || state.addresses.contains_key(host) {
            state.addresses.insert(host.to_owned(), addresses.to_owned());
        }
    }

    /// Returns the private addresses of a name for the request of a call; empty if none are known.
    pub(super) fn request(&self, call: &ToolCallId, host: &str) -> Vec<IpAddr> {
        let mut state = lock(&self.0);
        let addresses = state.addresses.get(host).cloned().unwrap_or_default();
        match state.requested.iter_mut().find(|(c, h, _)| c == call && h == host) {
            // Two requests of one call named different addresses: neither counts.
            Some((_, _, known)) if *known != addresses => known.clear(),
            Some(_) => {}
            None => {
                if state.requested.len() == Self::CAPACITY {
                    state.requested.pop_front();
                }
                state.requested.push_back((call.clone(), host.to_owned(), addresses.clone()));
            }
        }
        addresses
    }

    /// Returns the addresses that the request of a call named.
    pub(super) fn recall(&self, call: &ToolCallId, host: &str) -> Vec<IpAddr> {
        let state = lock(&self.0);
        let known = state.requested.iter().find(|(c, h, _)| c == call && h == host);
        known.map(|(_, _, addresses)| addresses.clone()).unwrap_or_default()
    }
}
