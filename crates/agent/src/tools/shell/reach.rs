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
//! A word is also taken apart: `@FILE`, `NAME=FILE`, `-fFILE`, `file:///FILE`. Where a program looks for files below a directory
//! that a word names (`-C DIR`), those are examined, too.
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
use self::search::{NewLinks, Search};
use super::environment::CommandEnvironment;

/// Limit on the directories that a line may have changed to. A line that exceeds it counts as reaching Baton's home.
const MOST_DIRECTORIES: usize = 16;
/// Limit on the words of a line. A line that exceeds it counts as reaching Baton's home.
const MOST_WORDS: usize = 512;
/// Letters of an option that may precede a file name: `-nfFILE`.
const MOST_LETTERS: usize = 8;
/// Limit on the parts of a word that may be file names. A word that exceeds it counts as reaching Baton's home.
const MOST_PARTS: usize = 64;

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
        let names = || std::iter::once(command.program).chain(arguments.iter().map(String::as_str));
        let found: Vec<PathBuf> = names().flat_map(readings).flat_map(|name| self.follow(name)).collect();
        let Some(inside) = self.paths_inside(command.program, &arguments) else { return Reach::Unknown };
        let home = &self.around.home;
        let holds_home = |path: &PathBuf| home.starts_with(beneath::resolve(path));
        // To compare directories, `diff` follows the links in them.
        let compares_directories =
            || command.program == "diff" && found.iter().any(|path| is_directory(path));
        let searches_home = match search {
            Search::No | Search::ThroughLinks => false,
            Search::Named => found.iter().any(holds_home),
            Search::NamedThroughLinks => found.iter().any(holds_home) || self.finds_link(&arguments),
            Search::Below => found.iter().chain(&self.directories).any(holds_home),
        };
        if searches_home || compares_directories() {
            return Reach::Unknown;
        }
        let is_guarded = |path: &&PathBuf| {
            matches!(self.territory.read(path), Standing::EachTime(_)) && !is_null_device(path)
        };
        if let Some(guarded) = found.iter().chain(&inside).find(is_guarded) {
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
        follow(&self.directories, name)
    }

    /// Returns the paths that parts of the arguments denote, and those below directories that the program changes to by itself.
    /// `None` if there are too many, or one cannot be known.
    fn paths_inside(&self, program: &str, arguments: &[String]) -> Option<Vec<PathBuf>> {
        let (own, mut paths) = (self.own_directories(arguments)?, Vec::new());
        for argument in arguments.iter().filter(|_| opens_files(program)) {
            if opens_addresses(program) && has_file_address(argument) {
                return None;
            }
            paths.extend(parts(argument)?.into_iter().flat_map(|part| self.follow(part)));
            paths.extend(readings(argument).into_iter().flat_map(|name| follow(&own, name)));
        }
        Some(paths)
    }

    /// Returns the directories that a program changes to by itself: `git -C DIR`, `tar --directory=DIR`. `None` if there are too
    /// many.
    fn own_directories(&self, arguments: &[String]) -> Option<Vec<PathBuf>> {
        let (mut own, mut is_next) = (Vec::new(), false);
        for word in arguments {
            let option = CHANGES_DIRECTORY.iter().find_map(|option| word.strip_prefix(option));
            let named = option.map_or(word.as_str(), |rest| rest.trim_start_matches('='));
            if (is_next || option.is_some()) && !named.is_empty() {
                // Each is relative to the one before.
                let paths = self.follow(named).into_iter().chain(follow(&own, named));
                own = own.iter().cloned().chain(paths.filter(|path| is_directory(path))).collect();
                own.sort();
                own.dedup();
                if own.len() > MOST_DIRECTORIES {
                    return None;
                }
            }
            is_next = option.is_some() && named.is_empty();
        }
        Some(own)
    }

    /// Applies what a command changes in the shell. `found` are the paths that its words name.
    fn change(&mut self, command: &SimpleCommand<'_>, arguments: &[String], found: Vec<PathBuf>) -> Reach {
        self.has_links |= match NewLinks::of(command.program, arguments) {
            NewLinks::No => false,
            NewLinks::OfNamed => self.moves_links(command, arguments),
            NewLinks::Any => true,
        };
        match command.program {
            "cd" | "pushd" => return self.change_directory(command, arguments, found),
            program if sets_variables(program, arguments) => {
                // `command cd`, `popd` and their like change the directory, too.
                self.directories.extend(found.into_iter().filter(|path| is_directory(path)));
                self.variables.forget_all();
            }
            _ => {}
        }
        self.limit_directories()
    }

    /// Whether an argument is a link, or a directory that may contain one. The last argument is where they go.
    fn moves_links(&mut self, command: &SimpleCommand<'_>, arguments: &[String]) -> bool {
        let is_literal = arguments.len() == command.arguments.len();
        let names_target = arguments.iter().any(|word| word.starts_with("-t") || word.starts_with("--t"));
        let moved = match arguments.split_last() {
            Some((_, moved)) if is_literal && !names_target => moved,
            _ => arguments,
        };
        self.finds_link(moved)
    }

    /// Whether one of these paths is a link, or a directory that may contain one.
    fn finds_link(&mut self, names: &[String]) -> bool {
        let Self { directories, budget, .. } = self;
        names.iter().any(|name| directories.iter().any(|from| budget.finds_link(absolute(from, name))))
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

/// Options with a directory to which a program changes before it opens files.
const CHANGES_DIRECTORY: [&str; 4] = ["-C", "--directory", "--chdir", "--cwd"];

/// Resolves a path relative to each directory, with all links: as `cd` does, and as the kernel does.
fn follow(directories: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let both = |from: &PathBuf| [beneath::resolve(&absolute(from, name)), through_links(from, name)];
    let mut paths: Vec<PathBuf> = directories.iter().flat_map(both).collect();
    paths.dedup();
    paths
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

/// Returns the parts of an argument that programs may take for paths: `@FILE`, `host:FILE`, `name=@FILE;type=text/plain`. `None`
/// if there are too many.
fn parts(argument: &str) -> Option<Vec<&str>> {
    let is_separator = |c: char| matches!(c, '=' | '@' | ':' | ',' | ';');
    let to_the_end =
        argument.match_indices(is_separator).map(|(at, separator)| &argument[at + separator.len()..]);
    let between = argument.split(is_separator).filter(|part| part.len() < argument.len());
    let parts: Vec<&str> =
        to_the_end.chain(between).filter(|part| !part.is_empty()).take(2 * MOST_PARTS).collect();
    (parts.len() < 2 * MOST_PARTS).then_some(parts)
}

/// Whether a program may open the file that an address in its arguments names. Programs that search or print text do not.
fn opens_addresses(program: &str) -> bool {
    opens_files(program)
        && !matches!(
            program,
            "grep"
                | "egrep"
                | "fgrep"
                | "rg"
                | "ag"
                | "ack"
                | "ugrep"
                | "sed"
                | "jq"
                | "expr"
                | "test"
                | "["
                | "basename"
                | "dirname"
        )
}

/// Whether a word contains `file:/`.
fn has_file_address(word: &str) -> bool {
    word.match_indices(":/").any(|(at, _)| {
        let scheme = at.checked_sub(4).and_then(|start| word.get(start..at));
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file"))
    })
}

#[cfg(test)]
mod tests;
