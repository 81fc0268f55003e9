//! Stamps: the time and the ids of a step. Callers make them, because the core has no clock and no randomness.

use baton_protocol::{EventId, Timestamp};
use uuid::Uuid;

/// Time of one step, and a source of ids for it. Equal stamps give equal ids, so that a step is a pure function.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Time of the step.
    pub now: Timestamp,
    entropy: u128,
    used: u64,
}

impl Stamp {
    /// Creates a stamp for one step. `entropy` must not repeat; 128 random bits will not.
    #[must_use]
    pub fn new(now: Timestamp, entropy: u128) -> Self {
        Self { now, entropy, used: 0 }
    }

    /// Returns the next id: a UUID of version 7, so that ids sort by time.
    pub fn uuid(&mut self) -> Uuid {
        self.used += 1;
        let high = mix((self.entropy >> 64) as u64 ^ self.used);
        let low = mix(self.entropy as u64 ^ high);
        let mut bytes = [0u8; 10];
        bytes[..8].copy_from_slice(&high.to_le_bytes());
        bytes[8..].copy_from_slice(&low.to_le_bytes()[..2]);
        let millis = u64::try_from(self.now.as_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    /// Returns the next event id.
    pub fn event_id(&mut self) -> EventId {
        EventId(self.uuid())
    }

    /// Returns the next id as text.
    pub fn text_id(&mut self) -> String {
        self.uuid().to_string()
    }
}

/// Spreads the bits of a counter (the finaliser of splitmix64), so that consecutive ids share no pattern.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_equal_for_equal_stamps() {
        let ids = |entropy| {
            let mut stamp = Stamp::new(Timestamp(1_794_774_653_223), entropy);
            [stamp.uuid(), stamp.uuid(), stamp.uuid()]
        };
        let all: std::collections::BTreeSet<_> =
            [ids(1), ids(2), ids(1 << 64)].concat().into_iter().collect();
        assert_eq!(all.len(), 9);
        assert_eq!(ids(7), ids(7));
        assert_eq!(ids(7)[0].get_version_num(), 7);
    }
}
