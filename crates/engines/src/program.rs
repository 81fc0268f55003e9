//! What is known about each program: its name, how it is installed, how it is spoken to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::acp::{Acp, Speaker};
use crate::claude::{ClaudeControl, ClaudeExec};
use crate::codex::{CodexAppServer, CodexExec};
use crate::dialect::Dialect;
use crate::locks::Locks;
use crate::opencode::{self, OpencodeExec};
use crate::pi::{PiExec, PiRpc};
use crate::{EngineSettings, Mode, Surroundings};

/// What is known about a program.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) name: &'static str,
    /// What it is called on the PATH.
    pub(crate) command: &'static str,
    /// How to get it, in a sentence.
    pub(crate) install: &'static str,
    /// How to log in, in a sentence.
    pub(crate) login: &'static str,
    /// The oldest version that speaks as we expect.
    pub(crate) oldest: [u64; 3],
    /// Arguments that Baton gives itself, or that would change what it hears.
    refused: &'static [&'static str],
    dialect: fn(&Facts, Mode) -> Box<dyn Dialect>,
}

/// Settings whose name begins like this describe a program that speaks ACP, such as `acp:goose`.
pub const ACP_PREFIX: &str = "acp:";

/// All programs that can be engines without being described in the settings.
pub(crate) const PROGRAMS: [Facts; 6] = [
    Facts {
        name: "codex",
        command: "codex",
        install: "Install it with `npm install -g @openai/codex`.",
        login: "Log in with `codex login`.",
        oldest: [0, 100, 0],
        refused: &[
            "--json",
            "--skip-git-repo-check",
            "--output-schema",
            "--output-last-message",
            "--color",
            "-o",
        ],
        dialect: |_, mode| match mode {
            Mode::Interactive => Box::<CodexAppServer>::default(),
            Mode::Exec => Box::<CodexExec>::default(),
        },
    },
    Facts {
        name: "claude",
        command: "claude",
        install: "Install it with `npm install -g @anthropic-ai/claude-code`.",
        login: "Log in by running `claude` once, or set ANTHROPIC_API_KEY.",
        oldest: [2, 0, 0],
        refused: &[
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
        dialect: |_, mode| match mode {
            Mode::Interactive => Box::<ClaudeControl>::default(),
            Mode::Exec => Box::<ClaudeExec>::default(),
        },
    },
    Facts {
        name: "pi",
        command: "pi",
        install: "Install it with `npm install -g @mariozechner/pi-coding-agent`.",
        login: "Log in with `/login` in `pi`, or set the provider's API key.",
        oldest: [0, 70, 0],
        refused: &[
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
        dialect: |_, mode| match mode {
            Mode::Interactive => Box::<PiRpc>::default(),
            Mode::Exec => Box::<PiExec>::default(),
        },
    },
    Facts {
        name: "opencode",
        command: "opencode",
        install: "Install it with `npm install -g opencode-ai`.",
        login: "Log in with `opencode auth login`.",
        oldest: [1, 0, 0],
        refused: &["run", "acp", "serve", "--format", "--session", "-s", "--continue", "-c", "--fork"],
        dialect: |_, mode| match mode {
            Mode::Interactive => Box::new(Acp::new(opencode::SPEAKER)),
            Mode::Exec => Box::<OpencodeExec>::default(),
        },
    },
    Facts {
        name: "gemini",
        command: "gemini",
        install: "Install it with `npm install -g @google/gemini-cli`.",
        login: "Log in by running `gemini` once, or set GEMINI_API_KEY.",
        oldest: [0, 30, 0],
        refused: &["--acp", "--experimental-acp", "--output-format", "-o", "--resume", "-r"],
        dialect: |_, _| Box::new(Acp::new(Speaker { name: "gemini --acp", args: &["--acp"], asking: &[] })),
    },
    Facts {
        name: "qwen",
        command: "qwen",
        install: "Install it with `npm install -g @qwen-code/qwen-code`.",
        login: "Log in by running `qwen` once, or set OPENAI_API_KEY.",
        oldest: [0, 10, 0],
        refused: &[
            "--acp",
            "--experimental-acp",
            "--output-format",
            "-o",
            "--resume",
            "-r",
            "--continue",
            "-c",
        ],
        dialect: |_, _| Box::new(Acp::new(Speaker { name: "qwen --acp", args: &["--acp"], asking: &[] })),
    },
];

impl Facts {
    /// A program that speaks ACP and that only the settings know. Its arguments are those of the settings.
    pub(crate) fn configured(name: &str) -> Option<Self> {
        let command = name.strip_prefix(ACP_PREFIX).filter(|command| !command.is_empty())?;
        // Names are handed around for as long as the process lives, and there are as many as the settings have.
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Some(Self {
            name: leak(name),
            command: leak(command),
            install: "Set the engine's `program` to where it is.",
            login: "Log in as the program's own documentation says.",
            oldest: [0, 0, 0],
            refused: &[],
            dialect: |facts, _| Box::new(Acp::new(Speaker { name: facts.name, args: &[], asking: &[] })),
        })
    }

    /// What a person can do about a failure, if it is one of the usual ones.
    pub(crate) fn advice(&self, why: &str) -> Option<&'static str> {
        let why = why.to_ascii_lowercase();
        let is_about_login = ["401", "unauthorized", "authenticat", "not logged in", "login", "api key"]
            .iter()
            .any(|word| why.contains(word));
        is_about_login.then_some(self.login)
    }
}

/// A program as it is set up here.
pub(crate) struct Program {
    pub(crate) facts: Facts,
    pub(crate) settings: EngineSettings,
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) locks: Locks,
}

impl Program {
    pub(crate) fn dialect(&self) -> Box<dyn Dialect> {
        (self.facts.dialect)(&self.facts, self.settings.mode)
    }

    /// Where it is, if it is there. Blocks.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let command = self.settings.program.clone().unwrap_or_else(|| self.facts.command.into());
        if command.components().count() > 1 {
            return is_program(&command).then_some(command);
        }
        let path = self.variable("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join(&command)).find(|path| is_program(path))
    }

    /// A variable of its environment.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.settings.environment.get(name).map(OsString::from);
        let told = || self.surroundings.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        set.or_else(told)
    }

    /// All of its environment. The settings win, then the surroundings, then what its dialect needs.
    pub(crate) fn environment(&self, needed: &[(&'static str, &'static str)]) -> Vec<(OsString, OsString)> {
        let needed = needed.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let set = self.settings.environment.iter().map(|(name, value)| (name.into(), value.into()));
        needed.chain(self.surroundings.environment.iter().cloned()).chain(set).collect()
    }

    pub(crate) fn not_installed(&self) -> String {
        let Facts { name, install, .. } = &self.facts;
        match &self.settings.program {
            Some(path) => {
                format!("{name} is not at {}. Correct the engine's `program`. {install}", path.display())
            }
            None => format!("{name} is not installed. {install}"),
        }
    }

    /// What is wrong with the settings.
    pub(crate) fn refusal(&self) -> Option<String> {
        let refused = self.settings.extra_args.iter().find(|argument| self.refuses(argument))?;
        Some(format!(
            "The engine {} has the extra argument {refused}, which Baton gives itself. Remove it.",
            self.facts.name
        ))
    }

    fn refuses(&self, argument: &str) -> bool {
        let flag = argument.split('=').next().unwrap_or(argument);
        self.facts.refused.contains(&flag)
    }
}

/// Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
