//! Names that lead into the private network.
//!
//! Where a name leads is known only when it is resolved, and it is resolved only to fetch: a lookup before anybody allowed
//! it would tell the name's owner that it was asked for. So the first fetch of such a name fails, and is remembered; from
//! then on, every call for it asks, says where the name leads, and reaches those addresses if it is allowed.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;

use baton_protocol::ToolCallId;

use crate::tools::lock;

/// The names of one session that lead into the private network.
#[derive(Debug, Default)]
pub struct PrivateHosts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    leads_to: BTreeMap<String, Vec<IpAddr>>,
    /// What the requests of recent calls have said about a name.
    asked: VecDeque<(ToolCallId, String, Vec<IpAddr>)>,
}

impl PrivateHosts {
    /// More than calls that wait at once.
    const CAPACITY: usize = 1024;

    /// Notes that a name leads to these addresses.
    pub(super) fn remember(&self, host: &str, addresses: &[IpAddr]) {
        let mut state = lock(&self.0);
        if state.leads_to.len() < Self::CAPACITY || state.leads_to.contains_key(host) {
            state.leads_to.insert(host.to_owned(), addresses.to_owned());
        }
    }

    /// Returns where a name is known to lead, for the request of a call: empty, if nobody has to be told.
    pub(super) fn ask(&self, call: &ToolCallId, host: &str) -> Vec<IpAddr> {
        let mut state = lock(&self.0);
        let addresses = state.leads_to.get(host).cloned().unwrap_or_default();
        match state.asked.iter_mut().find(|(c, h, _)| c == call && h == host) {
            // Two requests of one call that say two things: neither counts.
            Some((_, _, known)) if *known != addresses => known.clear(),
            Some(_) => {}
            None => {
                if state.asked.len() == Self::CAPACITY {
                    state.asked.pop_front();
                }
                state.asked.push_back((call.clone(), host.to_owned(), addresses.clone()));
            }
        }
        addresses
    }

    /// Returns the addresses that the request of a call has named.
    pub(super) fn recall(&self, call: &ToolCallId, host: &str) -> Vec<IpAddr> {
        let state = lock(&self.0);
        let known = state.asked.iter().find(|(c, h, _)| c == call && h == host);
        known.map(|(_, _, addresses)| addresses.clone()).unwrap_or_default()
    }
}
