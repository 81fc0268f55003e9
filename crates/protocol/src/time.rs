//! Timestamps in the format of the wire.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time in milliseconds since 1970, UTC. On the wire an ISO 8601 text with three decimals and a
/// `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads the system clock. The core never calls this; it receives the time with each input.
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// Returns the milliseconds since 1970.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(text) = Text::of(*self) {
            return f.write_str(text.as_str());
        }
        // Out-of-range numbers can only come from a damaged history; show the epoch rather than fail.
        let time = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

/// The last day that the general formatter knows in whole, counted from 1970.
const LAST_DAY: u64 = 2_932_895;

/// The text of a time between the years 1970 and 9999. Every event has one, so it is written without the general formatter,
/// which takes a tenth of the instructions of a turn in the core.
struct Text([u8; 24]);

impl Text {
    /// None for other years.
    fn of(Timestamp(millis): Timestamp) -> Option<Self> {
        const DAY: u64 = 86_400_000;
        let millis = u64::try_from(millis).ok().filter(|millis| millis / DAY < LAST_DAY)?;
        let (year, month, day) = date(millis / DAY);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |from: usize, length: usize, mut number: u64| {
            for at in (from..from + length).rev() {
                text[at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, millis / 3_600_000 % 24);
        put(14, 2, millis / 60_000 % 60);
        put(17, 2, millis / 1000 % 60);
        put(20, 3, millis % 1000);
        Some(Self(text))
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Returns year, month and day of a number of days since 1970. Years are counted from March, so that the leap day is the
/// last one, and months have a regular pattern: 153 days in each five.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.parse::<jiff::Timestamp>()?.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Text::of(*self) {
            Some(text) => serializer.serialize_str(text.as_str()),
            None => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_has_three_decimals_and_z() {
        assert_eq!(Timestamp(1_794_774_653_223).to_string(), "2026-11-15T20:30:53.223Z");
        assert_eq!(Timestamp(1_794_774_653_000).to_string(), "2026-11-15T20:30:53.000Z");
        assert_eq!("2026-11-15T20:30:53.223Z".parse::<Timestamp>().unwrap(), Timestamp(1_794_774_653_223));
    }

    #[test]
    fn text_is_that_of_the_general_formatter() {
        let day = 86_400_000;
        // Days of all years, each at a time of its own, and both sides of the range that is written by hand.
        let days = (-2_i64..2_932_900).step_by(11).map(|at| at * day + at.rem_euclid(day));
        for millis in days.chain([i64::MIN, -1, 0, 253_402_207_200_999, 253_402_300_800_000, i64::MAX]) {
            let expected = format!("{:.3}", jiff::Timestamp::from_millisecond(millis).unwrap_or_default());
            assert_eq!(Timestamp(millis).to_string(), expected, "{millis}");
        }
    }
}
