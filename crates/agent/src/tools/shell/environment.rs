//! The environment of commands.
//!
//! It is built once. The guard of Baton's home expands the words of a line from the same value that the shell is started
//! with, so that `"docs/$PAGER"` is judged as what it becomes. A variable whose value only the shell knows is unknown here,
//! not empty: a line that uses it needs approval.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use baton_process::TAG_VARIABLE;

use baton_disk::paths::absolute;

/// Variables that keep commands from prompting and paging, because there is no terminal. A repository's configuration can
/// name a program that even `git status` runs (`core.fsmonitor`); that is disabled.
const NON_INTERACTIVE: [(&str, &str); 12] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", ":"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    // Reading a repository must not write the index, which would run a hook.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    // A write grant must not be enough to turn a directory into a repository with its own configuration.
    ("GIT_CONFIG_KEY_1", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_1", "explicit"),
];

/// Variables of a command, except the tag of its process, which each command has its own of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandEnvironment(BTreeMap<OsString, OsString>);

impl CommandEnvironment {
    /// Builds the environment of Baton's own shells from the variables that are passed on to commands.
    ///
    /// Variables that change the meaning of names in a line are left out. A grant for `ls` covers the usual program `ls`,
    /// not a function from the environment, a start-up file that redefines it, or a file of that name in the working
    /// directory, which a relative entry of `PATH` would find.
    #[must_use]
    pub fn of_shells(passed: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let kept = passed.into_iter().filter(|(name, _)| !redefines(name) && name != TAG_VARIABLE);
        let mut variables: BTreeMap<OsString, OsString> = kept.collect();
        if let Some(path) = variables.get_mut(OsStr::new("PATH")) {
            *path = without_relative_entries(path);
        }
        variables.extend(NON_INTERACTIVE.map(|(name, value)| (name.into(), value.into())));
        Self(variables)
    }

    /// Returns what is known about the environment of an engine's shells: the home directory, from the variables that the
    /// engine is started with. The engine and the start-up files of its shells set the others as they like, and its shells
    /// may have been in another directory before.
    #[must_use]
    pub fn of_engine(passed: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let kept = passed.into_iter().filter(|(name, _)| name == "HOME" || name == "CDPATH");
        Self(kept.chain([("OLDPWD".into(), OsString::new())]).collect())
    }

    /// Returns the environment of a command in a directory.
    #[must_use]
    pub fn in_directory(&self, cwd: &Path) -> Self {
        let mut variables = self.0.clone();
        variables.insert("PWD".into(), cwd.into());
        Self(variables)
    }

    /// Returns all variables, to start a command with.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns a variable as it is when the shell starts. `None` if the shell is free to set it: it is not in the
    /// environment, or the shell replaces it. `None` as well if it is not text.
    pub(crate) fn known(&self, name: &str) -> Option<&str> {
        let value = self.0.get(OsStr::new(name))?.to_str()?;
        // A shell rewrites a directory that is not in its normal form.
        let is_kept = if name == "PWD" {
            absolute(Path::new("/"), value).as_os_str() == value
        } else {
            !is_set_by_shells(name)
        };
        is_kept.then_some(value)
    }

    /// Whether a variable is set at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    /// Finds `bash`, for which models write; else `/bin/sh`. Blocks.
    #[expect(clippy::disallowed_methods, reason = "`Shells::new` runs where it may block")]
    pub(super) fn find_shell(&self) -> PathBuf {
        let path = self.0.get(OsStr::new("PATH"));
        let on_path: Vec<PathBuf> =
            path.iter().flat_map(std::env::split_paths).map(|dir| dir.join("bash")).collect();
        ["/bin/bash", "/usr/bin/bash"]
            .into_iter()
            .map(PathBuf::from)
            .chain(on_path)
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| PathBuf::from("/bin/sh"))
    }
}

fn redefines(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("BASH_FUNC_")
        || ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE"].contains(&name.as_ref())
}

fn without_relative_entries(path: &OsStr) -> OsString {
    let directories: Vec<PathBuf> = std::env::split_paths(path).filter(|entry| entry.is_absolute()).collect();
    std::env::join_paths(directories).unwrap_or_else(|_| path.to_owned())
}

/// Whether a shell may give a variable another value than its environment does.
#[rustfmt::skip]
fn is_set_by_shells(name: &str) -> bool {
    ["BASH", "COMP_", "HIST", "READLINE_", "ZSH"].iter().any(|prefix| name.starts_with(prefix))
        || matches!(
            name,
            "_" | "COLUMNS" | "COPROC" | "COPROC_PID" | "DIRSTACK" | "EPOCHREALTIME" | "EPOCHSECONDS" | "EUID" | "FUNCNAME"
                | "GROUPS" | "HOSTNAME" | "HOSTTYPE" | "IFS" | "LINENO" | "LINES" | "MACHTYPE" | "MAILCHECK" | "MAPFILE"
                | "OLDPWD" | "OPTARG" | "OPTERR" | "OPTIND" | "OSTYPE" | "PIPESTATUS" | "POSIXLY_CORRECT" | "PPID"
                | "PROMPT_COMMAND" | "PS0" | "PS1" | "PS2" | "PS3" | "PS4" | "RANDOM" | "REPLY" | "SECONDS" | "SHLVL"
                | "SRANDOM" | "TMOUT" | "UID"
        )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn of(passed: &[(&str, &str)]) -> CommandEnvironment {
        CommandEnvironment::of_shells(passed.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn added_variables_are_known_and_missing_ones_are_not() {
        let environment = of(&[("PAGER", "less"), ("BATON_SHELL", "outer"), ("EMPTY", ""), ("SHLVL", "1")]);
        let environment = environment.in_directory(Path::new("/work"));
        assert_eq!(environment.known("PAGER"), Some("cat"));
        assert_eq!(environment.known("PWD"), Some("/work"));
        assert_eq!(environment.known("EMPTY"), Some(""));
        for name in ["BATON_SHELL", "SHELL", "SHLVL", "OLDPWD", "IFS", "NOTHING"] {
            assert_eq!(environment.known(name), None, "{name}");
        }
        assert_eq!(environment.in_directory(Path::new("/work/../x")).known("PWD"), None);
    }

    /// Starts a shell with every variable that it sets by itself, and some others, in its environment.
    #[test]
    fn variables_that_the_shell_sets_are_not_known() {
        let bash = of(&[]).find_shell();
        // Names that bash sets, and all names of its manual that it may.
        let names = Command::new(&bash).args(["-c", "compgen -v"]).output().unwrap().stdout;
        let mut names: Vec<String> = String::from_utf8(names).unwrap().lines().map(str::to_owned).collect();
        names.extend(
            "SHELL HOSTNAME LINES COLUMNS PS1 PS2 PS3 PS4 MAILCHECK OPTIND OPTARG OLDPWD TERM HOME USER LANG PATH EDITOR \
             HISTFILE HISTSIZE REPLY TMOUT IFS FIGNORE EXECIGNORE INPUTRC MAIL MAILPATH FCEDIT TIMEFORMAT auto_resume \
             histchars EMACS CHILD_MAX FUNCNEST GLOBSORT INSIDE_EMACS HOSTFILE XDG_CONFIG_HOME LC_ALL"
                .split_whitespace()
                .map(str::to_owned),
        );
        let value =
            |name: &str| if name == "PATH" { "/usr/bin".to_owned() } else { format!("/value/of/{name}") };
        let passed = names.iter().map(|name| (name.into(), value(name).into()));
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        let environment = CommandEnvironment::of_shells(passed).in_directory(&cwd);
        for name in &names {
            let Some(known) = environment.known(name) else { continue };
            let script = format!("printf %s \"${{{name}}}\"");
            let mut shell = Command::new(&bash);
            shell.args(["-c", &script]).current_dir(&cwd).env_clear().envs(environment.variables());
            let printed = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            assert_eq!(printed, known, "{name}");
        }
    }

    #[test]
    fn variables_that_redefine_names_are_left_out() {
        let environment =
            of(&[("BASH_ENV", "x"), ("BASH_FUNC_ls%%", "() { :; }"), ("PATH", ".:/bin::/usr/bin")]);
        assert!(!environment.has("BASH_ENV") && !environment.has("BASH_FUNC_ls%%"));
        assert_eq!(environment.known("PATH"), Some("/bin:/usr/bin"));
    }
}
