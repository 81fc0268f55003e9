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
        // Out-of-range numbers can only come from a damaged history; show the epoch rather than fail.
        let time = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.parse::<jiff::Timestamp>()?.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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
}
