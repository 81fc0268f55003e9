//! What the programs of a session may touch: the levels of the sandbox, and the rules that widen or narrow one.
//!
//! The walls themselves are built by `baton-sandbox`. Who sets a level, and which one counts, is decided by the session.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;

/// What a program may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// Reads files, except secrets; writes a private temporary directory only. No network.
    ReadOnly,
    /// Also writes the working directory, except files that act. Hosts are asked for.
    Workspace,
    /// Runs with the rights of the server's user.
    Off,
}

impl SandboxLevel {
    /// All levels, strictest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::Off];

    /// Returns the name that people and clients use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Off => "off",
        }
    }

    /// Whether programs run inside a sandbox.
    #[must_use]
    pub fn is_inside(self) -> bool {
        self != Self::Off
    }
}

impl SandboxChoice {
    /// Returns the default of sessions of applications, which run programs outside unless they ask for a sandbox.
    #[must_use]
    pub fn of_applications() -> Self {
        Self { policy: SandboxPolicy::of(SandboxLevel::Off), chosen: false }
    }

    /// Returns a policy that somebody chose.
    #[must_use]
    pub fn of_user(policy: SandboxPolicy) -> Self {
        Self { policy, chosen: true }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a command runs, as it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// In the sandbox, at this level.
    Inside(SandboxLevel),
    /// Outside, although the session has a sandbox.
    Outside,
}

/// Error for an unknown level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown sandbox level {0:?}: use read-only, workspace or off")]
pub struct UnknownLevel(pub String);

impl FromStr for SandboxLevel {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| UnknownLevel(name.to_owned()))
    }
}

/// A level with the rules that change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxPolicy {
    /// The level.
    pub level: SandboxLevel,
    /// Absolute paths that programs may write, beside the working directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Absolute paths that programs may read although they are hidden by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Absolute paths that are hidden, beside the secrets that always are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// What programs may reach.
    pub network: SandboxNetwork,
    /// Hosts that programs may reach without a request, as patterns of URL rules: `example.org`, `127.0.0.1:5432`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl Default for SandboxPolicy {
    fn default() -> Self {
        Self::of(SandboxLevel::Workspace)
    }
}

impl SandboxPolicy {
    /// Returns the first path of the policy that is not absolute. Programs have no other directory to start from.
    #[must_use]
    pub fn relative_path(&self) -> Option<&str> {
        let mut paths = self.write.iter().chain(&self.read).chain(&self.hide);
        paths.find(|path| !path.starts_with('/')).map(String::as_str)
    }

    /// Returns a level without extra rules.
    #[must_use]
    pub fn of(level: SandboxLevel) -> Self {
        let (write, read, hide, hosts) = Default::default();
        let network = match level {
            SandboxLevel::ReadOnly => SandboxNetwork::None,
            SandboxLevel::Workspace | SandboxLevel::Off => SandboxNetwork::Asked,
        };
        Self { level, write, read, hide, network, hosts }
    }
}

/// What programs inside may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxNetwork {
    /// Nothing but other programs of the session.
    None,
    /// Hosts that a rule, a grant or a person allows.
    #[default]
    Asked,
}

/// The policy of a session, and whether somebody chose it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxChoice {
    /// The policy.
    pub policy: SandboxPolicy,
    /// Whether a person or a client chose it. A chosen level never falls back: if the system cannot enforce it, commands are
    /// refused. A level that is only the default never refuses: without a sandbox, commands run outside, and are asked about.
    pub chosen: bool,
}

/// What a program in the sandbox wants although it is inside: the subject of a permission request for which no call waits, so
/// that the request itself names none.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Wall {
    /// It wants to connect to a host.
    Host {
        /// Scheme, host and, unless it is the scheme's own, port.
        origin: String,
        /// The call that runs the program, if it is known.
        tool_call_id: Option<ToolCallId>,
    },
    /// It has created a file that acts, which was moved away.
    File {
        /// Path of the file, relative to the working directory.
        path: String,
        /// Name of the file among the held files of the session.
        kept: String,
        /// The call that ran the program, if it is known.
        tool_call_id: Option<ToolCallId>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_shown() {
        for level in SandboxLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).ok(), Some(level.name().into()));
        }
        assert!("none".parse::<SandboxLevel>().is_err_and(|error| error.to_string().contains("workspace")));
    }
}
