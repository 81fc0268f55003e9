//! Territory: which files a grant for writing or reading covers.
//!
//! A write grant covers the working directory and the session's own files, and nothing of Baton's home beyond those.
//! Inside the working directory some files act by themselves: git, a shell, an editor or an agent runs what stands in
//! them without anybody naming a program. Writing those is asked each time, whatever was granted.
//!
//! Paths come in absolute, plain and with links resolved, because this module does no I/O. A path that is not plain is
//! outside. Special names compare without regard to case, as some file systems do: asking once too often does no harm.
//!
//! The list of special names is short on purpose. It holds what runs when somebody opens a shell, enters or opens a
//! directory, uses git or starts an agent. What runs because a person runs the project (`Makefile`, `package.json`,
//! `build.rs`, sources) is the work itself, and what a later check protects (`.gitmodules`, `.gitattributes`, whose
//! programs have to be named in `.git/config`) needs no place here.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Where a session works, and what belongs to Baton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Territory {
    /// The working directory.
    pub cwd: PathBuf,
    /// Baton's home: its token, its database, the files of all sessions.
    pub home: Option<PathBuf>,
    /// The session's own directory, usually inside the home.
    pub workspace: Option<PathBuf>,
}

/// What a grant means for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The grant covers it.
    Covered,
    /// No grant covers it, for this reason: it is asked each time.
    EachTime(&'static str),
    /// The grant is not about it.
    Outside,
}

/// Why files of Baton's home are asked for each time.
const HOME: &str = "it belongs to Baton itself";
/// Why views of the kernel are asked for each time.
const KERNEL: &str = "it is a view of the running system";
/// Files of a session's directory that Baton keeps for itself.
const BOOKKEEPING: [&str; 5] = ["rewind", "checkpoints", "events.jsonl", "session.db", "workspace.yaml"];

const GIT: &str = "git runs programs that are named there";
const SHELL: &str = "a shell or a login runs it";
const ACCESS: &str = "it decides who may log in, and what is run then";
const TOOL: &str = "a tool runs what is named there";
const EDITOR: &str = "an editor or a shell acts on it when the directory is opened";
const AGENT: &str = "an agent acts on it when it is started there";

/// Names that act wherever they are: a file of that name, or a directory with all that is in it. Each is one name or
/// several in a row, in lower case.
const ACTING: &[(&[&str], &str)] = &[
    (&[".git"], GIT),
    (&[".husky"], GIT),
    (&[".githooks"], GIT),
    (&[".pre-commit-config.yaml"], GIT),
    (&[".gitconfig"], GIT),
    (&[".config", "git"], GIT),
    (&[".bashrc"], SHELL),
    (&[".bash_profile"], SHELL),
    (&[".bash_login"], SHELL),
    (&[".bash_logout"], SHELL),
    (&[".bash_aliases"], SHELL),
    (&[".profile"], SHELL),
    (&[".zshrc"], SHELL),
    (&[".zshenv"], SHELL),
    (&[".zprofile"], SHELL),
    (&[".zlogin"], SHELL),
    (&[".zlogout"], SHELL),
    (&[".kshrc"], SHELL),
    (&[".cshrc"], SHELL),
    (&[".tcshrc"], SHELL),
    (&[".login"], SHELL),
    (&[".xprofile"], SHELL),
    (&[".xinitrc"], SHELL),
    (&[".xsession"], SHELL),
    (&[".pam_environment"], SHELL),
    (&[".config", "fish"], SHELL),
    (&[".config", "environment.d"], SHELL),
    (&[".config", "systemd"], SHELL),
    (&[".config", "autostart"], SHELL),
    (&["library", "launchagents"], SHELL),
    (&[".ssh"], ACCESS),
    (&[".netrc"], ACCESS),
    (&[".npmrc"], ACCESS),
    (&[".cargo"], TOOL),
    (&[".yarnrc.yml"], TOOL),
    (&[".gdbinit"], TOOL),
    (&[".local", "bin"], TOOL),
    (&[".inputrc"], SHELL),
    (&[".tmux.conf"], SHELL),
    (&[".envrc"], EDITOR),
    (&[".vscode"], EDITOR),
    (&[".idea"], EDITOR),
    (&[".devcontainer"], EDITOR),
    (&[".zed"], EDITOR),
    (&[".kiro"], EDITOR),
    (&[".vim"], EDITOR),
    (&[".nvim.lua"], EDITOR),
    (&[".nvimrc"], EDITOR),
    (&[".config", "nvim"], EDITOR),
    (&[".dir-locals.el"], EDITOR),
    (&[".mise.toml"], EDITOR),
    (&["mise.toml"], EDITOR),
    (&[".exrc"], EDITOR),
    (&[".vimrc"], EDITOR),
    (&[".mcp.json"], AGENT),
    (&[".claude"], AGENT),
    (&[".codex"], AGENT),
    (&[".copilot"], AGENT),
    (&[".cursor"], AGENT),
    (&[".gemini"], AGENT),
    (&[".opencode"], AGENT),
    (&["opencode.json"], AGENT),
    (&["opencode.jsonc"], AGENT),
    (&[".crush"], AGENT),
    (&["crush.json"], AGENT),
    (&[".crush.json"], AGENT),
    (&[".pi"], AGENT),
    (&[".qwen"], AGENT),
];

impl Territory {
    /// Returns what a write grant means for a path.
    #[must_use]
    pub fn write(&self, resolved: &Path) -> Standing {
        match self.whose(resolved) {
            Owner::Session(rest) if is_bookkeeping(rest) => Standing::EachTime(HOME),
            Owner::Session(_) => Standing::Covered,
            Owner::Baton => Standing::EachTime(HOME),
            Owner::Kernel => Standing::EachTime(KERNEL),
            Owner::Person => acts(resolved).map_or(Standing::Covered, Standing::EachTime),
            Owner::Somebody => Standing::Outside,
        }
    }

    /// Returns what a read grant means for a path.
    #[must_use]
    pub fn read(&self, resolved: &Path) -> Standing {
        match self.whose(resolved) {
            Owner::Session(_) | Owner::Person => Standing::Covered,
            Owner::Baton => Standing::EachTime(HOME),
            Owner::Kernel => Standing::EachTime(KERNEL),
            Owner::Somebody => Standing::Outside,
        }
    }

    /// Returns what a write grant covers, in words for the person who gives it.
    #[must_use]
    pub fn write_meaning(&self) -> String {
        format!(
            "any file in {}, except git's own files and hooks, start-up files of shells, .ssh, settings of editors and \
             agents, and Baton's home, which are asked for each time",
            self.cwd.display()
        )
    }

    fn whose<'a>(&self, path: &'a Path) -> Owner<'a> {
        if !is_plain(path) {
            return Owner::Somebody;
        }
        if let Some(rest) = self.workspace.as_deref().and_then(|workspace| path.strip_prefix(workspace).ok())
        {
            return Owner::Session(rest);
        }
        if self.home.as_deref().is_some_and(|home| is_below(path, home)) {
            return Owner::Baton;
        }
        if is_view(path) {
            return Owner::Kernel;
        }
        if is_plain(&self.cwd) && path.starts_with(&self.cwd) { Owner::Person } else { Owner::Somebody }
    }
}

/// To whom a path belongs.
enum Owner<'a> {
    /// To the session; the path below its directory.
    Session(&'a Path),
    Baton,
    Kernel,
    /// To the person, in the working directory.
    Person,
    Somebody,
}

/// Returns why a file acts by itself, if it does; wherever it is.
#[must_use]
pub fn acts(path: &Path) -> Option<&'static str> {
    let names: Vec<String> = path.components().map(|part| folded(part.as_os_str())).collect();
    let is_in = |wanted: &[&str]| names.windows(wanted.len()).any(|run| run.iter().eq(wanted.iter()));
    ACTING.iter().find(|(wanted, _)| is_in(wanted)).map(|(_, reason)| *reason)
}

fn is_bookkeeping(rest: &Path) -> bool {
    let first = rest.components().next().map(|part| folded(part.as_os_str())).unwrap_or_default();
    // The database has companions: a journal, shared memory.
    BOOKKEEPING.iter().any(|name| first.starts_with(name))
}

/// Returns the files that a request names: one on each line, because a program can ask for several at once. What a grant
/// or a rule says has to hold for each of them.
pub fn files(file_name: &str) -> impl Iterator<Item = &Path> {
    file_name.split('\n').map(Path::new)
}

/// Whether a path is absolute and has no detours. One with a line break in it could be two.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && !path.as_os_str().as_encoded_bytes().contains(&b'\n')
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Whether a path is a view of the kernel: processes with their environment, devices. No grant means those.
fn is_view(path: &Path) -> bool {
    // Shared memory is storage like any other.
    ["/proc", "/sys", "/dev"].iter().any(|view| path.starts_with(view)) && !path.starts_with("/dev/shm")
}

/// Whether a path is a directory or inside it, on any file system.
fn is_below(path: &Path, directory: &Path) -> bool {
    let mut parts = path.components().map(|part| folded(part.as_os_str()));
    directory.components().all(|part| parts.next().is_some_and(|name| name == folded(part.as_os_str())))
}

/// A name without what some file systems ignore: case, and characters that have no width.
fn folded(name: &OsStr) -> String {
    let is_ignored = |c: &char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    name.to_string_lossy().chars().filter(|c| !is_ignored(c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn territory(cwd: &str) -> Territory {
        Territory {
            cwd: cwd.into(),
            home: Some("/home/ann/.baton".into()),
            workspace: Some("/home/ann/.baton/session-state/s1".into()),
        }
    }

    #[test]
    fn a_write_grant_covers_the_working_directory() {
        let at = territory("/work/x");
        for (path, covered) in [
            ("/work/x/src/main.rs", true),
            ("/work/x/.github/workflows/ci.yml", true),
            ("/work/x/.gitignore", true),
            ("/work/x/.gitmodules", true),
            ("/work/xy/a", false),
            ("/work", false),
            ("/etc/passwd", false),
            ("/work/x/../y", false),
            ("/work/x/a\n/etc/passwd", false),
            ("relative", false),
            ("", false),
        ] {
            let expected = if covered { Standing::Covered } else { Standing::Outside };
            assert_eq!(at.write(Path::new(path)), expected, "{path}");
            assert_eq!(at.read(Path::new(path)), expected, "{path}");
        }
        assert_eq!(
            Territory { cwd: PathBuf::new(), ..at }.write(Path::new("/etc/passwd")),
            Standing::Outside
        );
    }

    #[test]
    fn batons_home_is_asked_for_even_inside_the_working_directory() {
        for cwd in ["/home/ann", "/", "/home/ann/.baton", "/home/ann/.baton/session-state"] {
            let at = territory(cwd);
            for path in [
                "token",
                "permissions.json",
                "baton.db",
                "session-state/s2/plan.md",
                "",
                "session-state/s10/x",
            ] {
                let path = Path::new("/home/ann/.baton").join(path);
                assert_eq!(at.write(&path), Standing::EachTime(HOME), "{cwd} {}", path.display());
                assert_eq!(at.read(&path), Standing::EachTime(HOME), "{cwd} {}", path.display());
            }
            assert_eq!(at.read(Path::new("/home/ann/.BATON/token")), Standing::EachTime(HOME));
        }
    }

    #[test]
    fn a_session_writes_its_own_files_and_not_what_baton_keeps_there() {
        let at = territory("/work/x");
        for (path, expected) in [
            ("plan.md", Standing::Covered),
            ("files/a.txt", Standing::Covered),
            ("notes/a.txt", Standing::Covered),
            ("events.jsonl", Standing::EachTime(HOME)),
            ("session.db-wal", Standing::EachTime(HOME)),
            ("Rewind/abc", Standing::EachTime(HOME)),
        ] {
            let path = Path::new("/home/ann/.baton/session-state/s1").join(path);
            assert_eq!(at.write(&path), expected, "{}", path.display());
            assert_eq!(at.read(&path), Standing::Covered);
        }
    }

    #[test]
    fn files_that_act_by_themselves_are_asked_for_each_time() {
        let at = territory("/home/ann/src");
        for path in [
            ".git/hooks/pre-commit",
            ".git/config",
            ".git",
            ".GIT/Config",
            ".g\u{200c}it/config",
            "sub/.git/hooks/x",
            ".git/modules/sub/hooks/post-checkout",
            ".git/worktrees/w/config.worktree",
            ".husky/pre-push",
            ".bashrc",
            ".Zshenv",
            ".profile",
            ".ssh/authorized_keys",
            ".config/fish/config.fish",
            ".config/git/config",
            ".envrc",
            ".vscode/tasks.json",
            ".claude/settings.json",
            ".mcp.json",
            "Library/LaunchAgents/x.plist",
        ] {
            let path = Path::new("/home/ann/src").join(path);
            assert!(matches!(at.write(&path), Standing::EachTime(_)), "{}", path.display());
            assert_eq!(at.read(&path), Standing::Covered, "reading changes nothing");
        }
        for path in
            ["config", "fish/config.fish", ".config/app.toml", "git/hooks", "a.git", ".bashrc.md", ".sshx"]
        {
            assert_eq!(at.write(&Path::new("/home/ann/src").join(path)), Standing::Covered, "{path}");
        }
    }

    #[test]
    fn a_request_can_name_several_files() {
        let named: Vec<&Path> = files("/work/a\n/etc/passwd").collect();
        assert_eq!(named, [Path::new("/work/a"), Path::new("/etc/passwd")]);
        assert_eq!(files("").count(), 1, "a request without a file is not one without an objection");
    }

    #[test]
    fn a_write_grant_says_what_it_covers() {
        let said = territory("/work/x").write_meaning();
        for part in ["any file in /work/x", "git", "shells", ".ssh", "Baton's home", "each time"] {
            assert!(said.contains(part), "{said}");
        }
    }

    proptest! {
        /// Whatever is covered is plainly below one of the two directories, and nothing special is on the way.
        #[test]
        fn what_is_covered_is_inside(
            parts in prop::collection::vec(prop::sample::select(vec![
                "..", ".", "", "work", "x", ".git", ".GIT", "hooks", "config", ".config", "fish", "home", "ann", ".baton", "token",
                "session-state", "s1", "files", "\u{200b}", "/",
            ]), 0..8),
        ) {
            let path = PathBuf::from(format!("/{}", parts.join("/")));
            let at = territory("/work");
            if at.write(&path) == Standing::Covered {
                prop_assert!(path.starts_with("/work") || path.starts_with("/home/ann/.baton/session-state/s1"));
                prop_assert!(!parts.contains(&".."));
                let in_session = path.starts_with("/home/ann/.baton/session-state/s1");
                prop_assert!(in_session || !parts.iter().any(|part| part.eq_ignore_ascii_case(".git")));
                prop_assert_eq!(at.read(&path), Standing::Covered);
            }
        }
    }
}
