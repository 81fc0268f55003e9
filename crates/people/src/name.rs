//! Names of people.

use serde::{Deserialize, Serialize};

/// Name of a person, as events and the audit show it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PersonName(String);

/// Names that events use for clients that are no people.
const RESERVED: [&str; 8] = ["owner", "http", "crush", "import", "fork", "terminal", "baton", "system"];

impl PersonName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PersonName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for PersonName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_@+".contains(&b));
        if text.is_empty() || text.len() > 64 || !is_plain {
            return Err(format!("{text:?} is not a name: use 1 to 64 letters, digits and any of . - _ @ +"));
        }
        if RESERVED.contains(&text.to_ascii_lowercase().as_str()) {
            return Err(format!("the name {text:?} is reserved; choose another"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for PersonName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PersonName> for String {
    fn from(name: PersonName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_imitate_other_authors() {
        for good in ["ada", "Ada.L", "a@b.example", "x-1_2+3"] {
            assert!(good.parse::<PersonName>().is_ok(), "{good}");
        }
        for bad in
            ["", "HTTP API", "SDK client 1", "owner", "Owner", "crush", "a\u{202e}b", "a\nb", &"x".repeat(65)]
        {
            assert!(bad.parse::<PersonName>().is_err(), "{bad}");
        }
    }
}
