//! Facts about a program, and a program with its settings.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::acp::{Acp, AcpProgram};
use crate::adapter::Adapter;
use crate::locks::Locks;
use crate::login::Credentials;
use crate::programs::PROGRAMS;
use crate::{EngineResources, EngineSettings, Mode};

/// Everything that Baton knows about a program beside its protocol. Each module of [`programs`](crate::programs) has one;
/// help texts, `baton doctor`, trust in directories, guarded files and environments are derived from it.
#[derive(Debug, Clone)]
pub(crate) struct ProgramInfo {
    /// The engine's name: sessions select it with their model, users with `--engine`.
    pub(crate) name: &'static str,
    /// The name of the executable on the PATH.
    pub(crate) command: &'static str,
    /// How to install it, in a sentence.
    pub(crate) install: &'static str,
    /// How to log in, in a sentence.
    pub(crate) login: &'static str,
    /// Keys of models that it can log in with. The others are withheld from it.
    pub(crate) keys: Keys,
    /// Traces of a login in a mode. None if files and variables do not tell whether there is one.
    pub(crate) credentials: fn(Mode) -> Option<Credentials>,
    /// Files and directories of a project from which it runs hooks, servers or plugins without asking. The first start in
    /// a project that has one asks the user, and so does each write to one.
    pub(crate) project_files: &'static [&'static str],
    /// Files of a project whose variables its commands inherit: `BASH_ENV` names a script that every shell runs. The first
    /// start asks the user. A write does not: projects have these files for themselves.
    pub(crate) variable_files: &'static [&'static str],
    /// Files and directories of the user from which it runs hooks, servers or plugins, relative to the home directory. Each
    /// write to one asks the user.
    pub(crate) user_files: &'static [&'static str],
    /// What it reads and writes in the home directory for itself: its login, its settings, its conversations. In the sandbox
    /// of a session, it has nothing else of the user's.
    pub(crate) state: &'static [&'static str],
    /// The oldest supported version.
    pub(crate) oldest: [u64; 3],
    /// Extra arguments that are not allowed: Baton sets them itself, or they would change the output format.
    pub(crate) reserved_args: &'static [&'static str],
    /// Creates the program's protocol.
    pub(crate) adapter: fn(&ProgramInfo, Mode) -> Box<dyn Adapter>,
}

/// Variables with keys of models that a program can use itself. It gets no others: its commands see its environment, and
/// with it a key that it never needed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// These.
    Own(&'static [&'static str]),
    /// The keys of all programs: it can use the models of any provider.
    Any,
}

impl Keys {
    fn has(self, name: &OsStr) -> bool {
        match self {
            Self::Own(names) => names.iter().any(|own| name == *own),
            Self::Any => PROGRAMS.iter().any(|program| match program.keys {
                Self::Own(names) => names.iter().any(|own| name == *own),
                Self::Any => false,
            }),
        }
    }
}

/// Prefix of the names of programs that speak ACP and are described by the settings, such as `acp:goose`.
pub const ACP_PREFIX: &str = "acp:";

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
            // The user chose the program; which models and which files it uses is not known.
            keys: Keys::Any,
            credentials: |_| None,
            project_files: of_all(|info| info.project_files).leak(),
            variable_files: of_all(|info| info.variable_files).leak(),
            user_files: &[],
            state: &[],
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
        self.keys.has(name) || !Keys::Any.has(name)
    }

    /// Returns the files and directories of a project that the program acts on when it is started there.
    pub(crate) fn active_files(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.project_files.iter().chain(self.variable_files).copied()
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

/// Returns the files of all programs, each once.
pub(crate) fn of_all(files: fn(&ProgramInfo) -> &'static [&'static str]) -> Vec<&'static str> {
    let mut all = Vec::new();
    for file in PROGRAMS.iter().flat_map(files) {
        if !all.contains(file) {
            all.push(*file);
        }
    }
    all
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

    /// Returns the files and directories of the user that the program keeps its state in.
    pub(crate) fn state(&self) -> Vec<PathBuf> {
        let home = self.variable("HOME").map(PathBuf::from);
        home.iter().flat_map(|home| self.info.state.iter().map(|name| home.join(name))).collect()
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
            let info = PROGRAMS.iter().find(|info| info.name == name).cloned();
            let info = info.or_else(|| ProgramInfo::configured(name)).unwrap();
            let variables = ["PATH", "DATABASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
            let environment = variables.map(|name| (name.into(), "value".into())).to_vec();
            let resources = Arc::new(EngineResources { environment, scratch: PathBuf::new() });
            let settings = EngineSettings::default();
            let program = Program { info, settings, resources, locks: Locks::default() };
            assert_eq!(
                program.variable("OPENAI_API_KEY").is_some(),
                program.info.keys.has("OPENAI_API_KEY".as_ref())
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

    /// Checks that a page has a row that begins with the first cell, and that the row has the other cells.
    #[track_caller]
    fn check_row(path: &str, page: &str, first: &str, others: &[String]) {
        let start = format!("| {first} |");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{path} has no row \"{start} ...\": add it"));
        for cell in others {
            assert!(
                row.contains(&format!("| {cell} |")),
                "{path} has a row {row:?}: it needs the cell {cell}"
            );
        }
    }

    #[test]
    fn pages_list_every_program() {
        let engines = ("docs/engines.md", include_str!("../../../docs/engines.md"));
        let environment = ("docs/environment.md", include_str!("../../../docs/environment.md"));
        for ProgramInfo { name, install, keys, .. } in PROGRAMS {
            assert!(engines.1.contains(&format!("`{name}`")), "{} has no model `{name}`: add it", engines.0);
            let command = install.split('`').nth(1).unwrap();
            check_row(engines.0, engines.1, name, &[format!("`{command}`")]);
            match keys {
                Keys::Own(own) => {
                    let keys: Vec<_> = own.iter().map(|key| format!("`{key}`")).collect();
                    check_row(environment.0, environment.1, name, &[keys.join(", ")]);
                }
                Keys::Any => {
                    let all = environment.1.lines().find(|line| line.ends_with("models of any provider |"));
                    let lists_it = all.is_some_and(|line| line.contains(name));
                    assert!(lists_it, "{}: {name} gets the keys of all models, too: add it", environment.0);
                }
            }
        }
        for file in of_all(|info| info.project_files).iter().chain(&of_all(|info| info.variable_files)) {
            assert!(engines.1.contains(&format!("`{file}`")), "{} does not list `{file}`: add it", engines.0);
        }
        for tested in include_str!("../tests/real/programs.txt").lines() {
            let [name, _, version] = tested.split(' ').collect::<Vec<_>>()[..] else { panic!("{tested}") };
            check_row(engines.0, engines.1, name, &[version.to_owned()]);
        }
    }

    #[test]
    fn program_of_the_settings_may_act_on_any_file() {
        let active = |info: &ProgramInfo| -> Vec<_> { info.active_files().collect() };
        let mine = active(&ProgramInfo::configured("acp:mine").unwrap());
        for info in PROGRAMS {
            let own = active(info);
            assert!(!own.is_empty() && own.iter().all(|file| mine.contains(file)), "{own:?} in {mine:?}");
        }
        assert_eq!(mine.iter().filter(|file| **file == ".env").count(), 1, "{mine:?}");
    }
}
