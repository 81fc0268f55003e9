//! Rate limit: a token bucket for each network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::slots::network;

/// Number of networks above which full buckets are removed.
const MAX_NETWORKS: usize = 10_000;

/// Limits the requests of each network.
pub(crate) struct RateLimit {
    per_second: f64,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    by_network: HashMap<IpAddr, Bucket>,
    /// Number of buckets at which full ones are removed. It doubles with those that stay, so that a removal, which looks at all
    /// buckets, is rare.
    sweep_at: usize,
}

struct Bucket {
    /// Requests left at `since`.
    left: f64,
    since: Instant,
}

impl Bucket {
    /// Returns the requests left now.
    fn left(&self, now: Instant, per_second: f64) -> f64 {
        let refilled = now.duration_since(self.since).as_secs_f64() * per_second;
        (self.left + refilled).min(full(per_second))
    }
}

/// A full bucket holds the requests of two seconds.
fn full(per_second: f64) -> f64 {
    per_second * 2.0
}

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        let buckets = Buckets { by_network: HashMap::new(), sweep_at: MAX_NETWORKS };
        Self { per_second: f64::from(per_second.max(1)), buckets: Mutex::new(buckets) }
    }

    /// Takes a request from the bucket of an address. Returns whether there was one left.
    pub(super) fn allow(&self, address: IpAddr) -> bool {
        self.allow_at(address, Instant::now())
    }

    fn allow_at(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.by_network.len() >= buckets.sweep_at {
            buckets.by_network.retain(|_, bucket| bucket.left(now, self.per_second) < full(self.per_second));
            buckets.sweep_at = MAX_NETWORKS.max(2 * buckets.by_network.len());
        }
        let new = Bucket { left: full(self.per_second), since: now };
        let bucket = buckets.by_network.entry(network(address)).or_insert(new);
        let left = bucket.left(now, self.per_second);
        let allowed = left >= 1.0;
        *bucket = Bucket { left: if allowed { left - 1.0 } else { left }, since: now };
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn burst_is_allowed_and_flood_is_refused() {
        let limit = RateLimit::new(10);
        let address = IpAddr::from([127, 0, 0, 1]);
        let allowed = (0..100).filter(|_| limit.allow(address)).count();
        assert!((20..=22).contains(&allowed), "{allowed}");
        assert!(limit.allow(IpAddr::from([10, 0, 0, 1])), "other addresses are unaffected");
    }

    #[test]
    fn other_addresses_of_a_network_have_no_bucket_of_their_own() {
        let limit = RateLimit::new(1);
        let now = Instant::now();
        for many in [["127.0.0.1", "127.9.8.7", "::1"], ["2001:db8::1", "2001:db8::2", "2001:db8::3"]] {
            let allowed = many.map(|address| limit.allow_at(address.parse().unwrap(), now));
            assert_eq!(allowed, [true, true, false], "{many:?}");
        }
    }

    #[test]
    fn networks_that_are_quiet_are_forgotten() {
        let (limit, start) = (RateLimit::new(10), Instant::now());
        for number in 0..5 * MAX_NETWORKS as u32 {
            let now = start + Duration::from_secs(u64::from(number / MAX_NETWORKS as u32));
            limit.allow_at(std::net::Ipv4Addr::from(0x0a00_0000 + number).into(), now);
        }
        let remembered = limit.buckets.lock().unwrap().by_network.len();
        assert!(remembered <= 2 * MAX_NETWORKS, "{remembered}");
    }
}
