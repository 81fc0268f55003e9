//! Decides from a server's own heartbeats whether it must stop. Pure, over any monotonic clock.
//!
//! Others count a server as dead when the store has not heard of it for [`DEAD_AFTER`]. The server cannot know when the
//! store heard of it, only that it was after the heartbeat was sent. So it counts from the sending of its last
//! acknowledged heartbeat, and stops before the others may begin.

use std::time::Duration;

use crate::members::{DEAD_AFTER, FENCE_AFTER, STOP_AFTER};

/// The heartbeats of one server, by its own monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pulse {
    /// When the last acknowledged heartbeat was sent.
    sent: Duration,
    /// Since when acknowledged heartbeats have followed each other without a gap.
    held_since: Duration,
}

impl Pulse {
    /// Starts with the entry of the server, which counts as a heartbeat that was sent at `sent`.
    #[must_use]
    pub fn entered(sent: Duration) -> Self {
        Self { sent, held_since: sent }
    }

    /// Notes that the heartbeat that was sent at `sent` is acknowledged `now`. One that took so long that the server was
    /// fenced meanwhile starts a new run.
    pub fn acknowledged(&mut self, sent: Duration, now: Duration) {
        if sent <= self.sent {
            return;
        }
        if self.is_fenced(now) {
            self.held_since = now;
        }
        self.sent = sent;
    }

    /// Returns the time since the last acknowledged heartbeat was sent.
    #[must_use]
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.sent)
    }

    /// Whether nothing new may be started.
    #[must_use]
    pub fn is_fenced(&self, now: Duration) -> bool {
        now.saturating_sub(self.sent) >= FENCE_AFTER
    }

    /// Whether everything that runs has to end.
    #[must_use]
    pub fn must_stop(&self, now: Duration) -> bool {
        now.saturating_sub(self.sent) >= STOP_AFTER
    }

    /// Whether the server may call others dead. After an outage of the store everybody looks dead; those that are alive
    /// have been heard of again when one's own heartbeats have held for as long as it takes to be dead.
    #[must_use]
    pub fn may_judge(&self, now: Duration) -> bool {
        !self.is_fenced(now) && now.saturating_sub(self.held_since) >= DEAD_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn server_is_fenced_before_others_may_call_it_dead() {
        let pulse = Pulse::entered(at(0));
        assert!(!pulse.is_fenced(at(1999)) && pulse.is_fenced(at(2000)));
        assert!(!pulse.must_stop(at(2000)) && pulse.must_stop(STOP_AFTER));
        assert!(STOP_AFTER < DEAD_AFTER);
    }

    #[test]
    fn others_are_judged_after_three_seconds_of_own_heartbeats() {
        let mut pulse = Pulse::entered(at(0));
        for second in 1..3 {
            pulse.acknowledged(at(second * 1000), at(second * 1000 + 5));
            assert!(!pulse.may_judge(at(second * 1000 + 5)));
        }
        pulse.acknowledged(at(3000), at(3005));
        assert!(pulse.may_judge(at(3005)));
        // An outage: the next acknowledgement comes after the fence.
        pulse.acknowledged(at(9000), at(9010));
        assert!(!pulse.is_fenced(at(9010)) && !pulse.may_judge(at(9010)) && !pulse.may_judge(at(12_009)));
    }

    #[test]
    fn acknowledgement_counts_from_the_sending() {
        let mut pulse = Pulse::entered(at(0));
        pulse.acknowledged(at(1000), at(2900));
        assert!(!pulse.is_fenced(at(2900)) && pulse.is_fenced(at(3000)), "it was sent at 1000");
        pulse.acknowledged(at(500), at(2950));
        assert!(pulse.is_fenced(at(3000)), "an older one changes nothing");
    }
}
