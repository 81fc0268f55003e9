//! `[engines.NAME]` of the configuration file: how programs of other agents are run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use baton_engines::{EngineSettings, Mode, TimeLimits};
use serde::Deserialize;

/// The table of one engine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EngineTable {
    /// Path of the program, if it is not found on PATH under its usual name.
    program: Option<PathBuf>,
    /// Additional arguments.
    args: Vec<String>,
    /// Additional environment variables.
    env: BTreeMap<String, String>,
    mode: ModeName,
    /// Sandbox for the engine's commands, by the engine's own name for it.
    sandbox: Option<String>,
    /// Whether the whole program runs in the sandbox of the session.
    inside: bool,
    limits: LimitsTable,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeName {
    #[default]
    Interactive,
    Exec,
}

/// Time limits in seconds; 0 is no limit.
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
            inside: table.inside,
        }
    }
}

impl From<LimitsTable> for TimeLimits {
    fn from(table: LimitsTable) -> Self {
        let default = Self::default();
        let pick = |seconds: Option<u64>, default| match seconds {
            None => default,
            Some(0) => None,
            Some(seconds) => Some(Duration::from_secs(seconds)),
        };
        Self {
            startup: pick(table.startup, default.startup),
            silence: pick(table.silence, default.silence),
            total: pick(table.total, default.total),
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
    fn empty_table_has_the_defaults() {
        let settings = check("");
        assert_eq!(settings.limits, TimeLimits::default());
        assert_eq!(settings.mode, Mode::Interactive);
    }

    #[test]
    fn limits_are_seconds_and_zero_is_no_limit() {
        let settings = check("mode = \"exec\"\nargs = [\"-p\"]\n[limits]\nsilence = 5\ntotal = 0");
        assert_eq!(settings.limits.silence, Some(Duration::from_secs(5)));
        assert_eq!((settings.limits.total, settings.limits.startup), (None, TimeLimits::default().startup));
        assert_eq!((settings.mode, settings.extra_args.len()), (Mode::Exec, 1));
    }

    #[test]
    fn unknown_keys_and_modes_are_errors() {
        for wrong in ["programm = \"x\"", "mode = \"batch\"", "[limits]\nstart = 1"] {
            assert!(toml::from_str::<EngineTable>(wrong).is_err(), "{wrong}");
        }
    }
}
