//! Parts of a history that were removed by rewinds.
//!
//! History is append-only: a rewind is one more event, which names the first event that no longer counts. Readers of the
//! history consult this list; the store knows nothing of it.

use serde::{Deserialize, Serialize};

/// Ranges of sequence numbers that no longer count. At most one for each rewind; a rewind further back absorbs earlier
/// ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Removed {
    /// First and last number of each range, ascending and not adjacent.
    #[serde(rename = "parts")]
    ranges: Vec<(u64, u64)>,
}

impl Removed {
    /// Removes everything from `first` up to `last`, the number of the rewind event. An invalid range changes nothing
    /// (P7).
    pub fn rewind(&mut self, first: u64, last: u64) {
        if first == 0 || first > last {
            return;
        }
        let mut range = (first, last);
        self.ranges.retain(|&(a, b)| {
            let touches = a <= range.1.saturating_add(1) && range.0 <= b.saturating_add(1);
            if touches {
                range = (range.0.min(a), range.1.max(b));
            }
            !touches
        });
        let at = self.ranges.partition_point(|&(a, _)| a < range.0);
        self.ranges.insert(at, range);
    }

    /// Whether the event of this number was removed.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= seq);
        after.checked_sub(1).is_some_and(|at| self.ranges[at].1 >= seq)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After a rewind to an event, the history is what it was before that event, whatever was recorded and removed
        /// in between.
        #[test]
        fn rewind_restores_the_history_before_the_event(steps in prop::collection::vec(prop::option::of(0_usize..40), 0..60)) {
            let (mut removed, mut left, mut seq) = (Removed::default(), Vec::new(), 0_u64);
            for step in steps {
                seq += 1;
                match step.filter(|_| !left.is_empty()) {
                    None => left.push(seq),
                    Some(pick) => {
                        let at = pick % left.len();
                        removed.rewind(left[at], seq);
                        left.truncate(at);
                    }
                }
                let visible: Vec<u64> = (1..=seq).filter(|seq| !removed.contains(*seq)).collect();
                prop_assert_eq!(&visible, &left);
            }
        }

        /// Ranges of a damaged history may overlap, touch or be invalid.
        #[test]
        fn any_ranges_are_accepted(ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20), seq: u64) {
            let mut removed = Removed::default();
            for (first, last) in &ranges {
                removed.rewind(*first, *last);
            }
            let expected = ranges.iter().any(|(a, b)| *a != 0 && *a <= seq && seq <= *b);
            prop_assert_eq!(removed.contains(seq), expected);
        }
    }
}
