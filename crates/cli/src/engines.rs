//! `[engines.NAME]` in the configuration file: how other agents' programs are run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use baton_engines::{EngineSettings, Limits, Mode};
use serde::Deserialize;

/// The settings of one engine, as people write them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EngineTable {
    /// The program, if it is not the usual name on the PATH.
    program: Option<PathBuf>,
    /// Further arguments.
    args: Vec<String>,
    /// Further variables.
    env: BTreeMap<String, String>,
    mode: ModeName,
    /// The sandbox for its commands, in the program's own words.
    sandbox: Option<String>,
    limits: LimitsTable,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeName {
    #[default]
    Interactive,
    Exec,
}

/// In seconds; 0 is no limit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsTable {
    startup: Option<u64>,
    silence: Option<u64>,
    total: Option<u64>,
}

impl From<EngineTable> for EngineSettings {
    fn from(table: EngineTable) -> Self {
        Self {
            program: table.program,
            extra_args: table.args,
            environment: table.env,
            mode: match table.mode {
                ModeName::Interactive => Mode::Interactive,
                ModeName::Exec => Mode::Exec,
            },
            limits: table.limits.into(),
            sandbox: table.sandbox,
        }
    }
}

impl From<LimitsTable> for Limits {
    fn from(table: LimitsTable) -> Self {
        let usual = Self::default();
        let pick = |seconds: Option<u64>, usual| match seconds {
            None => usual,
            Some(0) => None,
            Some(seconds) => Some(Duration::from_secs(seconds)),
        };
        Self {
            startup: pick(table.startup, usual.startup),
            silence: pick(table.silence, usual.silence),
            total: pick(table.total, usual.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> EngineSettings {
        toml::from_str::<EngineTable>(text).unwrap().into()
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let settings = check("");
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(settings.mode, Mode::Interactive);
    }

    #[test]
    fn limits_are_seconds_and_none_is_zero() {
        let settings = check("mode = \"exec\"\nargs = [\"-p\"]\n[limits]\nsilence = 5\ntotal = 0");
        assert_eq!(settings.limits.silence, Some(Duration::from_secs(5)));
        assert_eq!((settings.limits.total, settings.limits.startup), (None, Limits::default().startup));
        assert_eq!((settings.mode, settings.extra_args.len()), (Mode::Exec, 1));
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in ["programm = \"x\"", "mode = \"batch\"", "[limits]\nstart = 1"] {
            assert!(toml::from_str::<EngineTable>(wrong).is_err(), "{wrong}");
        }
    }
}
