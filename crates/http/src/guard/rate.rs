//! Rate limit: a token bucket for each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Number of addresses above which full buckets are removed.
const MAX_ADDRESSES: usize = 10_000;

/// Limits the requests of each address.
pub(crate) struct RateLimit {
    per_second: f64,
    /// Requests left, and when that was computed.
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), buckets: Mutex::default() }
    }

    /// Takes a request from the bucket of an address. Returns whether there was one left. A full bucket holds the requests of
    /// two seconds.
    pub(super) fn allow(&self, address: IpAddr) -> bool {
        let now = Instant::now();
        let full = self.per_second * 2.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MAX_ADDRESSES {
            buckets.retain(|_, (left, _)| *left < full);
        }
        let (left, since) = buckets.entry(address).or_insert((full, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * self.per_second).min(full);
        *since = now;
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_allowed_and_flood_is_refused() {
        let limit = RateLimit::new(10);
        let address = IpAddr::from([127, 0, 0, 1]);
        let allowed = (0..100).filter(|_| limit.allow(address)).count();
        assert!((20..=22).contains(&allowed), "{allowed}");
        assert!(limit.allow(IpAddr::from([10, 0, 0, 1])), "other addresses are unaffected");
    }
}
