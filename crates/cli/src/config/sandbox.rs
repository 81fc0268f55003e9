//! The sandbox of sessions that have none of their own.

use std::path::{Path, PathBuf};

use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};
use serde::Deserialize;

use super::{Environment, Sourced};

/// The `[sandbox]` table of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxTable {
    /// `read-only`, `workspace` or `off`.
    level: Option<SandboxLevel>,
    /// Paths that programs may write, beside the working directory.
    write: Vec<PathBuf>,
    /// Paths that programs may read although they are hidden by default.
    read: Vec<PathBuf>,
    /// Paths that are hidden, beside the secrets that always are.
    hide: Vec<PathBuf>,
    /// `none` or `asked`.
    network: Option<SandboxNetwork>,
    /// Hosts that programs may reach without a request.
    hosts: Vec<String>,
}

impl SandboxTable {
    /// Returns the sandbox. A level that the file names is chosen; rules alone change the default.
    pub(super) fn choose(
        self,
        environment: &Environment,
        file: &str,
    ) -> anyhow::Result<Sourced<SandboxChoice>> {
        let level = self.level.unwrap_or(SandboxLevel::Workspace);
        let paths = |name: &str, paths: Vec<PathBuf>| -> anyhow::Result<Vec<String>> {
            paths.iter().map(|path| absolute(path, name, environment)).collect()
        };
        let policy = SandboxPolicy {
            write: paths("write", self.write)?,
            read: paths("read", self.read)?,
            hide: paths("hide", self.hide)?,
            network: self.network.unwrap_or(SandboxPolicy::of(level).network),
            hosts: self.hosts,
            level,
        };
        let choice = SandboxChoice { policy, chosen: self.level.is_some() };
        let source = if choice == SandboxChoice::default() { "default" } else { file };
        Ok(Sourced { value: choice, source: source.to_owned() })
    }
}

/// Returns an absolute path. A leading `~/` stands for the user's home.
fn absolute(path: &Path, name: &str, environment: &Environment) -> anyhow::Result<String> {
    let expanded = match (path.strip_prefix("~"), environment.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path.to_owned(),
    };
    match expanded.to_str() {
        Some(text) if expanded.is_absolute() => Ok(text.to_owned()),
        _ => anyhow::bail!("[sandbox] {name}: {} is not an absolute path", path.display()),
    }
}

/// Returns the sandbox with the level of a flag, if there is one. The rules of the file stay.
pub(crate) fn with_level(choice: &SandboxChoice, level: Option<SandboxLevel>) -> SandboxChoice {
    let Some(level) = level else { return choice.clone() };
    let network = match level {
        SandboxLevel::ReadOnly => SandboxNetwork::None,
        SandboxLevel::Workspace | SandboxLevel::Off => choice.policy.network,
    };
    SandboxChoice::of_user(SandboxPolicy { level, network, ..choice.policy.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> anyhow::Result<SandboxChoice> {
        let table: SandboxTable = toml::from_str(text)?;
        let environment = Environment::from_iter([("HOME".to_owned(), "/home/ada".to_owned())]);
        Ok(table.choose(&environment, "config.toml")?.value)
    }

    #[test]
    fn level_of_the_file_is_chosen_and_rules_alone_are_not() {
        assert_eq!(chosen("").unwrap(), SandboxChoice::default());
        let read_only = chosen("level = 'read-only'").unwrap();
        assert_eq!(read_only, SandboxChoice::of_user(SandboxPolicy::of(SandboxLevel::ReadOnly)));
        let rules = chosen("write = ['~/cache', '/srv']\nhosts = ['example.org']").unwrap();
        assert_eq!(rules.policy.write, ["/home/ada/cache", "/srv"]);
        assert!(!rules.chosen && rules.policy.hosts == ["example.org"]);
        for wrong in ["write = ['cache']", "level = 'none'", "levels = 'off'"] {
            assert!(chosen(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flag_replaces_the_level_and_keeps_the_rules() {
        let file = chosen("level = 'off'\nhide = ['/secret']").unwrap();
        assert_eq!(with_level(&file, None), file);
        let flag = with_level(&file, Some(SandboxLevel::ReadOnly));
        assert!(flag.chosen && flag.policy.hide == ["/secret"]);
        assert_eq!((flag.policy.level, flag.policy.network), (SandboxLevel::ReadOnly, SandboxNetwork::None));
    }
}
