//! Guarded files that a shell line reaches: those of Baton's home and of the kernel.
//!
//! A line that reaches such a file needs approval each time. The text of the line need not contain the path: there are
//! `~/x`, `"$HOME/x"`, globs, links in the working directory, an earlier `cd`, and searches from a parent directory. So the
//! words of the line are expanded as the shell expands them (`expansion`, `glob`), from the environment that the shell is
//! started with, and the resulting paths are resolved. The guarded file is added to the paths of the request, where the
//! policy and the user see it.
//!
//! Where a word can mean several files, it means all of them here: `..` behind a link is the parent of the link for `cd`,
//! and of its target for the kernel. What only the shell knows could be any file, and counts as Baton's home.
//!
//! Opaque lines are skipped: no grant covers them. So are words that a program runs as code (`eval`, `python -c`, `make`): a
//! grant for such a program covers whatever its code does.

mod expansion;
mod glob;
mod search;

use std::path::{Path, PathBuf};

use baton_core::policy::shell::{Commands, Line, Piece, SimpleCommand};
use baton_core::policy::territory::{Standing, Territory};
use baton_disk::beneath;
use baton_disk::paths::{absolute, through_links};
use baton_protocol::permission::PermissionRequest;

use self::expansion::Variables;
use self::glob::Budget;
use self::search::Search;
use super::environment::CommandEnvironment;

/// Limit on the directories that a line may have changed to. A line that exceeds it counts as reaching Baton's home.
const MOST_DIRECTORIES: usize = 16;
/// Limit on the words of a line. A line that exceeds it counts as reaching Baton's home.
const MOST_WORDS: usize = 512;
/// Letters of an option that may precede a file name: `-nfFILE`.
const MOST_LETTERS: usize = 8;

/// The context in which a line would run.
#[derive(Debug, Clone)]
pub struct LineContext {
    cwd: PathBuf,
    home: PathBuf,
    workspace: PathBuf,
    environment: CommandEnvironment,
}

impl LineContext {
    /// Describes a line that would run in `cwd` with this environment. `home` is Baton's home, without links; `workspace`
    /// is the session's own directory.
    #[must_use]
    pub fn new(cwd: &Path, home: &Path, workspace: &Path, environment: &CommandEnvironment) -> Self {
        Self {
            cwd: cwd.to_owned(),
            home: home.to_owned(),
            workspace: workspace.to_owned(),
            environment: environment.in_directory(cwd),
        }
    }
}

/// Adds the first guarded file that the line reaches to the paths of the request. Blocks.
#[must_use]
pub fn with_reach(mut request: PermissionRequest, around: &LineContext) -> PermissionRequest {
    if let PermissionRequest::Shell { full_command_text, possible_paths, input_to: None, .. } = &mut request
        && let Line::Commands(line) = Line::parse(full_command_text)
    {
        let reached = reached(&line, around);
        let reached = reached.map(|path| path.to_string_lossy().into_owned());
        possible_paths.extend(reached.filter(|path| !possible_paths.contains(path)));
    }
    request
}

/// Adds Baton's home to the paths of a request whose line could not be examined.
#[must_use]
pub fn with_unknown_reach(mut request: PermissionRequest, home: &Path) -> PermissionRequest {
    if let PermissionRequest::Shell { possible_paths, input_to: None, .. } = &mut request {
        possible_paths.push(home.to_string_lossy().into_owned());
    }
    request
}

/// Returns the first guarded file that the commands of a line reach.
fn reached(line: &Commands<'_>, around: &LineContext) -> Option<PathBuf> {
    if line.words().count() > MOST_WORDS {
        return Some(around.home.clone());
    }
    let workspace = beneath::resolve(&around.workspace);
    let mut shell = ShellState {
        around,
        // Which files act by themselves matters to writes of tools only.
        territory: Territory {
            cwd: &around.cwd,
            home: Some(&around.home),
            workspace: Some(&workspace),
            engine_files: &[],
        },
        directories: vec![absolute(&around.cwd, "")],
        variables: Variables::new(&around.environment),
        budget: Budget::new(),
        has_links: false,
    };
    line.in_pieces().find_map(|command| match shell.run(&command) {
        Reach::Nothing => None,
        Reach::Guarded(path) => Some(path),
        Reach::Unknown => Some(around.home.clone()),
    })
}

/// The files that a command reaches.
enum Reach {
    /// No guarded file.
    Nothing,
    Guarded(PathBuf),
    /// It cannot be known.
    Unknown,
}

/// The shell that runs a line, as far as its state is known.
struct ShellState<'a> {
    around: &'a LineContext,
    territory: Territory<'a>,
    /// Directories that may be the current one.
    directories: Vec<PathBuf>,
    variables: Variables<'a>,
    budget: Budget,
    /// Whether a command of the line has made links, so that paths do not lead where they lead now.
    has_links: bool,
}

impl ShellState<'_> {
    /// Determines what a command reaches, and what it changes for the next ones.
    fn run(&mut self, command: &SimpleCommand<'_>) -> Reach {
        command.assigned.iter().for_each(|name| self.variables.forget(name));
        let Some(arguments) = self.arguments(command) else { return Reach::Unknown };
        let search = Search::of(command.program, &arguments);
        if search == Search::ThroughLinks || (self.has_links && opens_files(command.program)) {
            return Reach::Unknown;
        }
        let names = std::iter::once(command.program).chain(arguments.iter().map(String::as_str));
        let found: Vec<PathBuf> = names.flat_map(readings).flat_map(|name| self.follow(name)).collect();
        let holds_home = |path: &PathBuf| self.around.home.starts_with(beneath::resolve(path));
        // To compare directories, `diff` follows the links in them.
        let compares_directories =
            || command.program == "diff" && found.iter().any(|path| is_directory(path));
        if search == Search::Below && found.iter().chain(&self.directories).any(holds_home)
            || compares_directories()
        {
            return Reach::Unknown;
        }
        let is_guarded = |path: &&PathBuf| {
            matches!(self.territory.read(path), Standing::EachTime(_)) && !is_null_device(path)
        };
        if let Some(guarded) = found.iter().find(is_guarded) {
            return Reach::Guarded(guarded.clone());
        }
        self.change(command, &arguments, found)
    }

    /// Returns the arguments of a command, expanded. `None` if one is not known, and the command may open it as a file.
    fn arguments(&mut self, command: &SimpleCommand<'_>) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for word in &command.arguments {
            match expansion::arguments(word, &self.variables, &self.directories, &mut self.budget) {
                Some(arguments) => all.extend(arguments),
                None if opens_files(command.program) => return None,
                None => {}
            }
        }
        Some(all)
    }

    /// Resolves a path relative to the directories, with all links: as `cd` does, and as the kernel does.
    fn follow(&self, name: &str) -> Vec<PathBuf> {
        let both = |from: &PathBuf| [beneath::resolve(&absolute(from, name)), through_links(from, name)];
        let mut paths: Vec<PathBuf> = self.directories.iter().flat_map(both).collect();
        paths.dedup();
        paths
    }

    /// Applies what a command changes in the shell. `found` are the paths that its words name.
    fn change(&mut self, command: &SimpleCommand<'_>, arguments: &[String], found: Vec<PathBuf>) -> Reach {
        match command.program {
            "cd" | "pushd" => return self.change_directory(command, arguments, found),
            "ln" => self.has_links = true,
            program if sets_variables(program, arguments) => {
                // `command cd`, `popd` and their like change the directory, too.
                self.directories.extend(found.into_iter().filter(|path| is_directory(path)));
                self.variables.forget_all();
            }
            _ => {}
        }
        self.limit_directories()
    }

    fn change_directory(
        &mut self,
        command: &SimpleCommand<'_>,
        arguments: &[String],
        found: Vec<PathBuf>,
    ) -> Reach {
        let operands = command.arguments.iter().filter(|word| !is_option(word)).count();
        // Assignments count for `cd` itself: `CDPATH=docs cd x`. Other shells replace one operand by the other.
        let is_unusual = !command.assigned.is_empty() || operands > 1;
        let returns = arguments.iter().any(|word| word == "-") && self.variables.may_be_set("OLDPWD");
        if is_unusual || returns || self.variables.may_be_set("CDPATH") {
            return Reach::Unknown;
        }
        if operands == 0 {
            let Some(home) = self.variables.known("HOME").map(str::to_owned) else { return Reach::Unknown };
            self.directories.extend(self.follow(&home));
        }
        self.directories.extend(found);
        // `OLDPWD` is one of the directories now, to which `cd -` adds nothing.
        self.variables.forget("PWD");
        self.limit_directories()
    }

    fn limit_directories(&mut self) -> Reach {
        self.directories.sort();
        self.directories.dedup();
        if self.directories.len() > MOST_DIRECTORIES { Reach::Unknown } else { Reach::Nothing }
    }
}

/// Whether a word of `cd` is an option.
fn is_option(word: &[Piece<'_>]) -> bool {
    matches!(word, [Piece::Bare("-L" | "-P" | "-e" | "-@" | "--")])
}

/// Whether a command may open files that its words name.
fn opens_files(program: &str) -> bool {
    !matches!(program, "echo" | "printf" | "true" | "false" | ":")
}

/// Whether a command may set variables of the shell, or its options. Programs cannot; builtins of any shell can, except
/// those that are known.
#[rustfmt::skip]
fn sets_variables(program: &str, arguments: &[String]) -> bool {
    match program {
        // `printf -v NAME`, `test -v 'a[NAME=1]'`.
        "printf" | "test" | "[" => arguments.iter().any(|word| word.contains('[') || word.starts_with("-v") || word.contains("%n")),
        "." | "source" | "eval" | "exec" | "command" | "builtin" | "trap" | "alias" | "unalias" | "export" | "declare"
        | "typeset" | "local" | "readonly" | "set" | "shopt" | "setopt" | "unsetopt" | "enable" | "disable" | "hash"
        | "unset" | "read" | "mapfile" | "readarray" | "let" | "getopts" | "popd" | "dirs" | "bind" | "complete"
        | "compgen" | "compopt" | "return" | "break" | "continue" | "shift" | "integer" | "float" | "autoload" | "zmodload"
        | "emulate" | "fc" | "history" | "rehash" | "wait" | "vared" | "zparseopts" | "zstyle" | "zformat" | "print"
        | "noglob" | "chdir" | "logout" | "suspend" | "fg" | "bg" | "jobs" | "coproc" | "sched" | "functions" => true,
        _ => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "callers run on a blocking thread")]
fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Whether the path is `/dev/null`, which the policy does not guard.
fn is_null_device(path: &Path) -> bool {
    path == Path::new("/dev/null")
}

/// Returns the paths that an argument can denote: the argument itself, and the value of an option.
fn readings(argument: &str) -> Vec<&str> {
    let mut names = vec![argument];
    names.extend(argument.split_once('=').map(|(_, value)| value));
    if let Some(letters) = argument.strip_prefix('-') {
        // `-f/etc/x`, `-nf/etc/x`.
        names.extend(argument.find(['/', '.']).map(|at| &argument[at..]));
        // `-fFILE`, `-nfFILE`.
        names.extend(letters.char_indices().skip(1).take(MOST_LETTERS).map(|(at, _)| &letters[at..]));
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests;
