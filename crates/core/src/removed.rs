//! Which parts of a history were taken back.
//!
//! History is append-only: going back is one more event, which says from where on everything before it does not count any
//! more. Readers of the history ask here; the store knows nothing of it.

use serde::{Deserialize, Serialize};

/// The places in a session's sequence that are not part of it any more. Small: one entry for each time that somebody went
/// back, and fewer where they went back further than before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Removed {
    /// First and last place of each part, in order, none touching another.
    parts: Vec<(u64, u64)>,
}

impl Removed {
    /// Takes back everything from `first` up to `last`, the place of the event that says so. A claim that makes no sense
    /// changes nothing (P7).
    pub fn take_back(&mut self, first: u64, last: u64) {
        if first == 0 || first > last {
            return;
        }
        let mut part = (first, last);
        self.parts.retain(|&(a, b)| {
            let touches = a <= part.1.saturating_add(1) && part.0 <= b.saturating_add(1);
            if touches {
                part = (part.0.min(a), part.1.max(b));
            }
            !touches
        });
        let at = self.parts.partition_point(|&(a, _)| a < part.0);
        self.parts.insert(at, part);
    }

    /// Whether the event at this place was taken back.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        let after = self.parts.partition_point(|&(first, _)| first <= seq);
        after.checked_sub(1).is_some_and(|at| self.parts[at].1 >= seq)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The law of going back: after it, the history is what it was before the event that was gone back to, whatever
        /// was said and taken back in between.
        #[test]
        fn what_is_left_is_what_was_before(steps in prop::collection::vec(prop::option::of(0_usize..40), 0..60)) {
            let (mut removed, mut left, mut seq) = (Removed::default(), Vec::new(), 0_u64);
            for step in steps {
                seq += 1;
                match step.filter(|_| !left.is_empty()) {
                    None => left.push(seq),
                    Some(pick) => {
                        let at = pick % left.len();
                        removed.take_back(left[at], seq);
                        left.truncate(at);
                    }
                }
                let visible: Vec<u64> = (1..=seq).filter(|seq| !removed.contains(*seq)).collect();
                prop_assert_eq!(&visible, &left);
            }
        }

        /// No claim of a damaged history breaks anything.
        #[test]
        fn any_claim_is_survived(claims in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20), seq: u64) {
            let mut removed = Removed::default();
            for (first, last) in &claims {
                removed.take_back(*first, *last);
            }
            let claimed = claims.iter().any(|(a, b)| *a != 0 && *a <= seq && seq <= *b);
            prop_assert_eq!(removed.contains(seq), claimed);
        }
    }
}
