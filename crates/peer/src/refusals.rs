//! Limits log lines about refused connections: anybody can open as many connections as they like.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two log lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts refused connections that were not logged.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Counts a refusal. Returns the number of refusals since the last log line if it is time for another one.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.unlogged += 1;
        if state.logged_at.is_some_and(|logged| now < logged + PAUSE) {
            return None;
        }
        state.logged_at = Some(now);
        Some(std::mem::take(&mut state.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_once_a_second() {
        let (refusals, begun) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.note(begun), Some(1));
        assert!((0..1000).all(|_| refusals.note(begun + PAUSE / 2).is_none()));
        assert_eq!(refusals.note(begun + PAUSE), Some(1001));
        assert_eq!(refusals.note(begun + PAUSE), None);
    }
}
