//! Counters of what happens between servers, for operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Cluster;
use crate::Runtime;

/// Counters of a server among others. They start at zero with the process.
#[derive(Debug, Default)]
pub(crate) struct ClusterCounters {
    /// Sessions that were taken over from dead servers.
    takeovers: AtomicU64,
    /// Links to owners of sessions that were lost.
    lost_links: AtomicU64,
    /// Heartbeats that were not acknowledged.
    missed_heartbeats: AtomicU64,
}

/// Values of all counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSnapshot {
    /// Sessions that were taken over from dead servers.
    pub takeovers: u64,
    /// Links to owners of sessions that were lost.
    pub lost_links: u64,
    /// Heartbeats that were not acknowledged.
    pub missed_heartbeats: u64,
    /// Time since the last acknowledged heartbeat was sent.
    pub heartbeat_age: Duration,
    /// Whether this server starts nothing new, because others may soon believe that it is dead.
    pub is_fenced: bool,
    /// Live sessions whose actor is in another server.
    pub relayed: u64,
}

impl ClusterCounters {
    pub(crate) fn takeover(&self) {
        self.takeovers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost_link(&self) {
        self.lost_links.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missed_heartbeat(&self) {
        self.missed_heartbeats.fetch_add(1, Ordering::Relaxed);
    }
}

impl Cluster {
    fn heartbeat_age(&self) -> Duration {
        self.lock().as_ref().map_or(Duration::ZERO, |pulse| pulse.age(self.now()))
    }
}

impl Runtime {
    /// Reads the counters of this server among others; none where servers do not share the store.
    pub fn cluster_snapshot(&self) -> Option<ClusterSnapshot> {
        let cluster = self.cluster.as_ref()?;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let relayed = self.registry.all().iter().filter(|handle| handle.hub.is_elsewhere()).count();
        Some(ClusterSnapshot {
            takeovers: read(&cluster.counters.takeovers),
            lost_links: read(&cluster.counters.lost_links),
            missed_heartbeats: read(&cluster.counters.missed_heartbeats),
            heartbeat_age: cluster.heartbeat_age(),
            is_fenced: cluster.is_fenced(),
            relayed: relayed as u64,
        })
    }
}
