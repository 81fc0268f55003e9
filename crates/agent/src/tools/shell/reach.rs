//! Guarded files that a shell line reaches: those of Baton's home and of the kernel.
//!
//! A line that reaches such a file needs approval each time. The text of the line need not contain the path: there are
//! `~/x`, `"$HOME/x"`, links in the working directory, an earlier `cd`, and searches from a parent directory. So the words
//! of the line are expanded as the shell expands them, and the resulting paths are resolved. The guarded file is added to
//! the paths of the request, where the policy and the user see it.
//!
//! Where a word can mean several files, it means all of them here. The words have lost their quotes, so `~/x` is also a file
//! below a directory named `~`; and `..` behind a link is the parent of the link for `cd`, and of its target for the kernel.
//!
//! Opaque lines are skipped: no grant covers them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use baton_core::policy::shell::Line;
use baton_core::policy::territory::{Standing, Territory};
use baton_protocol::permission::PermissionRequest;

use crate::tools::beneath;
use crate::tools::paths::{absolute, through_links};

/// Limit on the directories that a line may have changed to. A line that exceeds it counts as reaching Baton's home.
const MOST_DIRECTORIES: usize = 16;
/// Limit on the words of a line. A line that exceeds it counts as reaching Baton's home.
const MOST_WORDS: usize = 512;

/// The context in which a line would run.
#[derive(Debug, Clone)]
pub struct LineContext {
    /// The working directory.
    pub cwd: PathBuf,
    /// Baton's home, without links.
    pub home: PathBuf,
    /// The session's own directory.
    pub workspace: PathBuf,
    /// The variables that commands see.
    pub environment: Vec<(OsString, OsString)>,
}

/// Adds the first guarded file that the line reaches to the paths of the request. Blocks.
#[must_use]
pub fn with_reach(mut request: PermissionRequest, around: &LineContext) -> PermissionRequest {
    if let PermissionRequest::Shell { full_command_text, possible_paths, input_to: None, .. } = &mut request
        && let Line::Commands(line) = Line::parse(full_command_text)
    {
        let commands: Vec<Vec<&str>> = line.commands_in_words().collect();
        let reached = reached(&commands, around);
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
fn reached(commands: &[Vec<&str>], around: &LineContext) -> Option<PathBuf> {
    if commands.iter().map(Vec::len).sum::<usize>() > MOST_WORDS {
        return Some(around.home.clone());
    }
    let workspace = beneath::resolve(&around.workspace);
    let territory = Territory { cwd: &around.cwd, home: Some(&around.home), workspace: Some(&workspace) };
    let mut directories = vec![absolute(&around.cwd, "")];
    for words in commands {
        let search = Search::of(words);
        let has_moved = directories.len() > 1;
        let is_unknown =
            |word: &&str| is_of_another_user(word) || (opens_files(words) && has_unknown(word, has_moved));
        if search == Search::ThroughLinks || words.iter().any(is_unknown) {
            return Some(around.home.clone());
        }
        let found: Vec<PathBuf> = words
            .iter()
            .flat_map(|word| readings(word, around))
            .flat_map(|name| directories.iter().flat_map(move |from| follow(from, &name)).collect::<Vec<_>>())
            .collect();
        let searched = || found.iter().chain(&directories);
        let holds_home = |path: &PathBuf| around.home.starts_with(beneath::resolve(path));
        // To compare directories, `diff` follows the links in them.
        let compares_directories =
            || words.first() == Some(&"diff") && found.iter().any(|path| is_directory(path));
        if search == Search::Below && searched().any(holds_home) || compares_directories() {
            return Some(around.home.clone());
        }
        if let Some(guarded) = found
            .iter()
            .find(|path| matches!(territory.read(path), Standing::EachTime(_)) && !is_null_device(path))
        {
            return Some(guarded.clone());
        }
        if words.first() == Some(&"cd") {
            let home = || follow(Path::new("/"), &variable("HOME", around));
            directories.extend(if words.len() == 1 { home() } else { found });
            directories.dedup();
            if directories.len() > MOST_DIRECTORIES {
                return Some(around.home.clone());
            }
        }
    }
    None
}

/// Resolves a path relative to a directory, with all links: as `cd` does, and as the kernel does.
fn follow(from: &Path, name: &str) -> Vec<PathBuf> {
    let mut paths = vec![beneath::resolve(&absolute(from, name)), through_links(from, name)];
    paths.dedup();
    paths
}

/// Whether a word may begin with `~user`, `~+` or `~-`, which only the shell can expand.
fn is_of_another_user(word: &str) -> bool {
    word.strip_prefix('~').is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// Whether a command may open files that its words name.
fn opens_files(words: &[&str]) -> bool {
    !matches!(words.first(), Some(&("echo" | "printf" | "true" | "false" | ":")))
}

/// Whether a word has a variable that the shell itself sets, so that its value is not known here: `$DIRSTACK` is a
/// directory, and `$PWD` another one after `cd`.
fn has_unknown(word: &str, has_moved: bool) -> bool {
    word.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        match &rest[..length] {
            "PWD" | "OLDPWD" => has_moved,
            name => is_set_by_the_shell(name),
        }
    })
}

fn is_set_by_the_shell(name: &str) -> bool {
    name.starts_with("BASH")
        || name.starts_with("COMP_")
        || matches!(
            name,
            "DIRSTACK"
                | "EPOCHREALTIME"
                | "EPOCHSECONDS"
                | "EUID"
                | "FUNCNAME"
                | "GROUPS"
                | "HISTCMD"
                | "HOSTNAME"
                | "HOSTTYPE"
                | "IFS"
                | "LINENO"
                | "MACHTYPE"
                | "OPTARG"
                | "OPTERR"
                | "OPTIND"
                | "OSTYPE"
                | "PIPESTATUS"
                | "PPID"
                | "PS4"
                | "RANDOM"
                | "REPLY"
                | "SECONDS"
                | "SHELLOPTS"
                | "SHLVL"
                | "SRANDOM"
                | "TERM"
                | "UID"
        )
}

#[expect(clippy::disallowed_methods, reason = "callers run on a blocking thread")]
fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Whether the path is `/dev/null`, which the policy does not guard.
fn is_null_device(path: &Path) -> bool {
    path == Path::new("/dev/null")
}

/// How a command reads directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Not at all, or without showing contents of files.
    No,
    /// Recursively, without following links.
    Below,
    /// Recursively, following links; or files that the line does not name.
    ThroughLinks,
}

impl Search {
    fn of(words: &[&str]) -> Self {
        let Some((program, rest)) = words.split_first() else { return Self::No };
        let has = |letters: &[char], long: &[&str]| {
            rest.iter().any(|word| match word.strip_prefix('-') {
                Some(option) if option.starts_with('-') => long.iter().any(|name| word.starts_with(name)),
                Some(option) => option.contains(letters),
                None => false,
            })
        };
        let (below, through_links) = match *program {
            "grep" => (has(&['r', 'd'], &["--rec", "--di"]), has(&['R'], &["--der"])),
            "rg" => (true, has(&['L'], &["--follow"])),
            // A program of jq can import files from any directory, and can itself come from a file.
            "jq" => {
                let loads = |word: &&str| word.contains("import") || word.contains("include");
                (false, rest.iter().any(loads) || has(&['f', 'L'], &["--from-file", "--library-path"]))
            }
            _ => (false, false),
        };
        match (below, through_links) {
            (_, true) => Self::ThroughLinks,
            (true, false) => Self::Below,
            (false, false) => Self::No,
        }
    }
}

/// Returns the paths that a word can denote: the word itself and the value of an option, as they are (in quotes), and with
/// variables and `~` expanded.
fn readings(word: &str, around: &LineContext) -> Vec<String> {
    let mut names = vec![word];
    names.extend(word.split_once('=').map(|(_, value)| value));
    if let Some(letters) = word.strip_prefix('-') {
        // `-f/etc/x`, `-nf/etc/x`.
        names.extend(word.find(['/', '~', '$', '.']).map(|at| &word[at..]));
        // `-flink`, `-nflink`: patterns of `grep`.
        names.extend(letters.split_once('f').map(|(_, file)| file));
    }
    let mut paths: Vec<String> = Vec::new();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        for path in [name.to_owned(), expanded(name, around)] {
            if !path.is_empty() && !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

fn expanded(name: &str, around: &LineContext) -> String {
    let mut rest = name;
    let mut text = String::new();
    if let Some(below) = rest.strip_prefix('~').filter(|below| below.is_empty() || below.starts_with('/')) {
        text.push_str(&variable("HOME", around));
        rest = below;
    }
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let inner = behind.strip_prefix('{').unwrap_or(behind);
        let length = inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        match length {
            0 => text.push('$'),
            _ => text.push_str(&variable(&inner[..length], around)),
        }
        rest = &inner[length..];
        if length > 0 && inner.len() < behind.len() {
            rest = rest.strip_prefix('}').unwrap_or(rest);
        }
    }
    text.push_str(rest);
    text
}

fn variable(name: &str, around: &LineContext) -> String {
    if name == "PWD" {
        return around.cwd.to_string_lossy().into_owned();
    }
    let found = around.environment.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_reach_batons_home_by_many_names() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (user, work) = (root.join("user"), root.join("work"));
        let (home, workspace) = (user.join(".state/baton"), user.join(".state/baton/session-state/s"));
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(work.join("sub")).unwrap();
        std::fs::write(home.join("token"), "secret").unwrap();
        std::os::unix::fs::symlink(home.join("token"), work.join("README")).unwrap();
        std::os::unix::fs::symlink(&home, work.join("docs")).unwrap();
        std::os::unix::fs::symlink(&workspace, work.join("own")).unwrap();
        std::os::unix::fs::symlink(home.join("token"), work.join("linked")).unwrap();
        for name in ["~", "$HOME"] {
            std::fs::create_dir(work.join(name)).unwrap();
            std::os::unix::fs::symlink(home.join("token"), work.join(name).join("x")).unwrap();
        }
        let around = LineContext {
            cwd: work.clone(),
            home: home.clone(),
            workspace,
            environment: vec![("HOME".into(), user.into()), ("BATON_HOME".into(), home.clone().into())],
        };
        let call = "c".into();
        let reaches = |line: &str| {
            let request = super::super::permission_request(&call, &work, line, "");
            let PermissionRequest::Shell { possible_paths, .. } = with_reach(request, &around) else {
                panic!("{line}")
            };
            let territory = Territory { cwd: &work, home: Some(&home), workspace: Some(&around.workspace) };
            let is_guarded = |path: &String| matches!(territory.read(Path::new(path)), Standing::EachTime(_));
            possible_paths.iter().any(|path| is_guarded(path) && path != "/dev/null")
        };
        for line in [
            "cat ~/.state/baton/token",
            "cat \"$HOME/.state/baton/token\"",
            "cat \"${BATON_HOME}/token\"",
            "cat README",
            "head -n1 docs/token",
            "cd ~/.state && cat baton/token",
            "cd && cat .state/baton/token",
            "cd / && cat proc/self/environ",
            "cd sub && cat ../docs/token",
            "grep -fREADME x",
            "grep -nf./README x",
            "grep --file=README x",
            "grep -rn x ~",
            "grep -rn x ..",
            "cd .. && rg x",
            "diff -r ~/.state sub",
            "diff sub .",
            "grep --dereference-rec x",
            "grep -R x .",
            "rg --follow x",
            "ls ~/.state/baton",
            "touch ~/.state/baton/new",
            "cat ../user/.state/baton/session-state/other/events.jsonl",
            "cat own/../../token",
            "cd own && cat ../../token",
            "cd own/../.. && cat token",
            "cat '~/x'",
            "cat '$HOME/x'",
            "cat ~root/\"x\"",
            "cat ~+/\"docs/token\"",
            "grep -flinked x",
            "grep -nflinked x",
            "jq -n 'import \"settings\" as $x {search: \"/any\"}; $x'",
            "jq -nf program.jq",
            "cd ~ && cat \"$PWD/.state/baton/token\"",
            "cd ~ && cd / && cat \"$OLDPWD/.state/baton/token\"",
            "cd ~ && cat \"${DIRSTACK}/.state/baton/token\"",
            "cat \"$DIRSTACK/../user/.state/baton/token\"",
            "cat \"$BASH_ARGV0\"",
        ] {
            assert!(reaches(line), "{line}");
        }
        for line in [
            "cat a.txt",
            "ls ~",
            "ls -la ..",
            "grep -rn x .",
            "rg x sub",
            "diff -u a.txt b.txt",
            "cd sub && ls",
            "echo '$HOME' > /dev/null",
            "cat ~/.state/baton/session-state/s/plan.md",
            "find . -name x",
            "cat sub/../a.txt",
            "cat own/plan.md",
            "jq -r '.name' package.json",
            "grep -nF x a.txt",
            "cat \"$PWD/a.txt\"",
            "cd sub && echo \"$PWD $RANDOM\"",
        ] {
            assert!(!reaches(line), "{line}");
        }
    }
}
