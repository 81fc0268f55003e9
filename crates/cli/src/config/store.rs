//! Where sessions are stored: a file in the home, or a database that several servers share.

use anyhow::Context;
use baton_core::AgentLimits;
use baton_postgres::DatabaseLocation;
use baton_runtime::cluster::Recovery;
use serde::Deserialize;

use super::Sourced;
use super::limit::Limit;

/// The `[store]` table of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StoreTable {
    /// How long unused sessions are kept, such as `90d`.
    pub(super) keep: Option<String>,
    /// URL of the database.
    pub(super) url: Option<String>,
    /// Name of the machines that have the same working directories.
    pub(super) place: Option<String>,
}

/// The `[recovery]` table of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RecoveryTable {
    /// What becomes of work that a dead server left in sessions without clients: `wait` or `continue`.
    unattended: Option<String>,
}

impl RecoveryTable {
    pub(super) fn choose(&self, file: &str) -> anyhow::Result<Sourced<Recovery>> {
        let value = match self.unattended.as_deref() {
            None => return Ok(Sourced { value: Recovery::Wait, source: "default".into() }),
            Some("wait") => Recovery::Wait,
            Some("continue") => Recovery::Continue,
            Some(other) => {
                anyhow::bail!("unknown value {other:?} of [recovery] unattended: use wait or continue")
            }
        };
        Ok(Sourced { value, source: file.to_owned() })
    }
}

/// The `[agents]` table of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentsTable {
    /// Sub-agents of a session that work at the same time.
    at_once: Option<Limit>,
    /// Sub-agents of one turn.
    per_turn: Option<Limit>,
}

impl AgentsTable {
    pub(super) fn limits(&self) -> AgentLimits {
        let default = AgentLimits::default();
        let or = |value: Option<Limit>, default| value.map_or(default, Limit::get);
        AgentLimits {
            at_once: or(self.at_once, default.at_once),
            per_turn: or(self.per_turn, default.per_turn),
        }
    }
}

/// The store of sessions.
#[derive(Debug, Clone)]
pub(crate) enum StoreChoice {
    /// A file in the home.
    File,
    /// A database.
    Database(Box<DatabaseLocation>),
}

impl std::fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File => f.write_str("a file in the home"),
            Self::Database(location) => location.fmt(f),
        }
    }
}

/// Parses the chosen URL; an empty one means the file. Other users can read the arguments of a process, so a password must
/// not be in one.
pub(super) fn choose(url: &Sourced<String>, password: Option<&str>) -> anyhow::Result<StoreChoice> {
    if url.value.is_empty() {
        return Ok(StoreChoice::File);
    }
    let mut location: DatabaseLocation = url.value.parse().with_context(|| format!("from {}", url.source))?;
    anyhow::ensure!(
        url.source != "flag" || location.password().is_none(),
        "other users of this machine can read a password in --store; pass it in PGPASSWORD, or the whole URL in \
         BATON_STORE or in the configuration file"
    );
    if let Some(password) = password {
        location.password_if_missing(password);
    }
    Ok(StoreChoice::Database(Box::new(location)))
}

/// Checks the name of a place.
pub(super) fn place(name: Sourced<String>) -> anyhow::Result<Sourced<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    anyhow::ensure!(
        !name.value.is_empty() && name.value.len() <= 100 && name.value.chars().all(is_plain),
        "the place {:?} must consist of up to 100 letters, digits and . _ - :",
        name.value
    );
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::loaded;
    use super::*;

    fn flag(url: &str) -> Sourced<String> {
        Sourced { value: url.into(), source: "flag".into() }
    }

    #[test]
    fn password_on_the_command_line_is_refused() {
        let error = choose(&flag("postgres://me:hunter2@db/x"), None).unwrap_err().to_string();
        assert!(error.contains("BATON_STORE") && !error.contains("hunter2"), "{error}");
        let StoreChoice::Database(location) = choose(&flag("postgres://me@db/x"), Some("secret")).unwrap()
        else {
            panic!("a file was chosen")
        };
        assert_eq!(
            (location.to_string().as_str(), location.password().as_deref()),
            ("postgres://me@db/x", Some("secret"))
        );
    }

    #[test]
    fn store_comes_from_the_environment_or_the_file_and_is_a_file_by_default() {
        let file = "[store]\nurl = \"postgres://me:hunter2@db/file\"\nplace = \"rack-1\"";
        let config = loaded(&[], file).unwrap();
        assert_eq!(
            (config.store.value.to_string(), config.place.value),
            ("postgres://me@db/file".into(), "rack-1".into())
        );
        let config = loaded(&[("BATON_STORE", "postgres://me@db/env")], file).unwrap();
        assert_eq!(
            (config.store.value.to_string(), &*config.store.source),
            ("postgres://me@db/env".into(), "$BATON_STORE")
        );
        let config = loaded(&[], "").unwrap();
        assert!(matches!(config.store.value, StoreChoice::File) && !config.place.value.is_empty());
        for (wrong, expected) in
            [("mysql://x", "postgres://USER@HOST"), ("postgres://me:hunter2@db:x/y", "malformed store URL")]
        {
            let error = format!("{:#}", loaded(&[("BATON_STORE", wrong)], "").unwrap_err());
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
