//! The sandbox of sessions that have none of their own.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};
use baton_sandbox::Limits;
use serde::Deserialize;

use super::show::TableRows;
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
    /// Limits of one command.
    limits: LimitsTable,
}

/// The `[sandbox.limits]` table of the configuration file.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    /// Processes at the same time.
    processes: Option<NonZero<u64>>,
    /// Memory of all processes together.
    memory_mb: Option<NonZero<u64>>,
    /// Open files of one process.
    files: Option<NonZero<u64>>,
    /// Space that a command must leave on each disk that it can write.
    free_space_mb: Option<u64>,
    /// Time until a command is ended.
    seconds: Option<NonZero<u64>>,
}

impl LimitsTable {
    /// Returns the limits, with the usual ones for those that the file leaves out.
    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::default();
        let or = |limit: Option<NonZero<u64>>, usual| limit.map_or(usual, NonZero::get);
        Limits {
            processes: or(self.processes, usual.processes),
            memory: self.memory_mb.map_or(usual.memory, |megabytes| megabytes.get().saturating_mul(1 << 20)),
            files: or(self.files, usual.files),
            free_space: self
                .free_space_mb
                .map_or(usual.free_space, |megabytes| megabytes.saturating_mul(1 << 20)),
            seconds: or(self.seconds, usual.seconds),
        }
    }

    /// Adds rows for `baton config`.
    pub(super) fn show(&self, rows: &mut TableRows<'_>) {
        let usual = Limits::default();
        rows.add("processes", self.processes, &usual.processes);
        rows.add("memory_mb", self.memory_mb, &(usual.memory >> 20));
        rows.add("files", self.files, &usual.files);
        rows.add("free_space_mb", self.free_space_mb, &(usual.free_space >> 20));
        rows.add("seconds", self.seconds, &usual.seconds);
    }
}

impl SandboxTable {
    pub(super) fn limits(&self) -> LimitsTable {
        self.limits.clone()
    }

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
    fn limits_of_the_file_replace_the_usual_ones() {
        let table: SandboxTable = toml::from_str("[limits]\nmemory_mb = 100\nseconds = 5").unwrap();
        let usual = Limits::default();
        assert_eq!(table.limits().limits(), Limits { memory: 100 << 20, seconds: 5, ..usual });
        for wrong in ["[limits]\nprocesses = 0", "[limits]\nmemory = 1", "[limits]\nseconds = -1"] {
            assert!(toml::from_str::<SandboxTable>(wrong).is_err(), "{wrong}");
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
