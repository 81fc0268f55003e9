//! Roles.

use serde::{Deserialize, Serialize};

/// What a person may do. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Watch all sessions.
    Viewer,
    /// Answer requests, and revoke grants.
    Approver,
    /// Create, prompt, steer, cancel, change and delete sessions.
    Driver,
    /// Manage people.
    Admin,
}

impl Role {
    /// All roles, weakest first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Approver, Self::Driver, Self::Admin];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Driver => "driver",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("no such role: {text:?}; use viewer, approver, driver or admin"))
    }
}
