//! Origins of servers: who declared a server, and which declaration of a name counts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::{ConfigError, ServerConfig};

/// Who declared a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// The agent that works on the conversation.
    Agent {
        /// Name of the agent.
        name: String,
    },
    /// A client of the session: an SDK application, an editor.
    #[default]
    Session,
    /// A file of the workspace.
    Workspace {
        /// The file.
        file: PathBuf,
        /// The directory that the file configures.
        root: PathBuf,
    },
    /// The user, in `mcp-config.json` of Baton's home.
    User,
    /// The configuration file of Baton.
    Settings,
    /// A plugin.
    Plugin {
        /// Name of the plugin.
        name: String,
        /// Its version, if it has one.
        version: Option<String>,
        /// Directory of the plugin.
        root: PathBuf,
    },
    /// Baton itself, because the session asks for it.
    BuiltIn,
    /// A file of the workspace that the user has not approved. Listed only: it must not take the place of any other.
    Distrusted {
        /// The file.
        file: PathBuf,
    },
}

impl Origin {
    /// Returns the name that SDKs use; none for servers of the session itself.
    #[must_use]
    pub fn source(&self) -> Option<&'static str> {
        match self {
            Self::Agent { .. } | Self::Session => None,
            Self::Workspace { .. } | Self::Distrusted { .. } => Some("workspace"),
            Self::User | Self::Settings => Some("user"),
            Self::Plugin { .. } => Some("plugin"),
            Self::BuiltIn => Some("builtin"),
        }
    }

    /// Whether the declaration was written by anybody but the user and the user's programs. Such a server is started only
    /// after the user has agreed, and sees none of the user's secrets.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Workspace { .. } | Self::Plugin { .. } | Self::Distrusted { .. })
    }

    /// Returns the directory that contains a foreign declaration.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        match self {
            Self::Workspace { root, .. } | Self::Plugin { root, .. } => Some(root),
            Self::Agent { .. }
            | Self::Session
            | Self::User
            | Self::Settings
            | Self::BuiltIn
            | Self::Distrusted { .. } => None,
        }
    }

    /// Returns the file of a workspace that declares the server.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Workspace { file, .. } | Self::Distrusted { file } => Some(file),
            _ => None,
        }
    }

    /// Position in the order of precedence. The smallest wins: the closer to the task, the stronger.
    fn rank(&self) -> u8 {
        match self {
            Self::Agent { .. } => 0,
            Self::Session => 1,
            Self::Workspace { .. } => 2,
            Self::User => 3,
            Self::Settings => 4,
            Self::Plugin { .. } => 5,
            Self::BuiltIn => 6,
            Self::Distrusted { .. } => 7,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent { name } => write!(f, "the agent {name}"),
            Self::Session => f.write_str("the session"),
            Self::Workspace { file, .. } | Self::Distrusted { file } => write!(f, "{}", file.display()),
            Self::User => f.write_str("the user's servers"),
            Self::Settings => f.write_str("the configuration file"),
            Self::Plugin { name, .. } => write!(f, "the plugin {name}"),
            Self::BuiltIn => f.write_str("Baton itself"),
        }
    }
}

/// A server, as one origin declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Who declared it.
    pub origin: Origin,
    /// Its configuration, or why it cannot be used.
    pub config: Result<ServerConfig, ConfigError>,
}

impl Declared {
    /// Parses a declaration. A foreign one cannot say that the server's hints are trusted: it would decide which of its own
    /// calls need no permission.
    #[must_use]
    pub fn parse(name: &str, value: &serde_json::Value, origin: Origin) -> Self {
        let config = ServerConfig::parse(name, value).map(|config| ServerConfig {
            trusts_hints: config.trusts_hints && !origin.is_foreign(),
            origin: origin.clone(),
            ..config
        });
        Self { name: name.to_owned(), origin, config }
    }

    /// Declares a server that cannot be used.
    #[must_use]
    pub fn unusable(name: &str, problem: impl Into<String>, origin: Origin) -> Self {
        let error = ConfigError { server: name.to_owned(), problem: problem.into() };
        Self { name: name.to_owned(), origin, config: Err(error) }
    }
}

/// The declaration of a name that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The declaration. One that cannot be used still counts: another one in its place would be a surprise.
    pub declared: Declared,
    /// Origins of further declarations of the name, which have no effect.
    pub shadowed: Vec<Origin>,
}

/// Chooses one declaration for each name: the one that is closest to the task, and of several with the same kind of
/// origin, the first.
#[must_use]
pub fn merge(declared: impl IntoIterator<Item = Declared>) -> BTreeMap<String, Chosen> {
    let mut chosen: BTreeMap<String, Chosen> = BTreeMap::new();
    for declared in declared {
        match chosen.get_mut(&declared.name) {
            None => {
                chosen.insert(declared.name.clone(), Chosen { declared, shadowed: Vec::new() });
            }
            Some(known) if declared.origin.rank() < known.declared.origin.rank() => {
                let replaced = std::mem::replace(&mut known.declared, declared);
                known.shadowed.push(replaced.origin);
            }
            Some(known) => known.shadowed.push(declared.origin),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(file: &str) -> Origin {
        Origin::Workspace { file: file.into(), root: "/w".into() }
    }

    fn plugin() -> Origin {
        Origin::Plugin { name: "p".into(), version: None, root: "/p".into() }
    }

    fn agent() -> Origin {
        Origin::Agent { name: "a".into() }
    }

    /// All origins, the strongest first.
    fn by_precedence() -> Vec<Origin> {
        let distrusted = Origin::Distrusted { file: "/w/.mcp.json".into() };
        let workspace = workspace("/w/.mcp.json");
        vec![agent(), Origin::Session, workspace, Origin::User, Origin::Settings, plugin(), distrusted]
    }

    fn declared(origin: &Origin) -> Declared {
        Declared::parse("s", &json!({ "command": origin.to_string() }), origin.clone())
    }

    #[test]
    fn closest_declaration_counts_in_any_order() {
        let all = by_precedence();
        for strong in 0..all.len() {
            for weak in strong + 1..all.len() {
                for pair in [[strong, weak], [weak, strong]] {
                    let merged = merge(pair.iter().map(|index| declared(&all[*index])));
                    assert_eq!(merged["s"].declared.origin, all[strong]);
                    assert_eq!(merged["s"].shadowed, [all[weak].clone()]);
                }
            }
        }
    }

    #[test]
    fn first_of_several_files_counts() {
        let merged = merge([declared(&workspace("/w/a/.mcp.json")), declared(&workspace("/w/.mcp.json"))]);
        assert_eq!(merged["s"].declared.origin, workspace("/w/a/.mcp.json"));
        assert_eq!(merged["s"].shadowed.len(), 1);
    }

    #[test]
    fn unusable_declaration_is_not_replaced_by_a_weaker_one() {
        let broken = Declared::unusable("s", "command: required", Origin::Session);
        let merged = merge([declared(&Origin::User), broken]);
        assert!(merged["s"].declared.config.is_err());
    }

    #[test]
    fn foreign_declaration_is_neither_trusted_nor_shared() {
        let value = json!({ "command": "x", "trustReadOnlyHint": true, "shared": true });
        for origin in by_precedence() {
            let config = Declared::parse("s", &value, origin.clone()).config.unwrap();
            assert_eq!(
                (config.trusts_hints, config.is_shared()),
                (!origin.is_foreign(), !origin.is_foreign())
            );
        }
    }

    #[test]
    fn names_do_not_affect_each_other() {
        let other = Declared::parse("t", &json!({ "command": "x" }), plugin());
        let merged = merge([declared(&Origin::User), other]);
        assert_eq!(merged.len(), 2);
        assert!(merged.values().all(|chosen| chosen.shadowed.is_empty()));
    }

    #[test]
    fn sources_are_those_of_the_protocol() {
        let sources: Vec<_> = by_precedence().iter().map(Origin::source).collect();
        let (workspace, user) = (Some("workspace"), Some("user"));
        assert_eq!(sources, [None, None, workspace, user, user, Some("plugin"), workspace]);
        assert_eq!(by_precedence().iter().filter(|origin| origin.is_foreign()).count(), 3);
    }
}
