//! The supported programs: name, installation, login, adapter.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::acp::{Acp, AcpProgram};
use crate::adapter::Adapter;
use crate::claude::{ClaudeControl, ClaudeExec};
use crate::codex::{self, CodexAppServer, CodexExec};
use crate::locks::Locks;
use crate::opencode::{self, OpencodeExec};
use crate::pi::{PiExec, PiRpc};
use crate::{EngineResources, EngineSettings, Mode};

/// Properties of a program.
#[derive(Debug, Clone)]
pub(crate) struct ProgramInfo {
    pub(crate) name: &'static str,
    /// The name of the executable on the PATH.
    pub(crate) command: &'static str,
    /// How to install it, in a sentence.
    pub(crate) install: &'static str,
    /// How to log in, in a sentence.
    pub(crate) login: &'static str,
    /// Variables of [`KEYS`] that it can log in with. The others are withheld from it.
    keys: &'static [&'static str],
    /// The oldest supported version.
    pub(crate) oldest: [u64; 3],
    /// Extra arguments that are not allowed: Baton sets them itself, or they would change the output format.
    reserved_args: &'static [&'static str],
    adapter: fn(&ProgramInfo, Mode) -> Box<dyn Adapter>,
}

/// Prefix of the names of programs that speak ACP and are described by the settings, such as `acp:goose`.
pub const ACP_PREFIX: &str = "acp:";

/// Variables that hold keys of models. A program gets those that it can use itself: its commands see its environment, and
/// with it a key that it never needed.
const KEYS: &[&str] = &[
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
];

/// The programs that are supported without a description in the settings.
pub(crate) const PROGRAMS: [ProgramInfo; 6] = [
    ProgramInfo {
        name: "codex",
        command: "codex",
        install: "Install it with `npm install -g @openai/codex`.",
        login: codex::LOGIN,
        keys: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
        oldest: [0, 100, 0],
        reserved_args: &[
            "--json",
            "--skip-git-repo-check",
            "--output-schema",
            "--output-last-message",
            "--color",
            "-o",
        ],
        adapter: |_, mode| match mode {
            Mode::Interactive => Box::<CodexAppServer>::default(),
            Mode::Exec => Box::<CodexExec>::default(),
        },
    },
    ProgramInfo {
        name: "claude",
        command: "claude",
        install: "Install it with `npm install -g @anthropic-ai/claude-code`.",
        login: "Log in by running `claude` once, or set ANTHROPIC_API_KEY.",
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        oldest: [2, 0, 0],
        reserved_args: &[
            "-p",
            "--print",
            "--input-format",
            "--output-format",
            "--permission-prompt-tool",
            "--resume",
            "-r",
            "--continue",
            "-c",
            "--session-id",
            "--fork-session",
        ],
        adapter: |_, mode| match mode {
            Mode::Interactive => Box::<ClaudeControl>::default(),
            Mode::Exec => Box::<ClaudeExec>::default(),
        },
    },
    ProgramInfo {
        name: "pi",
        command: "pi",
        install: "Install it with `npm install -g @mariozechner/pi-coding-agent`.",
        login: "Log in with `/login` in `pi`, or set the provider's API key.",
        keys: KEYS,
        oldest: [0, 70, 0],
        reserved_args: &[
            "-p",
            "--print",
            "--mode",
            "--session",
            "--resume",
            "-r",
            "--continue",
            "-c",
            "--fork",
            "--no-session",
        ],
        adapter: |_, mode| match mode {
            Mode::Interactive => Box::<PiRpc>::default(),
            Mode::Exec => Box::<PiExec>::default(),
        },
    },
    ProgramInfo {
        name: "opencode",
        command: "opencode",
        install: "Install it with `npm install -g opencode-ai`.",
        login: "Log in with `opencode auth login`, or set the provider's API key.",
        keys: KEYS,
        oldest: [1, 0, 0],
        reserved_args: &["run", "acp", "serve", "--format", "--session", "-s", "--continue", "-c", "--fork"],
        adapter: |_, mode| match mode {
            Mode::Interactive => Box::new(Acp::new(opencode::ACP)),
            Mode::Exec => Box::<OpencodeExec>::default(),
        },
    },
    ProgramInfo {
        name: "gemini",
        command: "gemini",
        install: "Install it with `npm install -g @google/gemini-cli`.",
        login: "Log in by running `gemini` once, or set GEMINI_API_KEY.",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        oldest: [0, 30, 0],
        reserved_args: &["--acp", "--experimental-acp", "--output-format", "-o", "--resume", "-r"],
        adapter: |_, _| {
            Box::new(Acp::new(AcpProgram {
                name: "gemini --acp",
                args: &["--acp"],
                permissions: &[],
                failure_log: None,
            }))
        },
    },
    ProgramInfo {
        name: "qwen",
        command: "qwen",
        install: "Install it with `npm install -g @qwen-code/qwen-code`.",
        login: "Log in by running `qwen` once, or set OPENAI_API_KEY and the engine's `args` to `--auth-type openai`.",
        keys: &["OPENAI_API_KEY"],
        oldest: [0, 10, 0],
        reserved_args: &[
            "--acp",
            "--experimental-acp",
            "--output-format",
            "-o",
            "--resume",
            "-r",
            "--continue",
            "-c",
        ],
        adapter: |_, _| {
            Box::new(Acp::new(AcpProgram {
                name: "qwen --acp",
                args: &["--acp"],
                permissions: &[],
                failure_log: None,
            }))
        },
    },
];

impl ProgramInfo {
    /// Describes a program that speaks ACP and is configured in the settings, which name its arguments.
    pub(crate) fn configured(name: &str) -> Option<Self> {
        let command = name.strip_prefix(ACP_PREFIX).filter(|command| !command.is_empty())?;
        // Leaked once for each engine of the settings: names are used for the lifetime of the process.
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Some(Self {
            name: leak(name),
            command: leak(command),
            install: "Set the engine's `program` to where it is.",
            login: "Log in as the program's documentation describes.",
            // The user chose the program; which models it uses is not known.
            keys: KEYS,
            oldest: [0, 0, 0],
            reserved_args: &[],
            adapter: |info, _| {
                Box::new(Acp::new(AcpProgram {
                    name: info.name,
                    args: &[],
                    permissions: &[],
                    failure_log: None,
                }))
            },
        })
    }

    /// Whether the program can use a variable: all but keys of models that are not its own.
    fn may_see(&self, name: &OsStr) -> bool {
        self.keys.iter().any(|key| name == *key) || !KEYS.iter().any(|key| name == *key)
    }

    /// Returns advice to the user for common errors.
    pub(crate) fn advice(&self, error: &str) -> Option<&'static str> {
        let error = error.to_ascii_lowercase();
        let is_about_login = ["401", "unauthorized", "authenticat", "not logged in", "login", "api key"]
            .iter()
            .any(|word| error.contains(word));
        is_about_login.then_some(self.login)
    }
}

/// A program with its settings.
pub(crate) struct Program {
    pub(crate) info: ProgramInfo,
    pub(crate) settings: EngineSettings,
    pub(crate) resources: Arc<EngineResources>,
    pub(crate) locks: Locks,
}

impl Program {
    pub(crate) fn adapter(&self) -> Box<dyn Adapter> {
        (self.info.adapter)(&self.info, self.settings.mode)
    }

    /// Finds the executable. Blocks.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let command = self.settings.program.clone().unwrap_or_else(|| self.info.command.into());
        if command.components().count() > 1 {
            return is_executable(&command).then_some(command);
        }
        let path = self.variable("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(&command))
            .find(|path| is_executable(path))
    }

    /// Returns a variable of its environment.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.settings.environment.get(name).map(OsString::from);
        set.or_else(|| self.inherited().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
    }

    /// Returns its environment. The settings take precedence, then that of the server, then the needs of the adapter.
    pub(crate) fn environment(&self, needed: &[(&'static str, &'static str)]) -> Vec<(OsString, OsString)> {
        let needed = needed.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let set = self.settings.environment.iter().map(|(name, value)| (name.into(), value.into()));
        needed.chain(self.inherited().cloned()).chain(set).collect()
    }

    /// Returns the variables of the server that it can use.
    fn inherited(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.resources.environment.iter().filter(|(name, _)| self.info.may_see(name))
    }

    /// Returns the message for a missing executable.
    pub(crate) fn not_installed(&self) -> String {
        let ProgramInfo { name, install, .. } = &self.info;
        match &self.settings.program {
            Some(path) => {
                format!("{name} is not at {}. Correct the engine's `program`. {install}", path.display())
            }
            None => format!("{name} is not installed. {install}"),
        }
    }

    /// Returns the message for settings that are not allowed.
    pub(crate) fn settings_error(&self) -> Option<String> {
        let reserved = self.settings.extra_args.iter().find(|argument| self.is_reserved(argument))?;
        Some(format!(
            "The engine {} has the extra argument {reserved}, which Baton sets itself. Remove it.",
            self.info.name
        ))
    }

    fn is_reserved(&self, argument: &str) -> bool {
        let flag = argument.split('=').next().unwrap_or(argument);
        self.info.reserved_args.contains(&flag)
    }
}

/// Whether this is an executable file. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_get_the_keys_that_they_use() {
        let names = |name: &str| -> Vec<String> {
            let info = PROGRAMS.into_iter().find(|info| info.name == name);
            let info = info.or_else(|| ProgramInfo::configured(name)).unwrap();
            let variables = ["PATH", "DATABASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
            let environment = variables.map(|name| (name.into(), "value".into())).to_vec();
            let resources = Arc::new(EngineResources { environment, scratch: PathBuf::new() });
            let settings = EngineSettings::default();
            let program = Program { info, settings, resources, locks: Locks::default() };
            assert_eq!(
                program.variable("OPENAI_API_KEY").is_some(),
                program.info.keys.contains(&"OPENAI_API_KEY")
            );
            let environment = program.environment(&[]).into_iter().skip(2);
            environment.map(|(name, _)| name.into_string().unwrap()).collect()
        };
        assert_eq!(names("codex"), ["OPENAI_API_KEY"]);
        assert_eq!(names("claude"), ["ANTHROPIC_API_KEY"]);
        assert_eq!(names("gemini"), ["GEMINI_API_KEY"]);
        for any in ["pi", "opencode", "acp:mine"] {
            assert_eq!(names(any), ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"], "{any}");
        }
    }
}
