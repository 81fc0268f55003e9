//! Parses a limit of the configuration file. Errors are in plain words and name no Rust type.

use std::fmt;

use serde::Deserialize;

/// A whole number of at least 1: a limit of 0 would be a feature that is switched off by accident.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Limit(usize);

impl Limit {
    pub(super) fn get(self) -> usize {
        self.0
    }
}

impl TryFrom<i64> for Limit {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match usize::try_from(number) {
            Ok(limit @ 1..) => Ok(Self(limit)),
            _ => Err(format!("{number} is not a whole number of at least 1")),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
