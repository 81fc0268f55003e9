//! Variables of the environment of a client, for the commands of its session.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of variables.
const MAX_VARIABLES: usize = 1000;

/// Maximum size of all names and values, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Variables of a client's environment. They may contain secrets: they are in no event, no stored setting and no log, and are
/// never returned.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct ClientEnvironment(BTreeMap<String, String>);

impl ClientEnvironment {
    /// Returns the variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl TryFrom<BTreeMap<String, String>> for ClientEnvironment {
    type Error = String;

    fn try_from(variables: BTreeMap<String, String>) -> Result<Self, String> {
        let size: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        if variables.len() > MAX_VARIABLES || size > MAX_BYTES {
            return Err(format!(
                "an environment has at most {MAX_VARIABLES} variables and {} KB",
                MAX_BYTES >> 10
            ));
        }
        let is_valid = |name: &str, value: &str| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        match variables.iter().all(|(name, value)| is_valid(name, value)) {
            true => Ok(Self(variables)),
            // The name is not repeated: a malformed variable may be a secret.
            false => Err("a variable has a name, without `=`, and no NUL character".to_owned()),
        }
    }
}

impl fmt::Debug for ClientEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientEnvironment({} variables)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<ClientEnvironment, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ClientEnvironment::try_from(BTreeMap::from_iter(pairs))
    }

    #[test]
    fn variables_are_limited_and_never_shown() {
        let environment = of(&[("PATH", "/bin"), ("SECRET", "hunter2")]).unwrap();
        assert_eq!(environment.variables().next(), Some(("PATH", "/bin")));
        assert_eq!(format!("{environment:?}"), "ClientEnvironment(2 variables)");
        for wrong in [("", "x"), ("hunter2=", "x"), ("A", "hunter2\0")] {
            assert!(!of(&[wrong]).unwrap_err().contains("hunter2"), "{wrong:?}");
        }
        assert!(of(&[("A", &"x".repeat(300_000))]).is_err());
    }
}
