//! Territory: the files that a grant for writing or reading covers.
//!
//! A write grant covers the working directory and the session's own files, and nothing else of Baton's home. Some files
//! in the working directory are executed implicitly: git, a shell, an editor or an agent runs commands from them. Writing
//! those needs approval each time, whatever was granted.
//!
//! Paths must be absolute and normal, with links resolved, because this module does no I/O. Any other path is outside.
//! Special names compare without regard to case, as on some file systems: one needless question does no harm.
//!
//! The list of special names is short on purpose. It holds what is executed when a user opens a shell, enters or opens a
//! directory, uses git or starts an agent. Files that are executed when a user builds or runs the project (`Makefile`,
//! `package.json`, `build.rs`, sources) are the work itself. Files whose programs have to be configured elsewhere
//! (`.gitmodules`, `.gitattributes`: in `.git/config`) are guarded there.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path};
use std::sync::LazyLock;

/// Working directory of a session, and directories of Baton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Territory<'a> {
    /// Working directory.
    pub cwd: &'a Path,
    /// Baton's home: its token, its database, the files of all sessions.
    pub home: Option<&'a Path>,
    /// The session's own directory, usually inside the home.
    pub workspace: Option<&'a Path>,
    /// Files and directories that engines act on when they are started, wherever they are: a name, or several with slashes
    /// between them.
    pub engine_files: &'a [String],
}

/// Whether a grant covers a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Covered.
    Covered,
    /// Covered by no grant, for this reason: needs approval each time.
    EachTime(&'static str),
    /// Outside the files that the grant can cover.
    Outside,
}

/// Why files of Baton's home need approval each time.
const HOME: &str = "it belongs to Baton itself";
/// Why kernel file systems need approval each time.
const KERNEL: &str = "it is a view of the running system";
/// Files in a session's directory that only Baton writes.
const BOOKKEEPING: [&str; 6] =
    ["rewind", "checkpoints", "events.jsonl", "session.db", "workspace.yaml", "held-files"];

const GIT: &str = "git runs programs that are named there";
const VERSIONS: &str = "a version control system runs programs that are named there";
const SHELL: &str = "a shell or a login runs it";
const ACCESS: &str = "it decides who may log in, and what is run then";
const TOOL: &str = "a tool runs what is named there";
const EDITOR: &str = "an editor or a shell acts on it when the directory is opened";
const SERVICE: &str = "a service builds, tests or publishes what is named there";
const AGENT: &str = "an agent acts on it when it is started there";

/// Names of files and directories that are executed implicitly, wherever they are. Each entry is one path component or
/// several in a row, in lower case. Files of engines are not among them: [`Territory::engine_files`].
const IMPLICITLY_EXECUTED: &[(&[&str], &str)] = &[
    (&[".git"], GIT),
    (&[".husky"], GIT),
    (&[".githooks"], GIT),
    (&[".pre-commit-config.yaml"], GIT),
    (&[".pre-commit-config.yml"], GIT),
    (&[".lintstagedrc"], GIT),
    (&[".overcommit.yml"], GIT),
    (&[".gitconfig"], GIT),
    (&[".config", "git"], GIT),
    (&[".hg"], VERSIONS),
    (&[".hgrc"], VERSIONS),
    (&[".jj"], VERSIONS),
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
    (&[".xsessionrc"], SHELL),
    (&[".xserverrc"], SHELL),
    (&[".zshrc.local"], SHELL),
    (&[".config", "sway"], SHELL),
    (&[".config", "i3"], SHELL),
    (&[".config", "hypr"], SHELL),
    (&[".config", "plasma-workspace"], SHELL),
    (&[".config", "xprofile"], SHELL),
    (&[".config", "nushell"], SHELL),
    (&[".config", "zsh"], SHELL),
    (&[".config", "bash"], SHELL),
    (&[".config", "tmux"], SHELL),
    (&[".config", "kitty"], SHELL),
    (&[".config", "wezterm"], SHELL),
    (&[".wezterm.lua"], SHELL),
    (&[".screenrc"], SHELL),
    (&["library", "launchdaemons"], SHELL),
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
    (&[".lldbinit"], TOOL),
    (&[".local", "bin"], TOOL),
    (&[".inputrc"], SHELL),
    (&[".tmux.conf"], SHELL),
    (&[".envrc"], EDITOR),
    (&[".config", "direnv"], EDITOR),
    (&[".vscode"], EDITOR),
    (&[".idea"], EDITOR),
    (&[".devcontainer"], EDITOR),
    (&[".devcontainer.json"], EDITOR),
    (&[".zed"], EDITOR),
    (&[".kiro"], EDITOR),
    (&[".vim"], EDITOR),
    (&[".nvim.lua"], EDITOR),
    (&[".nvimrc"], EDITOR),
    (&[".config", "nvim"], EDITOR),
    (&[".dir-locals.el"], EDITOR),
    (&[".dir-locals-2.el"], EDITOR),
    (&[".emacs"], EDITOR),
    (&[".emacs.el"], EDITOR),
    (&[".emacs.d"], EDITOR),
    (&[".config", "emacs"], EDITOR),
    (&[".spacemacs"], EDITOR),
    (&[".doom.d"], EDITOR),
    (&[".config", "doom"], EDITOR),
    (&[".helix"], EDITOR),
    (&[".config", "helix"], EDITOR),
    (&[".gvimrc"], EDITOR),
    (&[".config", "code"], EDITOR),
    (&[".nova"], EDITOR),
    (&[".lazy.lua"], EDITOR),
    (&[".local", "share", "nvim"], EDITOR),
    (&[".kakrc"], EDITOR),
    (&[".config", "kak"], EDITOR),
    (&[".mise.toml"], EDITOR),
    (&["mise.toml"], EDITOR),
    (&[".mise"], EDITOR),
    (&[".mise.local.toml"], EDITOR),
    (&["mise.local.toml"], EDITOR),
    (&[".config", "mise"], EDITOR),
    (&[".config", "mise.toml"], EDITOR),
    (&[".fleet"], EDITOR),
    (&[".exrc"], EDITOR),
    (&[".vimrc"], EDITOR),
    (&[".config", "zed"], EDITOR),
    (&[".rprofile"], TOOL),
    (&[".irbrc"], TOOL),
    (&[".pryrc"], TOOL),
    (&[".psqlrc"], TOOL),
    (&[".sqliterc"], TOOL),
    // Baton's own configuration names the model's address, the variables of commands, and receivers of notifications.
    (&[".config", "baton"], AGENT),
    (&[".config", "crush"], AGENT),
    (&[".config", "github-copilot"], AGENT),
    // A plugin that a client named runs these without asking again.
    (&["plugin.json"], AGENT),
    (&["hooks.json"], AGENT),
    (&[".claude-plugin"], AGENT),
    (&[".github", "plugin"], AGENT),
    (&[".mcp.json"], AGENT),
    (&[".agents"], AGENT),
    (&[".baton"], AGENT),
    (&[".github", "workflows"], SERVICE),
    (&[".github", "actions"], SERVICE),
    (&[".forgejo", "workflows"], SERVICE),
    (&[".gitea", "workflows"], SERVICE),
    (&[".gitlab-ci.yml"], SERVICE),
    (&[".circleci"], SERVICE),
    (&[".buildkite"], SERVICE),
    (&[".woodpecker"], SERVICE),
    (&[".woodpecker.yml"], SERVICE),
    (&[".drone.yml"], SERVICE),
    (&[".travis.yml"], SERVICE),
    (&["azure-pipelines.yml"], SERVICE),
    (&["bitbucket-pipelines.yml"], SERVICE),
    (&["jenkinsfile"], SERVICE),
    (&[".github", "agents"], AGENT),
    (&[".github", "hooks"], AGENT),
    (&[".github", "extensions"], AGENT),
    (&[".github", "mcp.json"], AGENT),
    (&[".github", "skills"], AGENT),
    (&[".claude", "agents"], AGENT),
    (&[".claude", "skills"], AGENT),
    (&[".copilot"], AGENT),
    (&[".cursor"], AGENT),
    (&[".crush"], AGENT),
    (&["crush.json"], AGENT),
    (&[".crush.json"], AGENT),
    (&[".windsurf"], AGENT),
    (&[".roo"], AGENT),
    (&[".continue"], AGENT),
    (&[".amp"], AGENT),
    (&[".aider.conf.yml"], AGENT),
];

impl Territory<'_> {
    /// Returns whether a write grant covers a path.
    #[must_use]
    pub fn write(&self, resolved: &Path) -> Standing {
        match self.owner(resolved) {
            Owner::Session(rest) if is_bookkeeping(rest) => Standing::EachTime(HOME),
            Owner::Session(_) => Standing::Covered,
            Owner::Baton => Standing::EachTime(HOME),
            Owner::Kernel => Standing::EachTime(KERNEL),
            Owner::User => self.acts_by_itself(resolved).map_or(Standing::Covered, Standing::EachTime),
            Owner::Other => Standing::Outside,
        }
    }

    /// Returns whether a read grant covers a path.
    #[must_use]
    pub fn read(&self, resolved: &Path) -> Standing {
        match self.owner(resolved) {
            Owner::Session(_) | Owner::User => Standing::Covered,
            Owner::Baton => Standing::EachTime(HOME),
            Owner::Kernel => Standing::EachTime(KERNEL),
            Owner::Other => Standing::Outside,
        }
    }

    /// Returns what a write grant covers, as text for the user.
    #[must_use]
    pub fn write_meaning(&self) -> String {
        format!(
            "any file in {}, except git's own files and hooks, start-up files of shells, .ssh, settings of editors and \
             agents, and Baton's home, which are asked for each time",
            self.cwd.display()
        )
    }

    /// Whether a path needs approval each time, also for reading.
    pub(super) fn is_guarded(&self, resolved: &Path) -> bool {
        is_plain(resolved) && matches!(self.special_owner(resolved), Some(Owner::Baton | Owner::Kernel))
    }

    /// Returns why a file is executed implicitly, if it is.
    #[must_use]
    pub fn acts_by_itself(&self, path: &Path) -> Option<&'static str> {
        let names: Vec<String> = path.components().map(|part| folded(part.as_os_str())).collect();
        let has = |wanted: &[&str]| names.windows(wanted.len()).any(|run| run.iter().eq(wanted.iter()));
        let listed = IMPLICITLY_EXECUTED.iter().find(|(wanted, _)| has(wanted)).map(|(_, reason)| *reason);
        let is_engine_file = |file: &String| {
            let file: String = fold(file).collect();
            has(&file.split('/').collect::<Vec<_>>())
        };
        listed
            .or_else(|| names.iter().any(|name| configures_hooks(name)).then_some(GIT))
            .or_else(|| self.engine_files.iter().any(is_engine_file).then_some(AGENT))
    }

    /// Whether a path that ends with this name may act although its parent does not. Quick, for walks over many files.
    #[must_use]
    pub fn may_act(&self, name: &OsStr) -> bool {
        // Each rule by the last of its names.
        static LAST: LazyLock<HashSet<&str>> = LazyLock::new(|| {
            IMPLICITLY_EXECUTED.iter().filter_map(|(names, _)| names.last().copied()).collect()
        });
        let name = folded(name);
        let of_engine = |file: &String| fold(file).collect::<String>().rsplit('/').next() == Some(&name);
        LAST.contains(name.as_str()) || configures_hooks(&name) || self.engine_files.iter().any(of_engine)
    }

    fn owner<'p>(&self, path: &'p Path) -> Owner<'p> {
        if !is_plain(path) {
            return Owner::Other;
        }
        self.special_owner(path).unwrap_or_else(|| {
            if is_plain(self.cwd) && path.starts_with(self.cwd) { Owner::User } else { Owner::Other }
        })
    }

    /// Returns the owner of a plain path that does not depend on the working directory.
    fn special_owner<'p>(&self, path: &'p Path) -> Option<Owner<'p>> {
        if let Some(rest) = self.workspace.and_then(|workspace| path.strip_prefix(workspace).ok()) {
            return Some(Owner::Session(rest));
        }
        if self.home.is_some_and(|home| is_below(path, home)) {
            return Some(Owner::Baton);
        }
        is_in_kernel_file_system(path).then_some(Owner::Kernel)
    }
}

/// Owner of a path.
enum Owner<'a> {
    /// The session; with the path below its directory.
    Session(&'a Path),
    Baton,
    Kernel,
    /// The user, in the working directory.
    User,
    /// Anything else.
    Other,
}

/// Whether a file configures lefthook, which has many names for it: `.lefthook-local.toml`.
fn configures_hooks(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_prefix("lefthook").map(|rest| rest.strip_prefix("-local").unwrap_or(rest));
    name.is_some_and(|ending| matches!(ending, "" | ".yml" | ".yaml" | ".toml" | ".json" | ".jsonc"))
}

fn is_bookkeeping(rest: &Path) -> bool {
    let first = rest.components().next().map(|part| folded(part.as_os_str())).unwrap_or_default();
    // By prefix: the database has companion files, such as a journal.
    BOOKKEEPING.iter().any(|name| first.starts_with(name))
}

/// Returns the files that a request names, one on each line: an engine can ask for several at once. A grant has to cover
/// each of them.
pub fn files(file_name: &str) -> impl Iterator<Item = &Path> {
    file_name.split('\n').map(Path::new)
}

/// Whether a path is absolute and normal. A path with a line break could be two.
pub(super) fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    path.is_absolute()
        && !bytes.contains(&b'\n')
        && bytes.split(|byte| std::path::is_separator(char::from(*byte))).all(|name| name != b"..")
}

/// Whether a path is in a file system of the kernel: processes with their environment, devices. No grant covers those.
fn is_in_kernel_file_system(path: &Path) -> bool {
    let mut names = path.components().skip(1).map(Component::as_os_str);
    match names.next().and_then(OsStr::to_str) {
        Some("proc" | "sys") => true,
        // Shared memory is ordinary storage.
        Some("dev") => names.next() != Some(OsStr::new("shm")),
        _ => false,
    }
}

/// Whether a path is a directory or inside it, also on file systems that ignore case.
fn is_below(path: &Path, directory: &Path) -> bool {
    let mut parts = path.components();
    directory.components().all(|wanted| parts.next().is_some_and(|part| is_same(part, wanted)))
}

fn is_same(a: Component<'_>, b: Component<'_>) -> bool {
    let (a, b) = (a.as_os_str(), b.as_os_str());
    a == b || fold(&a.to_string_lossy()).eq(fold(&b.to_string_lossy()))
}

fn folded(name: &OsStr) -> String {
    fold(&name.to_string_lossy()).collect()
}

/// Normalises a name as the most lenient file systems do: without case and zero-width characters.
fn fold(name: &str) -> impl Iterator<Item = char> {
    let is_ignored = |c: &char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    name.chars().filter(move |c| !is_ignored(c)).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests;
